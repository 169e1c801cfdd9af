"""The environment of the paper's agents: one node, run episode by episode."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.model.arrays import BoolArray, Float32Array, IntArray
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import Scenario
from holdfast.policy.learned import Inputs
from holdfast.sim.environment import AuditEnv

SelectAction = Callable[[Float32Array], int]
# Called after every decision with inputs, action, reward, next inputs and done.
OnStep = Callable[[Float32Array, int, float, Float32Array, bool], None]


@dataclass(frozen=True)
class Episode:
    inputs: Float32Array  # one row more than decisions: no action follows the last
    actions: IntArray
    rewards: Float32Array
    missed: BoolArray  # the audit of this decision found none of the damage there was
    detected: BoolArray  # or some of it
    gas: float
    latency: float  # summed over the detections

    @property
    def misses(self) -> int:
        return int(self.missed.sum())

    @property
    def detections(self) -> int:
        return int(self.detected.sum())

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


class RolloutEnv:
    """A single node, with the range of every signal observed so far."""

    def __init__(self, scenario: Scenario, inputs: Inputs, seed: int) -> None:
        self._env = AuditEnv(scenario)
        self._env.reset(seed=seed)
        self._mask = np.array([name not in inputs.masked for name in OBSERVATION], np.float32)
        self._older_inputs = (inputs.frames - 1) * len(OBSERVATION)
        self.low = np.ones(len(OBSERVATION), np.float32)
        self.high = np.zeros(len(OBSERVATION), np.float32)

    def run_episode(
        self, multiplier: float, select_action: SelectAction, on_step: OnStep | None = None
    ) -> Episode:
        env = self._env
        env.set_multiplier(multiplier)
        observation, _ = env.reset()
        observations = [observation]
        inputs = self._stack_frames(observation, np.zeros(self._older_inputs, np.float32))
        all_inputs, actions, rewards = [inputs], [], []
        missed, detected = [], []
        gas, latency = 0.0, 0.0
        done = False
        while not done:
            action = select_action(inputs)
            observation, reward, _, done, info = env.step(action)
            next_inputs = self._stack_frames(observation, inputs)
            if on_step:
                on_step(inputs, action, reward, next_inputs, done)
            inputs = next_inputs
            observations.append(observation)
            all_inputs.append(inputs)
            actions.append(action)
            rewards.append(reward)
            gas += info["gas"]
            missed.append(info["miss"])
            detected.append(info["detection"])
            if info["detection"]:
                latency += info["hidden"]["latency"]
        np.minimum(self.low, np.min(observations, axis=0), out=self.low)
        np.maximum(self.high, np.max(observations, axis=0), out=self.high)
        return Episode(
            inputs=np.array(all_inputs),
            actions=np.array(actions, np.int64),
            rewards=np.array(rewards, np.float32),
            missed=np.array(missed, np.bool_),
            detected=np.array(detected, np.bool_),
            gas=gas,
            latency=latency,
        )

    def rng_state(self) -> Any:
        return self._env.np_random.bit_generator.state

    def restore_rng(self, state: Any) -> None:
        self._env.np_random.bit_generator.state = state

    def _stack_frames(self, observation: Float32Array, previous: Float32Array) -> Float32Array:
        """Return the newest frame, followed by as many older ones as the network sees."""
        return np.concatenate((observation * self._mask, previous[: self._older_inputs]))
