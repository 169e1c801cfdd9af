"""Many nodes that an agent learns from at once, in one scenario or in several drawn from ranges."""

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
    components: Float32Array  # (nodes, COMPONENTS), what each audit adds to an episode's totals
    interval: IntArray
    finished: BoolArray  # the node begins a new episode


class Crowd:
    """Fleets side by side, each in a scenario of its own."""

    def __init__(
        self,
        scenario: Scenario,
        ranges: Mapping[str, tuple[float, float]],
        nodes: int,
        draws: np.random.Generator,
        *,
        expected: bool = False,
    ) -> None:
        """Divide the nodes into fleets of eight if there are ranges, else keep them together.

        Detections are counted as they come, or as they were `expected` at each audit.
        """
        self._scenario = scenario
        self._ranges = ranges
        self._draws = draws
        self._expected = expected
        self._each = 8 if ranges else nodes
        count, over = divmod(nodes, self._each)
        if over:
            raise ValueError(f"nodes come in fleets of eight where there are ranges, not {nodes}")
        self._scenarios = [drawn(scenario, ranges, draws) for _ in range(count)]
        self._fleets = [fleet.start(world_of(each), self._each, draws) for each in self._scenarios]
        self._next = 0  # the fleet to get a new scenario
        self.low = np.ones(len(OBSERVATION), np.float32)
        self.high = np.zeros(len(OBSERVATION), np.float32)

    def observe(self) -> Float32Array:
        seen = np.concatenate(
            [
                observe(nodes.history, scenario.constants)
                for nodes, scenario in zip(self._fleets, self._scenarios, strict=True)
            ]
        )
        np.minimum(self.low, seen.min(axis=0), out=self.low)
        np.maximum(self.high, seen.max(axis=0), out=self.high)
        return seen

    def step(self, actions: IntArray) -> Step:
        parts = []
        for index, scenario in enumerate(self._scenarios):
            some = actions[index * self._each : (index + 1) * self._each]
            world = world_of(scenario)
            nodes, outcome = fleet.step(world, self._fleets[index], some, self._draws)
            self._fleets[index] = fleet.restart(world, nodes, outcome.finished, self._draws)
            found = outcome.encounter - outcome.miss_probability
            waited = GRID.interval_of[some] * outcome.encounter
            parts.append(
                (
                    np.column_stack(
                        (
                            outcome.gas,
                            outcome.miss_probability,
                            outcome.encounter,
                            waited,
                            found if self._expected else outcome.detection,
                        )
                    ),
                    outcome.finished,
                )
            )
        components, finished = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Step(components.astype(np.float32), GRID.interval_of[actions], finished)

    def renew(self) -> BoolArray:
        """Give one fleet a new scenario, in turns; return the nodes that start anew by that."""
        renewed = np.zeros(self._each * len(self._fleets), np.bool_)
        if self._ranges:
            scenario = drawn(self._scenario, self._ranges, self._draws)
            self._scenarios[self._next] = scenario
            self._fleets[self._next] = fleet.start(world_of(scenario), self._each, self._draws)
            renewed[self._next * self._each : (self._next + 1) * self._each] = True
            self._next = (self._next + 1) % len(self._fleets)
        return renewed

    def trees(self) -> Any:
        return {"fleets": self._fleets, "envelope": [self.low, self.high]}

    def facts(self) -> dict[str, Any]:
        scenarios = [
            {name: getattr(each, name) for name in self._ranges} for each in self._scenarios
        ]
        return {"scenarios": scenarios, "next": self._next}

    def restore(self, trees: Any, facts: dict[str, Any]) -> None:
        self._fleets = trees["fleets"]
        self.low[:], self.high[:] = trees["envelope"]
        self._scenarios = [replace(self._scenario, **changes) for changes in facts["scenarios"]]
        self._next = facts["next"]


def drawn(
    scenario: Scenario, ranges: Mapping[str, tuple[float, float]], draws: np.random.Generator
) -> Scenario:
    """Return the scenario with each named field drawn log-uniformly from its range."""
    changes: dict[str, Any] = {
        name: float(np.exp(draws.uniform(np.log(low), np.log(high))))
        for name, (low, high) in ranges.items()
    }
    for field in fields(Scenario):
        if field.type is int and field.name in changes:
            changes[field.name] = round(changes[field.name])
    return replace(scenario, **changes)
