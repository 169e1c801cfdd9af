"""Nodes in continuous time: damage that comes and grows, audits that find and repair it.

Between two events a node's damaged share grows linearly, so that times and integrals are exact.
"""

from dataclasses import dataclass

import numpy as np

from holdfast.model.arrays import BoolArray, FloatArray, IntArray
from holdfast.model.operation import DAYS_PER_YEAR, Operation
from holdfast.sim.draws import KeyedDraws
from holdfast.sim.operation.causes import (
    RECURRENCES,
    Cause,
    audit_number,
    event_number,
    hazards,
    log_uniform,
)
from holdfast.sim.operation.tally import Tally


@dataclass(frozen=True, eq=False)
class History:
    """What an owner knows of its nodes: arrays with an entry for each."""

    audits: IntArray
    interval: FloatArray  # days before the last audit
    samples: IntArray  # blocks of the last audit
    failures_in_row: IntArray
    replaced: BoolArray  # by the last audit: the node is a new one

    @classmethod
    def empty(cls, count: int) -> "History":
        number = np.zeros(count, np.int64)
        return cls(number.copy(), np.zeros(count), number.copy(), number, np.zeros(count, np.bool_))


class Nodes:
    """The state of a batch of nodes, each at its own time, and the tally of what happened."""

    def __init__(self, scenario: Operation, draws: KeyedDraws, provider: FloatArray) -> None:
        count = len(draws.keys)
        self.scenario = scenario
        self.tally = Tally(scenario, count)
        self._draws = draws
        self._provider = provider  # a uniform number, equal for nodes of one provider
        self.time = np.zeros(count)
        self.hazard = np.empty(count)
        self.share = np.zeros(count)  # of the blocks that are damaged
        self.rot = np.zeros(count)  # by which the share grows each day
        self.cheating = np.zeros(count)  # the same, and no repair ends it
        self.history = History.empty(count)
        self._audited_at = np.zeros(count)
        self._generation = np.zeros(count, np.int64)
        self._event = np.zeros(count, np.int64)
        self._event_at = np.zeros(count)
        self._recurrence = np.zeros(count, np.int64)
        self._recurrence_at = np.full(count, np.inf)
        self._recurs_from = np.zeros(count, np.int64)  # the event that may recur; 0 for none
        self._begin(np.arange(count))

    def __len__(self) -> int:
        return len(self.time)

    def advance(self, node: IntArray, until: FloatArray) -> None:
        """Let what happens to these nodes until their next audits happen."""
        while len(node):
            event_at, recurrence_at = self._event_at[node], self._recurrence_at[node]
            next_at = np.minimum(event_at, recurrence_at)
            self._grow(node, np.minimum(next_at, until))
            happens = next_at < until
            recurs = happens & (recurrence_at < event_at)
            self._strike(node[happens & ~recurs])
            self._strike_again(node[recurs])
            node, until = node[happens], until[happens]

    def audit(self, node: IntArray, samples: IntArray) -> BoolArray:
        """Sample blocks of these nodes, repair what fails, and return which failed."""
        number = audit_number(self.time[node])
        found = 1.0 - (1.0 - self.share[node]) ** samples
        failed = self._uniform(node, number, Cause.AUDIT) < found
        self.tally.count_audits(node, samples)
        broken = node[failed]
        self.tally.failures[broken] += 1
        self.tally.find(broken, self.time[broken])
        self._repair(broken, number[failed])
        self._record(node, samples, failed)
        self._replace(node[self.history.replaced[node]])
        return failed

    def _record(self, node: IntArray, samples: IntArray, failed: BoolArray) -> None:
        history = self.history
        history.audits[node] += 1
        history.interval[node] = self.time[node] - self._audited_at[node]
        history.samples[node] = samples
        in_row = np.where(failed, history.failures_in_row[node] + 1, 0)
        history.failures_in_row[node] = in_row
        history.replaced[node] = in_row >= self.scenario.failures_to_replace
        self._audited_at[node] = self.time[node]

    def _replace(self, node: IntArray) -> None:
        self._generation[node] += 1
        self.history.failures_in_row[node] = 0
        self._begin(node)
        self.tally.replacements[node] += 1

    def end(self) -> Tally:
        """Return the tally, with damage that was never found."""
        self.tally.find(np.arange(len(self)), self.time)
        return self.tally

    def _begin(self, node: IntArray) -> None:
        """Draw nodes anew, at their present time."""
        scenario = self.scenario
        number = event_number(self._generation[node], np.zeros(len(node), np.int64))
        own = self._uniform(node, number, Cause.HAZARD)
        self.hazard[node] = hazards(scenario, own, self._provider[node])
        self.share[node] = self.rot[node] = self.cheating[node] = 0.0
        self._event[node] = self._recurrence[node] = self._recurs_from[node] = 0
        self._recurrence_at[node] = np.inf
        cheats = self._uniform(node, number, Cause.CHEATS) < scenario.cheaters_at_start
        self._start_cheating(node[cheats], number[cheats])
        self._wait(node)

    def _wait(self, node: IntArray) -> None:
        """Draw when the next event of these nodes comes."""
        self._event[node] += 1
        number = event_number(self._generation[node], self._event[node])
        wait = -np.log1p(-self._uniform(node, number, Cause.WAIT))
        rate = self.scenario.event_rate * self.hazard[node] / DAYS_PER_YEAR
        with np.errstate(divide="ignore"):
            self._event_at[node] = self.time[node] + wait / rate

    def _grow(self, node: IntArray, until: FloatArray) -> None:
        before, slope = self.share[node], self.rot[node] + self.cheating[node]
        began, days = self.time[node], until - self.time[node]
        self.tally.grow(node, began, days, before, slope)
        self.share[node] = np.minimum(1.0, before + slope * days)
        self.time[node] = until

    def _strike(self, node: IntArray) -> None:
        scenario = self.scenario
        number = event_number(self._generation[node], self._event[node])
        kind = self._uniform(node, number, Cause.KIND) * scenario.event_rate
        bounds = np.cumsum((scenario.whole_loss, scenario.latent_error, scenario.partial_loss))
        which = np.searchsorted(bounds, kind, side="right")
        self._damage(node[which == 0], np.ones(int((which == 0).sum())))
        self._latent_error(node[which == 1], number[which == 1])
        self._partial_loss(node[which == 2], number[which == 2])
        turns = (which == 3) & (self.cheating[node] == 0)
        self._start_cheating(node[turns], number[turns])
        self._wait(node)

    def _strike_again(self, node: IntArray) -> None:
        self._recurrence_at[node] = np.inf
        self._recurrence[node] += 1
        number = event_number(self._generation[node], RECURRENCES + self._recurrence[node])
        latent = self._uniform(node, number, Cause.KIND) < self.scenario.recurrence_latent
        self._latent_error(node[latent], number[latent])
        self._partial_loss(node[~latent], number[~latent])

    def _latent_error(self, node: IntArray, number: IntArray) -> None:
        scenario = self.scenario
        uniform = self._uniform(node, number, Cause.SIZE)
        more = np.floor(np.log1p(-uniform) / np.log1p(-1.0 / scenario.latent_blocks))
        self._damage(node, (1.0 + more) / scenario.blocks)
        self._recurs_from[node] = number
        rots = self._uniform(node, number, Cause.ROTS) < scenario.rot_share
        node, number = node[rots], number[rots]
        rate = log_uniform(self._uniform(node, number, Cause.ROT_RATE), scenario.rot_rate)
        self.rot[node] += rate
        self.tally.begin_campaign(node, self.time[node], rate)

    def _partial_loss(self, node: IntArray, number: IntArray) -> None:
        uniform = self._uniform(node, number, Cause.SIZE)
        self._damage(node, log_uniform(uniform, self.scenario.partial_share))
        self._recurs_from[node] = number

    def _damage(self, node: IntArray, share: FloatArray) -> None:
        """Damage a share of the blocks that are whole."""
        before = self.share[node]
        after = before + share * (1.0 - before)
        self.tally.strike(node, self.time[node], before, after)
        self.share[node] = after

    def _start_cheating(self, node: IntArray, number: IntArray) -> None:
        uniform = self._uniform(node, number, Cause.CHEATING_RATE)
        rate = log_uniform(uniform, self.scenario.cheating_rate)
        self.cheating[node] = rate
        self.tally.begin_campaign(node, self.time[node], rate)

    def _repair(self, node: IntArray, number: IntArray) -> None:
        scenario = self.scenario
        self.share[node] = 0.0
        cured = self._uniform(node, number, Cause.CURE) < scenario.cure
        self.rot[node[cured]] = 0.0
        struck = node[self._recurs_from[node] > 0]
        source = self._recurs_from[struck]
        self._recurs_from[struck] = 0
        recurs = self._uniform(struck, source, Cause.RECURS) < scenario.recurrence
        struck, source = struck[recurs], source[recurs]
        wait = -np.log1p(-self._uniform(struck, source, Cause.RECURS_AFTER))
        at = self.time[struck] + wait * scenario.recurrence_days
        self._recurrence_at[struck] = np.minimum(self._recurrence_at[struck], at)

    def _uniform(self, node: IntArray, number: IntArray, cause: Cause) -> FloatArray:
        return self._draws.take(node).uniform(number, cause)
