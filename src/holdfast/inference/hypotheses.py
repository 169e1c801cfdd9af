"""Hypotheses about nodes that keep their mode: which rates each node has, and when to drop one."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

from holdfast.model.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Rates:
    """The rates that a mode has in some worlds, each once."""

    log_survival: FloatArray  # log of the probability that a block survives a unit of time
    log_bold_survival: FloatArray  # the same after a long quiet period
    efficacy: FloatArray  # share of samples with a damaged block that fail

    @classmethod
    def of(cls, worlds: Iterable[tuple[float, float, float]]) -> tuple[Self, IntArray]:
        """Return the rates, given rate, bold rate and efficacy of each world, and which it has."""
        rates: dict[tuple[float, float, float], int] = {}
        which = [rates.setdefault(world, len(rates)) for world in worlds]
        rate, bold_rate, efficacy = np.array(list(rates)).T
        return cls(_log_survival(rate), _log_survival(bold_rate), efficacy), np.array(which)

    def __len__(self) -> int:
        return len(self.efficacy)


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """Nodes of a batch in ascending order, with the rates that each may have."""

    node: IntArray
    rates: IntArray  # by their number
    log_survival: FloatArray
    log_bold_survival: FloatArray
    efficacy: FloatArray

    @classmethod
    def of(cls, rates: Rates, nodes: int) -> Self:
        """Return all hypotheses: every node with all rates, one after another."""
        tiled = (np.tile(values, nodes) for values in vars(rates).values())
        numbers = np.tile(np.arange(len(rates)), nodes)
        return cls(np.repeat(np.arange(nodes), len(rates)), numbers, *tiled)


@dataclass(frozen=True, eq=False)
class State:
    """What each hypothesis implies after some audits."""

    counts: FloatArray  # (hypotheses, cells): P(cell of the corruption count), up to some cell
    quiet: IntArray  # (hypotheses,): units since the last detection
    log_likelihood: FloatArray  # (hypotheses,): of all outcomes so far; -inf if dropped

    @classmethod
    def initial(cls, count: int, cells: int) -> Self:
        """Return the state of nodes that are intact."""
        counts = np.zeros((count, cells))
        counts[:, 0] = 1.0
        return cls(counts, np.zeros(count, np.int64), np.zeros(count))

    def write(self, which: IntArray, new: "State") -> None:
        """Replace the states of these hypotheses, which were initial."""
        self.counts[which, : new.counts.shape[1]] = new.counts
        self.quiet[which] = new.quiet
        self.log_likelihood[which] = new.log_likelihood


@dataclass(frozen=True, eq=False)
class Floor:
    """Hypotheses whose log likelihood must end below this are negligible."""

    floor: FloatArray  # (hypotheses,)
    bounds: FloatArray  # (rates, steps, nodes): of the log likelihood from a step on

    def is_out_of_reach(
        self, step: int, which: IntArray, hypotheses: Hypotheses, state: State
    ) -> BoolArray:
        ahead = self.bounds[hypotheses.rates, step, hypotheses.node]
        return np.asarray(state.log_likelihood + ahead < self.floor[which], np.bool_)


def _log_survival(rates: FloatArray) -> FloatArray:
    return np.array([math.log1p(-min(rate, 1 - 1e-16)) for rate in rates.tolist()])
