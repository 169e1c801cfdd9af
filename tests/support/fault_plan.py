"""Faults of a simulated operation, all drawn from one seed: what fails, when, and for how long."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from holdfast.durations import HOUR, MINUTE, SECOND

NODES, HOLDINGS_PER_NODE, BLOCKS = 4, 2, 40
UNIT = HOUR  # between two audits of a holding
FAULTY_UNITS = 6
MAX_KILL_STEPS = 80  # a tick has up to this many


class Kind(StrEnum):
    """What is wrong with a node."""

    AWAY = "away"  # nobody listens
    SLOW = "slow"  # it answers, but late
    HUNG = "hung"  # it takes the request and never answers
    STUCK = "stuck"  # not even the request ends
    BUSY = "busy"  # it refuses more work
    ADMITS = "admits"  # it says that what was stored is damaged
    DAMAGED = "damaged"  # it has lost blocks, and says nothing


class Trouble(StrEnum):
    """What is wrong with us."""

    LEDGER_AWAY = "ledger away"  # calls fail, and have no effect
    LEDGER_MUTE = "ledger mute"  # calls fail, and have their effect
    DATABASE_REFUSES = "database refuses"  # a transaction is rolled back
    DATABASE_MUTE = "database mute"  # a transaction is committed, and fails
    KILL = "kill"  # a worker dies at one of its next steps
    CLOCK = "clock"  # it is set forward or back


@dataclass(frozen=True)
class NodeFault:
    node: int
    kind: Kind
    begin: int  # milliseconds since the start, as all times here
    end: int
    delay: int = 0  # of a slow node
    holding: int = 0  # of the node, that is damaged
    blocks: tuple[int, ...] = ()  # that are damaged


@dataclass(frozen=True)
class OwnFault:
    trouble: Trouble
    begin: int
    end: int
    steps: int = 0  # of workers until one dies or the clock is set; transactions until one fails
    shift: int = 0  # of the clock


@dataclass(frozen=True)
class FaultPlan:
    nodes: tuple[NodeFault, ...]
    own: tuple[OwnFault, ...]

    def boundaries(self) -> list[int]:
        """Return the moments at which something changes, in order."""
        faults: list[NodeFault | OwnFault] = [*self.nodes, *self.own]
        return sorted({moment for fault in faults for moment in (fault.begin, fault.end)})


def draw_faults(seed: int) -> FaultPlan:
    """Draw faults; the last node never has one of its own."""
    rng = np.random.default_rng((seed, 1))
    nodes = [_node_fault(rng) for _ in range(rng.integers(1, 8))]
    own = [_own_fault(rng) for _ in range(rng.integers(0, 10))]
    return FaultPlan(tuple(nodes), tuple(own))


def _moment(rng: np.random.Generator) -> int:
    """Return a moment, most often one shortly before or after audits are due."""
    unit = int(rng.integers(0, FAULTY_UNITS)) * UNIT
    return max(
        0, unit + int(rng.normal(0, 10 * MINUTE) if rng.random() < 0.7 else rng.uniform(0, UNIT))
    )


def _node_fault(rng: np.random.Generator) -> NodeFault:
    kind = Kind(rng.choice(list(Kind)))
    begin = _moment(rng)
    lasts = int(rng.choice([10 * SECOND, 5 * MINUTE, 30 * MINUTE, 3 * HOUR]))
    if kind is Kind.DAMAGED:
        lasts = int(rng.choice([UNIT, 3 * UNIT, 100 * UNIT]))
    count = int(rng.integers(1, BLOCKS // 2))
    return NodeFault(
        node=int(rng.integers(0, NODES - 1)),
        kind=kind,
        begin=begin,
        end=begin + lasts,
        delay=int(rng.choice([2 * SECOND, MINUTE, 8 * MINUTE, 20 * MINUTE])),
        holding=int(rng.integers(0, HOLDINGS_PER_NODE)),
        blocks=tuple(rng.choice(BLOCKS, count, replace=False).tolist()),
    )


def _own_fault(rng: np.random.Generator) -> OwnFault:
    begin = _moment(rng)
    shifts = [-HOUR, -5 * MINUTE, -2 * SECOND, 2 * SECOND, 5 * MINUTE, HOUR]
    return OwnFault(
        trouble=Trouble(rng.choice(list(Trouble))),
        begin=begin,
        end=begin + int(rng.choice([SECOND, 2 * MINUTE, 15 * MINUTE])),
        steps=int(rng.integers(1, MAX_KILL_STEPS)),
        shift=int(rng.choice(shifts)),
    )
