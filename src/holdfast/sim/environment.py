"""The simulation of a single node as a Gymnasium environment, `holdfast/Audit-v0`.

It is the simulation of `fleet`, written for one node in plain numbers, since NumPy is slow on
arrays of one. Tests compare the two step by step.
"""

import math
import operator
from bisect import bisect_left
from itertools import accumulate
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
from holdfast.sim.fleet import MAX_INTERVAL
from holdfast.sim.reset_options import ASSIGNMENT, check_multiplier, check_options
from holdfast.sim.reward import reward_of_one
from holdfast.sim.scenario_file import load_scenario
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
        self._load_memory = world.load_memory.tolist()
        self._detection = world.detection
        self._row = world.row.tolist()
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
        kind, honest, malicious, burst, load = self.np_random.random(5).tolist()
        self._malicious = bool(chosen.get("malicious", kind < scenario.malicious_share))
        self._honest_rate = scenario.honest_rate * math.pow(scenario.honest_spread, 2 * honest - 1)
        self._malicious_rate = scenario.malicious_rate * math.pow(
            scenario.malicious_spread, 2 * malicious - 1
        )
        self._bursting = burst < scenario.burst_share
        self._load = load
        self._time = self._corrupted = self._quiet = self._onset = self._interval_onset = 0
        self._history = empty_history()
        keep = 1.0 - self._rate(quiet=0)
        self._loss_probability = [
            1.0 - survival for survival in accumulate([keep] * MAX_INTERVAL, operator.mul)
        ]
        self._started = True
        self._timeline = Timeline(scenario) if self.render_mode else None
        return observe(self._history, scenario.constants), {"hidden": self._hidden()}

    def step(
        self, action: np.int64 | int
    ) -> tuple[Float32Array, float, bool, bool, dict[str, Any]]:
        """Wait the interval of the action, audit, and return what Gymnasium's `step` returns."""
        if not self._started:
            raise ResetNeeded("reset the environment before its first step")
        scenario = self.scenario
        interval = self._interval[action]
        first, audit, load, response = self.np_random.random(4).tolist()

        loss_probability = self._wait(interval)
        before = self._corrupted
        grown = int(self.np_random.binomial(scenario.blocks - before, loss_probability[-1]))
        corrupted = before + grown
        if grown and not before:
            share = -math.expm1(math.log1p(-first) / grown) * loss_probability[-1]
            self._onset = self._time + bisect_left(loss_probability, share)
            self._interval_onset = self._time
        exposure = before * interval + (
            grown * (sum(loss_probability) / loss_probability[-1]) if grown else 0.0
        )
        self._time += interval

        detection_probability = float(
            self._detection[self._row[action], min(corrupted, self._max_listed)]
        )
        detected = audit < detection_probability
        load_memory = self._load_memory[action]
        self._load = load_memory * self._load + (1.0 - load_memory) * load
        self._corrupted = 0 if detected else corrupted
        self._quiet = 0 if detected else self._quiet + interval
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
                **self._hidden(),
                "corrupted_at_audit": corrupted,
                "latency": self._time - self._interval_onset,
                "delay": self._time - self._onset,
                "exposure": exposure,
            },
        }
        if self._timeline:
            self._timeline.record(interval, info)
        return (
            observe(self._history, scenario.constants),
            reward,
            False,
            self._time >= scenario.horizon,
            info,
        )

    def render(self) -> str | None:
        """Return the episode so far as text, in the render mode `ansi`."""
        if not self._started:
            raise ResetNeeded("reset the environment before it is rendered")
        if self._timeline is None:
            gymnasium.logger.warn("to render, make the environment with render_mode='ansi'")
            return None
        return self._timeline.draw(malicious=self._hidden()["malicious"])

    def _wait(self, interval: int) -> list[float]:
        """Advance through the interval; return the probability of a loss by each unit."""
        scenario = self.scenario
        if scenario.steady:
            return self._loss_probability[:interval]
        loss_probability = []
        survival = 1.0
        turns, bursts = self.np_random.random((2, MAX_INTERVAL)).tolist()
        for unit, turn, burst in zip(range(interval), turns, bursts, strict=False):
            turning = scenario.turn_honest if self._malicious else scenario.turn_malicious
            changing = scenario.burst_end if self._bursting else scenario.burst_start
            self._malicious ^= turn < turning
            self._bursting ^= burst < changing
            survival *= 1.0 - self._rate(self._quiet + unit)
            loss_probability.append(1.0 - survival)
        return loss_probability

    def _rate(self, quiet: int) -> float:
        scenario = self.scenario
        if self._malicious:
            bold = scenario.quiet_factor if quiet >= scenario.quiet_after else 1.0
            return self._malicious_rate * bold
        return self._honest_rate * (scenario.burst_factor if self._bursting else 1.0)

    def _response(self, corrupted: int, uniform: float) -> float:
        scenario = self.scenario
        noise = math.pow(uniform / (1.0 - uniform), scenario.latency_noise)
        strain = scenario.latency_load * self._load
        tampering = scenario.latency_tampering * (corrupted / scenario.blocks)
        return scenario.latency_median * noise * math.exp(strain + tampering)

    def _hidden(self) -> dict[str, Any]:
        return {"malicious": self._malicious, "corrupted": self._corrupted, "time": self._time}
