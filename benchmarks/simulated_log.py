"""Simulated fleets in operation: the log that their owner sees, and the truth that it doesn't."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.inference.log import Log
from holdfast.model.arrays import BoolArray, FloatArray, IntArray, take
from holdfast.model.observation import observe
from holdfast.model.scenario import Scenario
from holdfast.policy.interface import Policy
from holdfast.sim import fleet
from holdfast.sim.world import world_of


@dataclass(frozen=True, eq=False)
class Logged:
    log: Log
    missed: BoolArray  # (rows,) damage was there, and the audit passed
    corrupted: IntArray  # (nodes,) damaged blocks as of now
    malicious: BoolArray  # (nodes,) at the beginning

    @property
    def miss_rate(self) -> float:
        misses, detections = self.missed.sum(), self.log.failed.sum()
        return float(misses / max(misses + detections, 1))


def operate(
    policy: Policy[Any],
    scenario: Scenario,
    *,
    nodes: int,
    units: int,
    seed: int,
    counted: float = 1.0,
) -> Logged:
    """Let a policy audit the nodes for so many units; `counted` is how likely damage is counted.

    An audit that would come after the end is not carried out, but damage grows up to then.
    """
    world, draws = world_of(scenario), np.random.default_rng(seed)
    state: Any = policy.initial_state(nodes)
    who = np.arange(nodes)
    here = fleet.start(world, nodes, draws)
    malicious = here.malicious
    elapsed, corrupted = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    rows: list[list[Any]] = []
    while len(who):
        seen = observe(here.history, scenario.constants)
        actions, state = policy.act(state, seen)
        after, outcome = fleet.step(world, here, actions, draws)
        over = after.time > units
        elapsed[who[over]] = units - here.time[over]
        corrupted[who[over]] = _midway(outcome.growth, units - here.time, draws)[over]
        counts = (draws.random(len(who)) < counted) & outcome.detection
        row: tuple[Any, ...] = (
            *(who, world.interval[actions], scenario.samples_of[actions], outcome.detection),
            *(after.history.latency, np.where(counts, outcome.corrupted, -1)),
            *(actions, seen, outcome.miss),
        )
        rows.append([column[~over] for column in row])
        here, state, who = take((after, state, who), ~over)
    columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
    # Each node's rows came in order of time, and a stable sort keeps them so.
    order = np.argsort(columns[0], kind="stable")
    *logged, missed = [column[order] for column in columns]
    blocks = np.full(nodes, scenario.blocks)
    return Logged(Log(blocks, elapsed, *logged), missed, corrupted, malicious)


def _midway(growth: Any, units: IntArray, draws: np.random.Generator) -> IntArray:
    """Return the damage so many units into the interval, given that at its end."""
    node = np.arange(len(units))
    loss_probability: FloatArray = np.concatenate(
        [np.zeros((1, len(units))), growth.loss_probability]
    )
    until = np.clip(units, 0, growth.interval)
    share = loss_probability[until, node] / np.maximum(
        loss_probability[growth.interval, node], 1e-300
    )
    return np.asarray(growth.before + draws.binomial(growth.grown, share), np.int64)
