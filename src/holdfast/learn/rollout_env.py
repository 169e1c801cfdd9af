"""One node of the audit world, played episode by episode, as the paper's agents meet it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.model.arrays import Float32Array, IntArray
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import Scenario
from holdfast.policy.learned import Inputs
from holdfast.sim.environment import AuditEnv

Decide = Callable[[Float32Array], int]
# Hears of each decision: what was seen, the action, the reward, what is seen next, and whether
# the episode is over.
Heard = Callable[[Float32Array, int, float, Float32Array, bool], None]


@dataclass(frozen=True)
class Episode:
    inputs: Float32Array  # one row more than decisions: the last was never decided on
    actions: IntArray
    rewards: Float32Array
    gas: float
    misses: int
    detections: int
    latency: float  # summed over the detections

    def figures(self) -> dict[str, float]:
        encounters = self.misses + self.detections
        return {
            "return": float(self.rewards.sum()),
            "gas": self.gas,
            "decisions": float(len(self.actions)),
            "misses": float(self.misses),
            "detections": float(self.detections),
            "miss_rate": self.misses / encounters if encounters else 0.0,
            "latency": self.latency / self.detections if self.detections else 0.0,
        }


class Stage:
    """The world of a single node, with the range of each signal that was ever observed."""

    def __init__(self, scenario: Scenario, inputs: Inputs, seed: int) -> None:
        self._world = AuditEnv(scenario)
        self._world.reset(seed=seed)
        self._shown = np.array([name not in inputs.masked for name in OBSERVATION], np.float32)
        self._older = (inputs.frames - 1) * len(OBSERVATION)
        self.low = np.ones(len(OBSERVATION), np.float32)
        self.high = np.zeros(len(OBSERVATION), np.float32)

    def play(self, multiplier: float, decide: Decide, heard: Heard | None = None) -> Episode:
        world = self._world
        world.multiplier = multiplier
        observation, _ = world.reset()
        observed = [observation]
        seen = self._seen(observation, np.zeros(self._older, np.float32))
        inputs, actions, rewards = [seen], [], []
        gas, misses, detections, latency = 0.0, 0, 0, 0.0
        ended = False
        while not ended:
            action = decide(seen)
            observation, reward, _, ended, info = world.step(action)
            after = self._seen(observation, seen)
            if heard:
                heard(seen, action, reward, after, ended)
            seen = after
            observed.append(observation)
            inputs.append(seen)
            actions.append(action)
            rewards.append(reward)
            gas += info["gas"]
            misses += info["miss"]
            if info["detection"]:
                detections += 1
                latency += info["hidden"]["latency"]
        np.minimum(self.low, np.min(observed, axis=0), out=self.low)
        np.maximum(self.high, np.max(observed, axis=0), out=self.high)
        return Episode(
            inputs=np.array(inputs),
            actions=np.array(actions, np.int64),
            rewards=np.array(rewards, np.float32),
            gas=gas,
            misses=misses,
            detections=detections,
            latency=latency,
        )

    def draws_state(self) -> Any:
        return self._world.np_random.bit_generator.state

    def restore_draws(self, state: Any) -> None:
        self._world.np_random.bit_generator.state = state

    def _seen(self, observation: Float32Array, before: Float32Array) -> Float32Array:
        """Return the newest frame, then as many older ones as the network sees."""
        return np.concatenate((observation * self._shown, before[: self._older]))
