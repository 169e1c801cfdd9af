"""Replay buffers: of single transitions, and of whole episodes to sample sequences from."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from holdfast.model.arrays import BoolArray, Float32Array, IntArray

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Transitions:
    """Batches of transitions; leading axes are (update, batch)."""

    inputs: Float32Array
    actions: IntArray
    rewards: Float32Array
    next_inputs: Float32Array
    dones: BoolArray  # the episode ended with this transition


class TransitionReplay:
    """The last `capacity` transitions, sampled uniformly."""

    def __init__(self, capacity: int, width: int) -> None:
        self._arrays: Arrays = {
            "inputs": np.zeros((capacity, width), np.float32),
            "actions": np.zeros(capacity, np.int64),
            "rewards": np.zeros(capacity, np.float32),
            "next_inputs": np.zeros((capacity, width), np.float32),
            "dones": np.zeros(capacity, np.bool_),
        }
        self._capacity = capacity
        self._added = 0

    def __len__(self) -> int:
        return min(self._added, self._capacity)

    def add(
        self,
        inputs: Float32Array,
        action: int,
        reward: float,
        next_inputs: Float32Array,
        *,
        done: bool,
    ) -> None:
        index = self._added % self._capacity
        for array, value in zip(
            self._arrays.values(), (inputs, action, reward, next_inputs, done), strict=True
        ):
            array[index] = value
        self._added += 1

    def sample(self, shape: tuple[int, int], rng: np.random.Generator) -> Transitions:
        """Return batches, (updates, batch), sampled with replacement."""
        chosen = rng.integers(len(self), size=shape)
        return Transitions(**{name: array[chosen] for name, array in self._arrays.items()})

    def arrays(self) -> Arrays:
        return {name: array[: len(self)] for name, array in self._arrays.items()} | {
            "added": np.array(self._added)
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._added = int(arrays["added"])
        for name, array in self._arrays.items():
            array[: len(self)] = arrays[name]


@dataclass(frozen=True)
class Sequences:
    """Batches of sequences in time order: axes are (update, time, batch).

    `inputs` has one step more than the rest; `mask` is false after the end of an episode.
    """

    inputs: Float32Array
    actions: IntArray
    rewards: Float32Array
    dones: BoolArray
    mask: BoolArray


class EpisodeReplay:
    """Whole episodes; the oldest are dropped when they hold more than `capacity` decisions.

    Of a longer episode only the end is stored. Episodes lie one after the other in a ring, each
    with one more slot for its final observation.
    """

    def __init__(self, capacity: int, width: int) -> None:
        self._size = 2 * capacity  # an episode of one decision takes two slots
        self._capacity = capacity
        self._inputs = np.zeros((self._size, width), np.float32)
        self._actions = np.zeros(self._size, np.int64)
        self._rewards = np.zeros(self._size, np.float32)
        self._starts: list[int] = []
        self._lengths: list[int] = []

    def __len__(self) -> int:
        return sum(self._lengths)

    def add(self, inputs: Float32Array, actions: IntArray, rewards: Float32Array) -> None:
        """Add an episode; `inputs` has one row more than the rest."""
        length = min(len(actions), self._capacity)
        start = (self._starts[-1] + self._lengths[-1] + 1) % self._size if self._starts else 0
        self._starts.append(start)
        self._lengths.append(length)
        while len(self) > self._capacity:
            del self._starts[0], self._lengths[0]
        slots = (start + np.arange(length + 1)) % self._size
        self._inputs[slots] = inputs[-length - 1 :]
        self._actions[slots[:-1]] = actions[-length:]
        self._rewards[slots[:-1]] = rewards[-length:]

    def sample(self, shape: tuple[int, int], length: int, rng: np.random.Generator) -> Sequences:
        """Return (updates, batch) sequences of `length`; shorter episodes are padded with zeros."""
        return self._sequences(*self._choose(shape, length, rng), length)

    def _choose(
        self, shape: tuple[int, int], length: int, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        """Return the numbers of episodes, and the decisions in them at which sequences begin."""
        episodes = rng.integers(len(self._starts), size=shape)
        offsets = rng.integers(np.maximum(np.array(self._lengths)[episodes] - length, 0) + 1)
        return episodes, offsets

    def _sequences(self, episodes: IntArray, offsets: IntArray, length: int) -> Sequences:
        times, end, slots = self._slots(episodes, offsets, length)
        known = (times >= 0) & (times <= end)
        mask = known[:, :-1] & (times[:, :-1] < end)
        return Sequences(
            inputs=np.where(known[..., np.newaxis], self._inputs[slots], 0.0),
            actions=np.where(mask, self._actions[slots[:, :-1]], 0),
            rewards=np.where(mask, self._rewards[slots[:, :-1]], 0.0),
            dones=times[:, 1:] == end,
            mask=mask,
        )

    def _slots(
        self, episodes: IntArray, offsets: IntArray, length: int
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Return times within the episodes, their ends, and the slots; axes (update, time, batch).

        Times before an episode or after its end have the slot of its first or last observation.
        """
        starts, lengths = np.array(self._starts), np.array(self._lengths)
        times = offsets[:, np.newaxis] + np.arange(length + 1)[:, np.newaxis]
        end = lengths[episodes][:, np.newaxis]
        slots = (starts[episodes][:, np.newaxis] + np.clip(times, 0, end)) % self._size
        return times, end, slots

    def arrays(self) -> Arrays:
        return {
            "inputs": self._inputs,
            "actions": self._actions,
            "rewards": self._rewards,
            "starts": np.array(self._starts, np.int64),
            "lengths": np.array(self._lengths, np.int64),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._inputs[:] = arrays["inputs"]
        self._actions[:] = arrays["actions"]
        self._rewards[:] = arrays["rewards"]
        self._starts = arrays["starts"].tolist()
        self._lengths = arrays["lengths"].tolist()


@dataclass(frozen=True)
class BurnedIn:
    """Sequences that begin some decisions before those that are learned from.

    Where `starts` (update, time, batch) is true, an episode begins and the state is zero.
    """

    sequences: Sequences
    hidden: Float32Array  # (update, batch, units): the agent's own state before the first decision
    starts: BoolArray


class StatefulReplay(EpisodeReplay):
    """Whole episodes with the hidden states in which the agent made its decisions."""

    def __init__(self, capacity: int, width: int, units: int) -> None:
        super().__init__(capacity, width)
        self._hidden = np.zeros((self._size, units), np.float32)

    def add_with_states(
        self,
        inputs: Float32Array,
        actions: IntArray,
        rewards: Float32Array,
        hidden: Float32Array,
    ) -> None:
        """Add an episode; `hidden` has the state before each decision."""
        self.add(inputs, actions, rewards)
        length = self._lengths[-1]
        slots = (self._starts[-1] + np.arange(length)) % self._size
        self._hidden[slots] = hidden[-length:]

    def sample_burned_in(
        self, shape: tuple[int, int], burn_in: int, length: int, rng: np.random.Generator
    ) -> BurnedIn:
        """Return sequences of `burn_in` decisions and `length` more, which may be any."""
        episodes, offsets = self._choose(shape, length, rng)
        first = offsets - burn_in
        times, _, slots = self._slots(episodes, first, burn_in + length)
        return BurnedIn(
            self._sequences(episodes, first, burn_in + length),
            np.where((first >= 0)[..., np.newaxis], self._hidden[slots[:, 0]], 0.0),
            times == 0,
        )

    def arrays(self) -> Arrays:
        return super().arrays() | {"hidden": self._hidden}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().restore(arrays)
        self._hidden[:] = arrays["hidden"]
