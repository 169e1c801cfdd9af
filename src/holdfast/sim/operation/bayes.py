"""The Bayes index: what a node's own history tells of its hazard and of what goes on in it.

For each node it keeps the probabilities of a grid of hazards and of modes: nothing goes on, or the
damage grows, by rot or by cheating, at one of some rates. It then waits for as long, and samples as
many blocks, as costs least in the long run if nothing changed: costs of audits, and exposure at a
price. It is myopic, and approximate where several things happen within one interval.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.operation import DAYS_PER_YEAR, Operation
from holdfast.sim.operation.nodes import Nodes
from holdfast.sim.operation.policies import Decision

HAZARDS, ROTS, CHEATS = 8, 4, 5
INTERVALS = np.geomspace(1.0, 90.0, 24)
SAMPLES = (20, 50, 110, 220, 460, 1000, 2200)
SHARES = 24  # points at which partial losses are averaged


@dataclass(frozen=True, eq=False)
class _Grid:
    """The hazards and modes that are told apart, and what is known of the causes."""

    scenario: Operation

    @cached_property
    def hazard(self) -> FloatArray:
        middles = (np.arange(HAZARDS) + 0.5) / HAZARDS
        hazards = self.scenario.least_hazard * self.scenario.hazard_spread**middles
        return np.asarray(hazards / hazards.mean())

    @cached_property
    def growth(self) -> FloatArray:
        """The share that each mode loses a day; 0 for the one in which nothing goes on."""
        rates = [0.0]
        for count, (low, high) in (
            (ROTS, self.scenario.rot_rate),
            (CHEATS, self.scenario.cheating_rate),
        ):
            rates += (low * (high / low) ** ((np.arange(count) + 0.5) / count)).tolist()
        return np.array(rates)

    @cached_property
    def turns(self) -> FloatArray:
        """The rate at which nodes of hazard 1 enter each mode, per day."""
        scenario = self.scenario
        rot = scenario.latent_error * scenario.rot_share / ROTS
        cheat = scenario.turn_cheater / CHEATS
        return np.array([0.0] + [rot] * ROTS + [cheat] * CHEATS) / DAYS_PER_YEAR

    @cached_property
    def prior(self) -> FloatArray:
        """Probabilities of a new node, (hazard, mode)."""
        cheats = self.scenario.cheaters_at_start
        mode = np.array([1 - cheats] + [0.0] * ROTS + [cheats / CHEATS] * CHEATS)
        return np.asarray(np.tile(mode / HAZARDS, (HAZARDS, 1)))

    @cached_property
    def partial(self) -> FloatArray:
        """Shares of partial losses, equally likely."""
        low, high = self.scenario.partial_share
        return np.asarray(low * (high / low) ** ((np.arange(SHARES) + 0.5) / SHARES))

    @cached_property
    def loss(self) -> float:
        """The share of its blocks that a node of hazard 1 loses a day at once."""
        scenario = self.scenario
        partial = scenario.partial_loss * float(self.partial.mean())
        return (scenario.whole_loss + partial) / DAYS_PER_YEAR

    @cached_property
    def fails(self) -> float:
        """The rate at which a node of hazard 1 fails by what came at once, per day.

        Latent errors are found sooner or later, so that their failures come at the same rate.
        """
        scenario = self.scenario
        rate = scenario.whole_loss + scenario.partial_loss + scenario.latent_error
        return rate / DAYS_PER_YEAR

    @cached_property
    def may_recur(self) -> float:
        """The probability that a failure by what came at once is followed by another event."""
        scenario = self.scenario
        recurring = scenario.partial_loss + scenario.latent_error
        return scenario.recurrence * recurring / (recurring + scenario.whole_loss)


@dataclass
class BayesIndex:
    """Decides for the nodes of one run; a new run takes a new one."""

    scenario: Operation
    price: float  # of a share-day, in the unit of the costs
    samples: tuple[int, ...] = SAMPLES
    longest: float = 90.0
    _grid: _Grid = field(init=False)
    _belief: FloatArray = field(init=False)  # (node, hazard, mode)
    _share: FloatArray = field(init=False)  # (node, mode): damaged, if it is in that mode
    _recurs: FloatArray = field(init=False)  # (node): probability that an event is to recur
    _started: bool = False

    def decide(self, nodes: Nodes, node: IntArray) -> Decision:
        if not self._started:
            self._start(len(nodes))
        else:
            self._learn(nodes, node)
        return self._cheapest(node)

    def _start(self, count: int) -> None:
        self._grid = _Grid(self.scenario)
        self._belief = np.tile(self._grid.prior, (count, 1, 1))
        self._share = np.zeros((count, len(self._grid.growth)))
        self._recurs = np.zeros(count)
        self._started = True

    def _learn(self, nodes: Nodes, node: IntArray) -> None:
        """Take the last audit of each node into account."""
        grid, history = self._grid, nodes.history
        days, samples = history.interval[node], history.samples[node]
        failed = history.failures_in_row[node] > 0
        belief = self._belief[node]
        # Nodes begin to rot or to cheat in mid-interval; the others go on.
        entering = belief[:, :, :1] * (
            1 - np.exp(-days[:, None, None] * grid.hazard[:, None] * grid.turns)
        )
        staying = belief.copy()
        staying[:, :, 0] -= entering.sum(axis=2)
        share = self._share[node] + grid.growth * days[:, None]
        share_entering = grid.growth * days[:, None] / 2
        calm = np.exp(-days[:, None] * grid.hazard * grid.fails)
        decay = np.exp(-days / self.scenario.recurrence_days)
        calm *= (1 - self._recurs[node] * (1 - decay))[:, None]
        passing_staying = staying * calm[:, :, None] * _passes(share, samples)
        passing_entering = entering * calm[:, :, None] * _passes(share_entering, samples)
        passing = passing_staying + passing_entering
        failing = staying + entering - passing
        weight = passing.sum(axis=1)
        share = np.where(
            weight > 0,
            (passing_staying.sum(axis=1) * share + passing_entering.sum(axis=1) * share_entering)
            / np.maximum(weight, 1e-300),
            share,
        )
        cured = failing[:, :, 1 : 1 + ROTS] * self.scenario.cure
        at_once = failing[:, :, 0].sum(axis=1) / failing.sum(axis=(1, 2))
        failing[:, :, 0] += cured.sum(axis=2)
        failing[:, :, 1 : 1 + ROTS] -= cured
        belief = np.where(failed[:, None, None], failing, passing)
        belief /= belief.sum(axis=(1, 2), keepdims=True)
        new = history.replaced[node]
        belief[new] = grid.prior
        self._belief[node] = belief
        self._share[node] = np.where((failed | new)[:, None], 0.0, share)
        recurs = np.where(failed, at_once * grid.may_recur, self._recurs[node] * decay)
        self._recurs[node] = np.where(new, 0.0, recurs)

    def _cheapest(self, node: IntArray) -> Decision:
        """Return the interval and the sample with the least cost per day of each node."""
        scenario, grid = self.scenario, self._grid
        belief, share = self._belief[node], self._share[node]
        mode = belief.sum(axis=1)
        hazard = (belief.sum(axis=2) * grid.hazard).sum(axis=1)
        recurring = (
            self._recurs[node]
            / scenario.recurrence_days
            * (1 - scenario.recurrence_latent)
            * float(grid.partial.mean())
        )
        loss = hazard * grid.loss + recurring + (mode * grid.growth).sum(axis=1)
        present = (mode * share).sum(axis=1)
        best = np.full(len(node), np.inf)
        interval, chosen = np.empty(len(node)), np.empty(len(node), np.int64)
        for samples in self.samples:
            cost = scenario.per_audit + scenario.per_block * samples
            missed = (grid.partial * (1 - grid.partial) ** samples).mean()
            missed *= scenario.partial_loss / DAYS_PER_YEAR
            for days in INTERVALS[self.longest >= INTERVALS]:
                grown = np.minimum(share + grid.growth * days, 1.0)
                left = (mode * grown * np.exp(samples * np.log1p(-np.minimum(grown, 0.999)))).sum(
                    axis=1
                )
                exposure = present + left + loss * days / 2 + hazard * missed * days
                per_day = cost / days + self.price * exposure
                better = per_day < best
                best[better] = per_day[better]
                interval[better] = days
                chosen[better] = samples
        return Decision(interval, chosen)


def _passes(share: FloatArray, samples: IntArray) -> FloatArray:
    """Return the probability that samples meet no damage, (node, 1, mode)."""
    clipped = np.minimum(share, 1 - 1e-9)
    return np.asarray(np.exp(samples[:, None] * np.log1p(-clipped))[:, None, :])
