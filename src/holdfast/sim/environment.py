"""The simulation of a single node as a Gymnasium environment, `holdfast/Audit-v0`.

It is the simulation of `fleet`, written for one node in plain numbers, since NumPy is slow on
arrays of one. Tests compare the two step by step.
"""

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.arrays import Float32Array
from holdfast.model.observation import OBSERVATION, empty_history, observe, record
from holdfast.model.scenario import Scenario
from holdfast.sim.draws import KeyedDraws, sample_key
from holdfast.sim.reset_options import ASSIGNMENT, check_multiplier, check_options
from holdfast.sim.reward import reward_of_one
from holdfast.sim.scenario_file import load_scenario
from holdfast.sim.single_node import SingleNode
from holdfast.sim.timeline import Timeline
from holdfast.sim.world import world_of


class AuditEnv(gymnasium.Env[Float32Array, np.int64]):
    """Schedule the audits of one node: an action waits its interval, then audits.

    `actions` has the interval and the ratio of each action, by its index. The reward is the
    paper's; `set_multiplier` changes its lambda at any time. `info` has the operating cost of the
    audit (what the reward subtracts) with its components, whether it was an encounter and whether
    that ended in a detection or a miss, and under `hidden` what no scheduler may see. The horizon
    truncates: the node lives on, and the observation does not tell the time.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - declared so by Gymnasium

    def __init__(
        self,
        scenario: Scenario | str = "paper",
        multiplier: float = 10.0,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in {None, *self.metadata["render_modes"]}:
            raise InputError(f"the render mode is 'ansi' or none, not {render_mode!r}")
        self.render_mode = render_mode
        self.scenario = load_scenario(scenario) if isinstance(scenario, str) else scenario
        self.set_multiplier(multiplier)
        self.actions = tuple(GRID.action(index) for index in range(GRID.size))
        self.action_space = spaces.Discrete(GRID.size)
        self.observation_space = spaces.Box(0.0, 1.0, (len(OBSERVATION),), np.float32)
        world = world_of(self.scenario)
        self._interval = world.interval.tolist()
        self._gas = world.gas.tolist()
        self._compute = world.compute.tolist()
        self._detection = [world.detection[row].data for row in world.row]
        self._max_listed = world.max_listed
        self._started = False
        self._timeline: Timeline | None = None

    @property
    def multiplier(self) -> float:
        """The price of a miss; `set_multiplier` changes it, through wrappers as well."""
        return self._multiplier

    @multiplier.setter
    def multiplier(self, _value: float) -> None:
        raise AttributeError(ASSIGNMENT)

    def set_multiplier(self, value: float) -> None:
        """Set the price of a miss from the next step on."""
        self._multiplier = check_multiplier(value)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32Array, dict[str, Any]]:
        """Start an episode.

        The option `malicious` sets the type of the node in this episode, `multiplier` the price of
        a miss from now on.
        """
        chosen = check_options(options)
        super().reset(seed=seed)
        if "multiplier" in chosen:
            self.set_multiplier(chosen["multiplier"])
        scenario = self.scenario
        draws = KeyedDraws(sample_key(self.np_random))
        self._node = SingleNode(scenario, draws, chosen.get("malicious"))
        self._onset = self._interval_onset = 0
        self._history = empty_history()
        self._started = True
        self._timeline = Timeline(scenario) if self.render_mode else None
        hidden = {"malicious": self._node.malicious, "corrupted": 0, "time": 0}
        return observe(self._history, scenario.constants), {"hidden": hidden}

    def step(
        self, action: np.int64 | int
    ) -> tuple[Float32Array, float, bool, bool, dict[str, Any]]:
        """Wait the interval of the action, audit, and return what Gymnasium's `step` returns."""
        if not self._started:
            raise ResetNeeded("reset the environment before its first step")
        scenario = self.scenario
        interval = self._interval[action]
        node = self._node
        intact, begin = not node.corrupted, node.time
        exposure = node.wait(interval)
        corrupted = node.corrupted
        if corrupted and intact:
            self._onset, self._interval_onset = node.first_unit, begin
        audit, response = node.audit_draws()

        detection_probability = self._detection[action][min(corrupted, self._max_listed)]
        detected = audit < detection_probability
        if detected:
            node.repair()
        self._history = record(
            self._history,
            float(interval),
            float(detected),
            self._response(corrupted, response),
            scenario.constants,
        )

        gas, compute = self._gas[action], self._compute[action]
        reward = reward_of_one(
            scenario,
            self._multiplier,
            corrupted=corrupted,
            detected=detected,
            gas=gas,
            compute=compute,
        )
        info = {
            "cost": scenario.reward_gas * gas + scenario.reward_compute * compute,
            "gas": gas,
            "compute": compute,
            "encounter": corrupted > 0,
            "detection": detected,
            "miss": corrupted > 0 and not detected,
            "miss_probability": 1.0 - detection_probability if corrupted else 0.0,
            "hidden": {
                "malicious": node.malicious,
                "corrupted": node.corrupted,
                "time": node.time,
                "corrupted_at_audit": corrupted,
                "latency": node.time - self._interval_onset,
                "delay": node.time - self._onset,
                "exposure": exposure,
            },
        }
        if self._timeline:
            self._timeline.record(interval, info)
        return (
            observe(self._history, scenario.constants),
            reward,
            False,
            node.time >= scenario.horizon,
            info,
        )

    def render(self) -> str | None:
        """Return the episode so far as text, in the render mode `ansi`."""
        if not self._started:
            raise ResetNeeded("reset the environment before it is rendered")
        if self._timeline is None:
            gymnasium.logger.warn("to render, make the environment with render_mode='ansi'")
            return None
        return self._timeline.draw(malicious=self._node.malicious)

    def _response(self, corrupted: int, uniform: float) -> float:
        scenario = self.scenario
        noise = math.pow(uniform / (1.0 - uniform), scenario.latency_noise)
        strain = scenario.latency_load * self._node.load
        tampering = scenario.latency_tampering * (corrupted / scenario.blocks)
        return scenario.latency_median * noise * math.exp(strain + tampering)
