"""The vectorised environment: many nodes at once, in one scenario or several drawn from ranges."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import numpy as np

from holdfast.model.action import GRID
from holdfast.model.arrays import BoolArray, Float32Array, IntArray
from holdfast.model.observation import OBSERVATION, History, observe
from holdfast.model.scenario import Scenario
from holdfast.sim import fleet
from holdfast.sim.world import world_of

# Gas, chance of a miss, encounters, waiting, detections: see `policy.lagrangian.COMPONENTS`.
COMPONENTS = 5

for _batch in (fleet.Nodes, History):
    jax.tree_util.register_dataclass(_batch, [field.name for field in fields(_batch)], [])


@dataclass(frozen=True)
class Step:
    components: Float32Array  # (nodes, COMPONENTS): what the audit adds to an episode's totals
    interval: IntArray
    finished: BoolArray  # the node starts a new episode


class VecEnv:
    """Fleets side by side, each in a scenario of its own."""

    def __init__(
        self,
        scenario: Scenario,
        ranges: Mapping[str, tuple[float, float]],
        nodes: int,
        rng: np.random.Generator,
        *,
        expected: bool = False,
    ) -> None:
        """Divide the nodes into fleets of eight if there are ranges, else use a single fleet.

        Detections count as they happen, or by their probability if `expected`.
        """
        self._scenario = scenario
        self._ranges = ranges
        self._rng = rng
        self._expected = expected
        self._fleet_size = 8 if ranges else nodes
        count, remainder = divmod(nodes, self._fleet_size)
        if remainder:
            raise ValueError(f"nodes come in fleets of eight where there are ranges, not {nodes}")
        self._scenarios = [sample_scenario(scenario, ranges, rng) for _ in range(count)]
        self._fleets = [
            fleet.start(world_of(scenario), self._fleet_size, rng) for scenario in self._scenarios
        ]
        self._next_fleet = 0  # to get a new scenario
        self.low = np.ones(len(OBSERVATION), np.float32)
        self.high = np.zeros(len(OBSERVATION), np.float32)

    def observe(self) -> Float32Array:
        observations = np.concatenate(
            [
                observe(nodes.history, scenario.constants)
                for nodes, scenario in zip(self._fleets, self._scenarios, strict=True)
            ]
        )
        np.minimum(self.low, observations.min(axis=0), out=self.low)
        np.maximum(self.high, observations.max(axis=0), out=self.high)
        return observations

    def step(self, actions: IntArray) -> Step:
        parts = []
        for index, scenario in enumerate(self._scenarios):
            fleet_actions = actions[index * self._fleet_size : (index + 1) * self._fleet_size]
            world = world_of(scenario)
            nodes, outcome = fleet.step(world, self._fleets[index], fleet_actions, self._rng)
            self._fleets[index] = fleet.restart(world, nodes, outcome.finished, self._rng)
            expected_detections = outcome.encounter - outcome.miss_probability
            waiting = GRID.interval_of[fleet_actions] * outcome.encounter
            parts.append(
                (
                    np.column_stack(
                        (
                            outcome.gas,
                            outcome.miss_probability,
                            outcome.encounter,
                            waiting,
                            expected_detections if self._expected else outcome.detection,
                        )
                    ),
                    outcome.finished,
                )
            )
        components, finished = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Step(components.astype(np.float32), GRID.interval_of[actions], finished)

    def renew_fleet(self) -> BoolArray:
        """Give the next fleet a new scenario; return which nodes start a new episode."""
        renewed = np.zeros(self._fleet_size * len(self._fleets), np.bool_)
        if self._ranges:
            scenario = sample_scenario(self._scenario, self._ranges, self._rng)
            self._scenarios[self._next_fleet] = scenario
            self._fleets[self._next_fleet] = fleet.start(
                world_of(scenario), self._fleet_size, self._rng
            )
            renewed[
                self._next_fleet * self._fleet_size : (self._next_fleet + 1) * self._fleet_size
            ] = True
            self._next_fleet = (self._next_fleet + 1) % len(self._fleets)
        return renewed

    def trees(self) -> Any:
        return {"fleets": self._fleets, "envelope": [self.low, self.high]}

    def facts(self) -> dict[str, Any]:
        scenarios = [
            {name: getattr(scenario, name) for name in self._ranges} for scenario in self._scenarios
        ]
        return {"scenarios": scenarios, "next": self._next_fleet}

    def restore(self, trees: Any, facts: dict[str, Any]) -> None:
        self._fleets = trees["fleets"]
        self.low[:], self.high[:] = trees["envelope"]
        self._scenarios = [replace(self._scenario, **changes) for changes in facts["scenarios"]]
        self._next_fleet = facts["next"]


def sample_scenario(
    scenario: Scenario, ranges: Mapping[str, tuple[float, float]], rng: np.random.Generator
) -> Scenario:
    """Return the scenario with each named field drawn log-uniformly from its range."""
    changes: dict[str, Any] = {
        name: float(np.exp(rng.uniform(np.log(low), np.log(high))))
        for name, (low, high) in ranges.items()
    }
    for field in fields(Scenario):
        if field.type is int and field.name in changes:
            changes[field.name] = round(changes[field.name])
    return replace(scenario, **changes)
