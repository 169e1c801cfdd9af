"""What the agents remember: single transitions, or whole episodes to take sequences from."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from holdfast.model.arrays import BoolArray, Float32Array, IntArray

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Transitions:
    """A batch of what happened; leading axes are (update, batch)."""

    inputs: Float32Array
    actions: IntArray
    rewards: Float32Array
    after: Float32Array
    ended: BoolArray  # after it the episode was over


class TransitionReplay:
    """The last `capacity` transitions, drawn uniformly."""

    def __init__(self, capacity: int, width: int) -> None:
        self._memory: Arrays = {
            "inputs": np.zeros((capacity, width), np.float32),
            "actions": np.zeros(capacity, np.int64),
            "rewards": np.zeros(capacity, np.float32),
            "after": np.zeros((capacity, width), np.float32),
            "ended": np.zeros(capacity, np.bool_),
        }
        self._capacity = capacity
        self._added = 0

    def __len__(self) -> int:
        return min(self._added, self._capacity)

    def add(
        self, inputs: Float32Array, action: int, reward: float, after: Float32Array, *, ended: bool
    ) -> None:
        place = self._added % self._capacity
        for array, value in zip(
            self._memory.values(), (inputs, action, reward, after, ended), strict=True
        ):
            array[place] = value
        self._added += 1

    def draw(self, shape: tuple[int, int], draws: np.random.Generator) -> Transitions:
        """Return batches, (updates, batch), drawn with replacement."""
        chosen = draws.integers(len(self), size=shape)
        return Transitions(**{name: array[chosen] for name, array in self._memory.items()})

    def saved(self) -> Arrays:
        return {name: array[: len(self)] for name, array in self._memory.items()} | {
            "added": np.array(self._added)
        }

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._added = int(saved["added"])
        for name, array in self._memory.items():
            array[: len(self)] = saved[name]


@dataclass(frozen=True)
class Sequences:
    """Batches of sequences in time order: axes are (update, time, batch).

    `inputs` has one moment more than the rest; `mask` is false behind the end of an episode.
    """

    inputs: Float32Array
    actions: IntArray
    rewards: Float32Array
    ended: BoolArray
    mask: BoolArray


class EpisodeReplay:
    """Whole episodes, the oldest dropped when they hold more than `capacity` decisions.

    Of an episode that is longer than that the end is kept. They lie one behind the other in a
    ring, each with a last place for its final observation.
    """

    def __init__(self, capacity: int, width: int) -> None:
        self._size = 2 * capacity  # an episode of one decision takes two places
        self._capacity = capacity
        self._inputs = np.zeros((self._size, width), np.float32)
        self._actions = np.zeros(self._size, np.int64)
        self._rewards = np.zeros(self._size, np.float32)
        self._starts: list[int] = []
        self._lengths: list[int] = []

    def __len__(self) -> int:
        return sum(self._lengths)

    def add(self, inputs: Float32Array, actions: IntArray, rewards: Float32Array) -> None:
        """Remember an episode; `inputs` has one row more than the rest."""
        length = min(len(actions), self._capacity)
        start = (self._starts[-1] + self._lengths[-1] + 1) % self._size if self._starts else 0
        self._starts.append(start)
        self._lengths.append(length)
        while len(self) > self._capacity:
            del self._starts[0], self._lengths[0]
        places = (start + np.arange(length + 1)) % self._size
        self._inputs[places] = inputs[-length - 1 :]
        self._actions[places[:-1]] = actions[-length:]
        self._rewards[places[:-1]] = rewards[-length:]

    def draw(self, shape: tuple[int, int], length: int, draws: np.random.Generator) -> Sequences:
        """Return (updates, batch) sequences of `length`; shorter episodes are filled with zeros."""
        starts, lengths = np.array(self._starts), np.array(self._lengths)
        episode = draws.integers(len(starts), size=shape)
        whole = lengths[episode]
        offset = draws.integers(np.maximum(whole - length, 0) + 1)
        moments = np.arange(length + 1)[:, np.newaxis]
        when = offset[:, np.newaxis] + moments  # (update, time, batch)
        end = whole[:, np.newaxis]
        places = (starts[episode][:, np.newaxis] + np.minimum(when, end)) % self._size
        mask = when[:, :-1] < end
        return Sequences(
            inputs=np.where((when <= end)[..., np.newaxis], self._inputs[places], 0.0),
            actions=np.where(mask, self._actions[places[:, :-1]], 0),
            rewards=np.where(mask, self._rewards[places[:, :-1]], 0.0),
            ended=when[:, 1:] == end,
            mask=mask,
        )

    def saved(self) -> Arrays:
        return {
            "inputs": self._inputs,
            "actions": self._actions,
            "rewards": self._rewards,
            "starts": np.array(self._starts, np.int64),
            "lengths": np.array(self._lengths, np.int64),
        }

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self._inputs[:] = saved["inputs"]
        self._actions[:] = saved["actions"]
        self._rewards[:] = saved["rewards"]
        self._starts = saved["starts"].tolist()
        self._lengths = saved["lengths"].tolist()
