"""What happens to nodes while they wait for their audit.

The types, bursts, loads and strikes of a node do not depend on who audits it. With keyed draws each
unit of time has its own, the same under every policy. Training needs no matched episodes: a plain
generator draws whole intervals at once, which is faster and has the same law.
"""

from dataclasses import dataclass

import numpy as np

from holdfast.model.action import GRID
from holdfast.model.arrays import BoolArray, FloatArray, IntArray
from holdfast.model.scenario import Scenario
from holdfast.sim.draws import Cause, KeyedDraws
from holdfast.sim.growth import Growth, IntervalGrowth, UnitGrowth
from holdfast.sim.nodes import Nodes
from holdfast.sim.strikes import collisions, strikes

MAX_INTERVAL = max(GRID.intervals)


@dataclass(frozen=True)
class IntervalResult:
    """The state of each node when its audit comes, and the draws that the audit uses."""

    malicious: BoolArray
    bursting: BoolArray
    load: FloatArray
    growth: Growth
    audit: FloatArray
    response: FloatArray


def draw_interval(
    scenario: Scenario, nodes: Nodes, interval: IntArray, rng: np.random.Generator
) -> IntervalResult:
    """Draw all units of the intervals at once."""
    uniform = rng.random((len(interval), 4))
    malicious, bursting, loss_probability = _loss_probability(scenario, nodes, interval, rng)
    probability = loss_probability[interval - 1, np.arange(len(interval))]
    grown = rng.binomial(scenario.blocks - nodes.corrupted, probability)
    load = nodes.load
    if scenario.latency_load:
        memory = np.power(scenario.load_memory, interval, dtype=np.float64)
        load = _next_load(load, memory, uniform[:, 2])
    return IntervalResult(
        malicious=malicious,
        bursting=bursting,
        load=load,
        growth=IntervalGrowth(interval, nodes.corrupted, grown, loss_probability, uniform[:, 0]),
        audit=uniform[:, 1],
        response=uniform[:, 3],
    )


def draw_units(
    scenario: Scenario, nodes: Nodes, interval: IntArray, draws: KeyedDraws
) -> IntervalResult:
    """Draw the intervals unit by unit, each draw by its unit and cause."""
    malicious, bursting, load = nodes.malicious.copy(), nodes.bursting.copy(), nodes.load.copy()
    corrupted = nodes.corrupted.copy()
    first, exposed = np.full(len(interval), MAX_INTERVAL), np.zeros(len(interval))
    shortest = int(interval.min())
    for unit in range(int(interval.max())):
        running = slice(None) if unit < shortest else np.flatnonzero(interval > unit)
        now, time = draws.take(running), nodes.time[running] + unit
        if scenario.drifts:
            malicious[running] ^= now.uniform(time, Cause.TURN) < np.where(
                malicious[running], scenario.turn_honest, scenario.turn_malicious
            )
            bursting[running] ^= now.uniform(time, Cause.BURST) < np.where(
                bursting[running], scenario.burst_end, scenario.burst_start
            )
        if scenario.latency_load:
            load[running] = _next_load(
                load[running], scenario.load_memory, now.uniform(time, Cause.LOAD)
            )
        rate = np.where(
            malicious[running],
            _malicious_rate(scenario, nodes, unit)[running],
            _honest_rate(scenario, nodes, bursting)[running],
        )
        struck = strikes(scenario.blocks, rate, now.uniform(time, Cause.STRIKES))
        struck -= _struck_before(scenario.blocks, corrupted[running], struck, now, time)
        first[running] = np.minimum(first[running], np.where(struck > 0, unit, MAX_INTERVAL))
        corrupted[running] += struck
        exposed[running] += corrupted[running]
    audit_time = nodes.time + interval
    return IntervalResult(
        malicious=malicious,
        bursting=bursting,
        load=load,
        growth=UnitGrowth(interval, nodes.corrupted, corrupted - nodes.corrupted, first, exposed),
        audit=draws.uniform(audit_time, Cause.AUDIT),
        response=draws.uniform(audit_time, Cause.RESPONSE),
    )


def _struck_before(
    blocks: int, corrupted: IntArray, struck: IntArray, draws: KeyedDraws, time: IntArray
) -> IntArray:
    """Return how many of the struck blocks were corrupted already."""
    again = np.zeros(len(struck), np.int64)
    some = np.flatnonzero((struck > 0) & (corrupted > 0))
    if len(some):
        uniform = draws.take(some).uniform(time[some], Cause.COLLISIONS)
        again[some] = collisions(blocks, corrupted[some], struck[some], uniform)
    return again


def _loss_probability(
    scenario: Scenario, nodes: Nodes, interval: IntArray, rng: np.random.Generator
) -> tuple[BoolArray, BoolArray, FloatArray]:
    """Return types and bursts after the interval, and the probability of a loss by each unit."""
    malicious, bursting = nodes.malicious, nodes.bursting
    if not scenario.steady:
        turn, burst = np.moveaxis(rng.random((len(interval), 2, MAX_INTERVAL)), 0, -1)
    loss_probability = np.empty((int(interval.max()), len(interval)))
    survival = np.ones(len(interval))
    for unit in range(len(loss_probability)):
        if not scenario.steady:
            running = unit < interval
            turning = np.where(malicious, scenario.turn_honest, scenario.turn_malicious)
            changing = np.where(bursting, scenario.burst_end, scenario.burst_start)
            malicious = malicious ^ (running & (turn[unit] < turning))
            bursting = bursting ^ (running & (burst[unit] < changing))
        if unit == 0 or not scenario.steady:
            survival_per_unit = 1.0 - np.where(
                malicious,
                _malicious_rate(scenario, nodes, unit),
                _honest_rate(scenario, nodes, bursting),
            )
        survival *= survival_per_unit
        np.subtract(1.0, survival, out=loss_probability[unit])
    return malicious, bursting, loss_probability


def _malicious_rate(scenario: Scenario, nodes: Nodes, unit: int) -> FloatArray:
    """Return the probability that a malicious node loses a block in this unit of the interval."""
    if scenario.quiet_factor == 1:
        return nodes.malicious_rate
    quiet = nodes.quiet + unit >= scenario.quiet_after
    return nodes.malicious_rate * np.where(quiet, scenario.quiet_factor, 1.0)


def _honest_rate(scenario: Scenario, nodes: Nodes, bursting: BoolArray) -> FloatArray:
    if scenario.burst_factor == 1:
        return nodes.honest_rate
    return nodes.honest_rate * np.where(bursting, scenario.burst_factor, 1.0)


def _next_load(load: FloatArray, memory: FloatArray | float, uniform: FloatArray) -> FloatArray:
    """Return the load that stays with the probability `memory`, or else is drawn anew."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(uniform < memory, load, (uniform - memory) / (1.0 - memory))
