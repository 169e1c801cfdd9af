"""The fleet as a Gymnasium vector environment: what `gymnasium.make_vec` returns.

A step of all nodes is one call of `fleet.step`, so a thousand nodes cost little more than forty
environments side by side.
"""

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.arrays import BoolArray, Float32Array, FloatArray, IntArray
from holdfast.model.observation import OBSERVATION, observe
from holdfast.model.scenario import Scenario
from holdfast.sim import fleet
from holdfast.sim.reset_options import ASSIGNMENT, check_multiplier, check_options
from holdfast.sim.reward import reward
from holdfast.sim.scenario_file import load_scenario
from holdfast.sim.world import world_of


class AuditVectorEnv(VectorEnv[Float32Array, IntArray, Any]):
    """Schedule the audits of many nodes at once; `environment.AuditEnv` describes a single one.

    An episode that is over starts again at the next step: that step ignores the node's action, and
    its reward is 0. `info` has an array for each key of the single environment except
    `hidden.delay` and `hidden.exposure`. Its masks, such as `_gas`, tell which nodes were audited.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self, num_envs: int = 1, scenario: Scenario | str = "paper", multiplier: float = 10.0
    ) -> None:
        if num_envs < 1:
            raise InputError(f"a fleet has at least one node, not {num_envs}")
        self.num_envs = num_envs
        self.scenario = load_scenario(scenario) if isinstance(scenario, str) else scenario
        self.set_multiplier(multiplier)
        self.actions = tuple(GRID.action(index) for index in range(GRID.size))
        self.single_action_space = spaces.Discrete(GRID.size)
        self.single_observation_space = spaces.Box(0.0, 1.0, (len(OBSERVATION),), np.float32)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._world = world_of(self.scenario)
        self._everywhere = np.ones(num_envs, np.bool_)
        self._nodes: fleet.Nodes | None = None

    @property
    def multiplier(self) -> float:
        """The price of a miss; `set_multiplier` changes it, through wrappers as well."""
        return self._multiplier

    @multiplier.setter
    def multiplier(self, _value: float) -> None:
        raise AttributeError(ASSIGNMENT)

    def set_multiplier(self, value: float) -> None:
        """Set the price of a miss from the next step on, for all nodes."""
        self._multiplier = check_multiplier(value)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method, or return an attribute, as Gymnasium's other vector environments do."""
        value = getattr(self, name)
        result = value(*args, **kwargs) if callable(value) else value
        return (result,) * self.num_envs

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute, once per node."""
        return self.call(name)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32Array, dict[str, Any]]:
        """Start all episodes; the options are those of the single environment.

        `malicious` may also be an array with one entry per node.
        """
        chosen = check_options(options)
        super().reset(seed=seed)
        if "multiplier" in chosen:
            self.set_multiplier(chosen["multiplier"])
        malicious = None
        if chosen.get("malicious") is not None:
            malicious = np.broadcast_to(np.asarray(chosen["malicious"], np.bool_), self.num_envs)
        self._nodes = fleet.start(self._world, self.num_envs, self.np_random, malicious)
        self._ended = np.zeros(self.num_envs, np.bool_)
        self._interval_onset = np.zeros(self.num_envs, np.int64)
        return self._observe(self._nodes), {"hidden": self._hidden(self._nodes)}

    def step(
        self, actions: IntArray
    ) -> tuple[Float32Array, FloatArray, BoolArray, BoolArray, dict[str, Any]]:
        """Let every node wait its interval, then audit it."""
        if self._nodes is None:
            raise ResetNeeded("reset the environment before its first step")
        chosen = np.asarray(actions)
        if chosen.shape != (self.num_envs,) or chosen.min() < 0 or chosen.max() >= GRID.size:
            raise InputError(
                f"a step takes {self.num_envs} actions from 0 to {GRID.size - 1}, one per node"
            )
        nodes, outcome = fleet.step(self._world, self._nodes, chosen, self.np_random)
        rewards = reward(self.scenario, outcome, self._multiplier)
        onset = self._interval_onset
        np.copyto(onset, nodes.time - self._world.interval[chosen], where=outcome.growth.began)

        restarting, audited = self._ended, ~self._ended
        self._nodes = nodes = fleet.restart(self._world, nodes, restarting, self.np_random)
        self._ended = truncated = outcome.finished & audited
        onset[restarting] = 0
        rewards[restarting] = 0.0
        info = self._info(nodes, outcome, restarting)
        terminated = np.zeros(self.num_envs, np.bool_)
        return self._observe(nodes), rewards, terminated, truncated, _masked(info, audited)

    def _info(
        self, nodes: fleet.Nodes, outcome: fleet.StepResult, restarting: BoolArray
    ) -> dict[str, Any]:
        """Return what the step did to each node: nothing where it only started an episode."""
        scenario = self.scenario
        info: dict[str, Any] = {
            "cost": scenario.reward_gas * outcome.gas + scenario.reward_compute * outcome.compute,
            "gas": outcome.gas,
            "compute": outcome.compute,
            "encounter": outcome.encounter,
            "detection": outcome.detection,
            "miss": outcome.miss,
            "miss_probability": outcome.miss_probability,
        }
        corrupted = outcome.corrupted.copy()
        restarted = np.flatnonzero(restarting)
        for array in (*info.values(), corrupted):
            array[restarted] = 0
        latency = nodes.time - self._interval_onset
        at_audit = {"corrupted_at_audit": corrupted, "latency": latency}
        info["hidden"] = self._hidden(nodes) | _masked(at_audit, ~restarting)
        return info

    def _observe(self, nodes: fleet.Nodes) -> Float32Array:
        return observe(nodes.history, self.scenario.constants)

    def _hidden(self, nodes: fleet.Nodes) -> dict[str, Any]:
        state = {"malicious": nodes.malicious, "corrupted": nodes.corrupted, "time": nodes.time}
        return _masked(state, self._everywhere)


def _masked(info: dict[str, Any], mask: BoolArray) -> dict[str, Any]:
    """Return the info with the mask of each key, as Gymnasium's wrappers expect it."""
    return info | {f"_{key}": mask for key in info}
