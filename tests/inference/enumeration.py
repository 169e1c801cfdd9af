"""Every hidden history of a small node, one by one: what the filter must agree with."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

import numpy as np

from holdfast.inference.log import Log
from holdfast.model.scenario import Scenario
from holdfast.policy.hidden_states import modes_of


@dataclass(frozen=True)
class Audit:
    interval: int
    sampled: int
    failed: bool
    damaged: int = -1


def log_of(blocks: int, audits: list[Audit], elapsed: int = 0) -> Log:
    """Return the log of one node."""
    rows = len(audits)
    return Log(
        blocks=np.array([blocks]),
        elapsed=np.array([elapsed]),
        node=np.zeros(rows, np.int64),
        interval=np.array([audit.interval for audit in audits], np.int64),
        sampled=np.array([audit.sampled for audit in audits], np.int64),
        failed=np.array([audit.failed for audit in audits], np.bool_),
        latency=np.full(rows, np.nan),
        damaged=np.array([audit.damaged for audit in audits], np.int64),
        action=np.zeros(rows, np.int64),
        observation=np.zeros((rows, 5), np.float32),
    )


def histories(scenario: Scenario, audits: list[Audit]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield every course of damage at the audits, with its probability and theirs.

    Every audit follows one unit of time, in which the mode may turn before damage grows.
    """
    for mode, chance in enumerate(modes_of(scenario).prior.tolist()):
        yield from _after(scenario, audits, mode, 0, (), chance)


def _after(
    scenario: Scenario,
    audits: list[Audit],
    mode: int,
    damage: int,
    met: tuple[int, ...],
    chance: float,
) -> Iterator[tuple[tuple[int, ...], float]]:
    if not audits:
        yield met, chance
        return
    audit, modes = audits[0], modes_of(scenario)
    assert audit.interval == 1
    for turned, turn in enumerate(modes.turning[mode].tolist()):
        for now in range(damage, scenario.blocks + 1):
            # Samples are drawn with replacement, as the scenario has it.
            passes = (1 - now / scenario.blocks) ** audit.sampled
            likely = chance * turn * _grown(scenario.blocks, damage, now, modes.rate[turned])
            likely *= (1 - passes if audit.failed else passes) * (audit.damaged in (-1, now))
            if likely:
                left = 0 if audit.failed else now
                yield from _after(scenario, audits[1:], turned, left, (*met, now), likely)


def _grown(n: int, before: int, after: int, rate: float) -> float:
    new = after - before
    return float(comb(n - before, new) * rate**new * (1 - rate) ** (n - after))
