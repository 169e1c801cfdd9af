"""Policies of the operator's world that need no training."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.operation import DAYS_PER_YEAR, Operation
from holdfast.sim.operation.nodes import Nodes


@dataclass(frozen=True)
class Decision:
    """How many days to wait for the next audit of each node, and how many blocks to sample."""

    interval: FloatArray
    samples: IntArray


class OperationPolicy(Protocol):
    """Decides from the nodes' histories; `Clairvoyant` alone looks at what is hidden."""

    def decide(self, nodes: Nodes, node: IntArray) -> Decision:
        """Decide for these nodes, which have just been audited or are new."""
        ...


@dataclass(frozen=True)
class Constant:
    """The same interval and sample always."""

    interval: float
    samples: int

    def decide(self, nodes: Nodes, node: IntArray) -> Decision:  # noqa: ARG002 - the interface
        return _alike(len(node), self.interval, self.samples)


@dataclass(frozen=True)
class TwoSpeed:
    """One pace for a node whose last audit passed, another after a failure."""

    calm: Constant
    alarmed: Constant

    def decide(self, nodes: Nodes, node: IntArray) -> Decision:
        failed = nodes.history.failures_in_row[node] > 0
        return Decision(
            np.where(failed, self.alarmed.interval, self.calm.interval),
            np.where(failed, self.alarmed.samples, self.calm.samples),
        )


@dataclass(frozen=True)
class Clairvoyant:
    """Knows each node's hazard and whether it rots or cheats: what perfect knowledge is worth.

    It waits as long as is best for the rate at which exposure comes, at a price of exposure.
    """

    price: float  # of a share-day, in the unit of the costs
    samples: int
    longest: float = 90.0

    def decide(self, nodes: Nodes, node: IntArray) -> Decision:
        scenario = nodes.scenario
        growth = nodes.rot[node] + nodes.cheating[node]
        loss = nodes.hazard[node] * _loss_per_day(scenario) + growth
        cost = scenario.per_audit + scenario.per_block * self.samples
        # Exposure of a wait of t days is loss t^2 / 2: cost / t + price loss t / 2 is least here.
        best = np.sqrt(2 * cost / (self.price * loss))
        return Decision(
            np.clip(best, 1.0, self.longest), np.full(len(node), self.samples, np.int64)
        )


def _loss_per_day(scenario: Operation) -> float:
    """Return the share of the blocks that a node of hazard 1 loses a day, on average."""
    low, high = scenario.partial_share
    partial = (high - low) / np.log(high / low) if high > low else high
    return float((scenario.whole_loss + scenario.partial_loss * partial) / DAYS_PER_YEAR)


def _alike(count: int, interval: float, samples: int) -> Decision:
    return Decision(np.full(count, interval), np.full(count, samples, np.int64))
