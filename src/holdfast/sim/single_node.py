"""One node in plain numbers, unit by unit: what `nodes` and `interval` are for a fleet."""

import math
from bisect import bisect_right

import numpy as np

from holdfast.model.scenario import Scenario
from holdfast.sim.draws import EVERY_UNIT, STEADY, KeyedDraws
from holdfast.sim.interval import MAX_INTERVAL
from holdfast.sim.strikes import collisions_of_one, logarithms, strike_table

MAX_UNITS_AHEAD = 400  # for which random numbers are computed at once


class SingleNode:
    """The hidden state of a node, by the draws of one episode."""

    def __init__(self, scenario: Scenario, draws: KeyedDraws, malicious: bool | None) -> None:
        self._scenario, self._draws = scenario, draws
        kind, honest, corrupting, burst, self.load = draws.start()[0].tolist()
        self.malicious = kind < scenario.malicious_share if malicious is None else bool(malicious)
        self._honest_rate = scenario.honest_rate * math.pow(scenario.honest_spread, 2 * honest - 1)
        self._malicious_rate = scenario.malicious_rate * math.pow(
            scenario.malicious_spread, 2 * corrupting - 1
        )
        self._bursting = burst < scenario.burst_share
        self.time = self.corrupted = self._quiet = 0
        self.first_unit = 0  # of the last interval in which blocks went bad: when the first did
        self._cumulative: dict[float, tuple[int, list[float]]] = {}
        logs = logarithms(scenario.blocks)
        self._logs, self._pairs = logs.factorial.data, logs.pair.data
        self._changes = bool(not scenario.steady or scenario.latency_load)
        self._draw_ahead()

    def wait(self, interval: int) -> int:
        """Let the interval pass; return the corrupted blocks summed over its units."""
        if self.time + interval >= self._begin + self._units_ahead:
            self._draw_ahead()
        offset = self.time - self._begin
        corrupted, exposure, first = self.corrupted, 0, -1
        if not self._scenario.steady:
            self._live(offset, interval)
        for unit, struck in enumerate(self._strikes[offset : offset + interval], offset):
            grown = struck
            if struck and corrupted:
                uniform = self._collisions[unit]
                grown -= collisions_of_one(corrupted, struck, uniform, self._logs, self._pairs)
            if grown and first < 0:
                first = unit
            corrupted += grown
            exposure += corrupted
        if first >= 0:
            self.first_unit = self._begin + first
        if self._scenario.latency_load:
            self._carry_load(self._loads[offset : offset + interval])
        self.corrupted = corrupted
        self.time += interval
        self._quiet += interval
        return exposure

    def audit_draws(self) -> tuple[float, float]:
        """Return the uniform numbers that decide an audit now, and its response time."""
        offset = self.time - self._begin
        return self._audits[offset], self._responses[offset]

    def repair(self) -> None:
        self.corrupted = self._quiet = 0

    def _live(self, offset: int, interval: int) -> None:
        """Let the types, bursts and rates of the units decide how many blocks are struck."""
        scenario, turns, bursts = self._scenario, self._turns, self._bursts
        for unit in range(offset, offset + interval):
            turning = scenario.turn_honest if self.malicious else scenario.turn_malicious
            changing = scenario.burst_end if self._bursting else scenario.burst_start
            self.malicious ^= turns[unit] < turning
            self._bursting ^= bursts[unit] < changing
            rate = self._rate(self._quiet + unit - offset)
            if rate not in self._cumulative:
                table = strike_table(scenario.blocks, rate)
                self._cumulative[rate] = table.least, table.cumulative.tolist()
            least, cumulative = self._cumulative[rate]
            self._strikes[unit] = least + bisect_right(cumulative, self._strike_draws[unit])

    def _rate(self, quiet: int) -> float:
        scenario = self._scenario
        if self.malicious:
            bold = scenario.quiet_factor if quiet >= scenario.quiet_after else 1.0
            return self._malicious_rate * bold
        return self._honest_rate * (scenario.burst_factor if self._bursting else 1.0)

    def _carry_load(self, uniform: list[float]) -> None:
        memory = self._scenario.load_memory
        for number in uniform:
            if number >= memory:
                self.load = (number - memory) / (1.0 - memory)

    def _draw_ahead(self) -> None:
        """Draw the units from now on, as many as an episode has if they are not too many."""
        self._begin = self.time
        self._units_ahead = min(self._scenario.horizon + MAX_INTERVAL, MAX_UNITS_AHEAD)
        causes = EVERY_UNIT if self._changes else STEADY
        draws = self._draws.series(self._begin, self._units_ahead, causes)
        # Reading numbers through a buffer is as fast as from a list, without making one.
        self._strike_draws, self._collisions, self._audits, self._responses, *rest = (
            row.data for row in draws
        )
        if self._changes:
            self._turns, self._bursts, self._loads = rest
        if self._scenario.steady:
            table = strike_table(self._scenario.blocks, self._rate(quiet=0))
            self._strikes = table.quantile(draws[0]).data
        else:
            self._strikes = np.zeros(self._units_ahead, np.int64).data
