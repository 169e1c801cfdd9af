"""Plans: which setting of a policy keeps a budget, a ceiling or a deadline, and what that costs.

Settings are compared on some episodes, and the figures of the chosen one come from others, so that
the choice does not flatter them. A limit is kept if the worse end of the interval keeps it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np

from holdfast.control.planning.costs import Currency, Prices
from holdfast.errors import InputError
from holdfast.executor import result_of
from holdfast.model.action import GRID
from holdfast.model.estimate import Estimate
from holdfast.model.scenario import Scenario
from holdfast.policy.registry import portable
from holdfast.sim.measures import WITHIN, Measures
from holdfast.sim.trial import OnProgress, Trial, run_trials

FRESH_TIMES = 4  # times as many episodes for the plan's own figures as for a comparison
FRESH_SEEDS = 10**9  # what is added to the seed of the comparison

# Beside the settings: the planner, for ceilings at these quantiles of their miss rates, rules that
# people run today, and the largest sample at each interval.
BELIEF_AT = (0.25, 0.75)
RULES = (
    *("fixed-low", "two-speed", "daily-5", "sample-460"),
    *(f"constant:{interval},{max(GRID.ratios):.2f}" for interval in GRID.intervals),
)

Figure = Callable[[Measures], float]  # the lower the better, at the worse end of its interval


@dataclass(frozen=True)
class Point:
    """A policy, and what it did in simulation."""

    policy: str
    measures: Measures


@dataclass(frozen=True)
class Trials:
    """Episodes in which policies are tried."""

    scenario: Scenario
    episodes: int
    seed: int
    within: tuple[int, ...] = WITHIN
    executor: Executor | None = None
    on_progress: OnProgress = lambda _trial, _episodes: None

    def point(self, policy: str) -> Point:
        (point,) = self.points([policy])
        return point

    def points(self, policies: Sequence[str], *, skip_refused: bool = False) -> list[Point]:
        """Try the policies; leave out, if asked to, those that can't be made."""
        trials = [self._trial(policy) for policy in policies]
        points = {}
        for trial, future in run_trials(trials, self.executor, self.on_progress):
            try:
                result = result_of(future, f"the trial of {trial.name}")
            except InputError:
                if not skip_refused:
                    raise
            else:
                points[trial] = Point(trial.name, result.measures)
        return [points[trial] for trial in trials if trial in points]

    def _trial(self, policy: str) -> Trial:
        build = portable(policy, self.scenario)
        return Trial(policy, build, self.scenario, self.episodes, self.seed, within=self.within)

    def fresh(self) -> "Trials":
        """Return more episodes, of which none was met before."""
        episodes, seed = FRESH_TIMES * self.episodes, self.seed + FRESH_SEEDS
        return replace(self, episodes=episodes, seed=seed)


@dataclass(frozen=True)
class Limit:
    """A figure that a plan must not exceed, and a sentence about the lowest possible one."""

    figure: Figure
    most: float
    nearest: Callable[[float], str]

    def kept(self, point: Point) -> bool:
        return self.figure(point.measures) <= self.most


@dataclass(frozen=True)
class PlanRequest:
    """What a plan is to keep; None where anything will do. Times are in units."""

    currency: Currency
    budget: float | None = None  # a month
    ceiling: float | None = None  # on the miss rate
    latency: float | None = None
    deadline: int | None = None
    share: float = 0.95  # of the damage, to be found before the deadline

    def __post_init__(self) -> None:
        if self.budget is None and self.ceiling is None and self.deadline is None:
            raise InputError("say what to plan for: a budget, a ceiling or a deadline")

    def aim(self, prices: Prices) -> Figure:
        """Return what is to be as low as possible: misses within a budget, or else the cost."""
        return _misses if self.budget is not None else self._cost(prices)

    def limits(self, prices: Prices) -> list[Limit]:
        return list(self._limits(prices))

    def _limits(self, prices: Prices) -> Iterator[Limit]:
        if self.budget is not None:
            unit = self.currency.label
            yield Limit(
                self._cost(prices),
                self.budget,
                lambda x: f"a month costs at least {_at_least(x)} {unit}",
            )
        if self.ceiling is not None:
            yield Limit(_misses, self.ceiling, lambda x: f"the lowest ceiling is {_up(x):.4f}")
        if self.latency is not None:
            yield Limit(
                lambda measures: measures.latency.high,
                self.latency,
                lambda x: f"the lowest mean latency is {x:.3g} units",
            )
        if (units := self.deadline) is not None:
            yield Limit(
                lambda measures: 1 - measures.detected_within[units].low,
                1 - self.share,
                lambda x: f"at most {1 - x:.1%} is surely found within {units} units",
            )

    def _cost(self, prices: Prices) -> Figure:
        return lambda measures: prices.cost(measures, self.currency).high


@dataclass(frozen=True)
class Plan:
    """A point as it was chosen, and the same policy on fresh episodes."""

    chosen: Point
    fresh: Point

    @property
    def ceiling(self) -> float:
        """The miss rate that both stay below, so that it leads back to a plan as cheap."""
        return _up(max(_misses(point.measures) for point in (self.chosen, self.fresh)))


def choose(
    points: Sequence[Point], limits: Sequence[Limit], aim: Figure, fresh: Callable[[str], Point]
) -> Plan:
    """Return the point with the lowest aim that keeps the limits, on fresh episodes too."""
    points = [point for point in points if not math.isnan(point.measures.miss_rate.value)]
    if not points:
        raise InputError("nothing went bad in the episodes: there is nothing to plan for")
    able = [point for point in points if all(limit.kept(point) for limit in limits)]
    tried = []
    for point in sorted(able, key=lambda able_point: aim(able_point.measures)):
        again = fresh(point.policy)
        if all(limit.kept(again) for limit in limits):
            return Plan(point, again)
        tried.append(again)
    raise InputError(_out_of_reach(tried or points, limits))


def references(points: Sequence[Point], trials: Trials) -> list[Point]:
    """Return what others would do: the planner where it finds a plan, and the rules."""
    misses = [point.measures.miss_rate.value for point in points]
    ceilings = np.unique(np.nanquantile(misses, BELIEF_AT))
    plans = [f"belief:rho={rho:.3g}" for rho in ceilings]  # some may be out of its reach
    return trials.points([*plans, *RULES], skip_refused=True)


def better(
    points: Sequence[Point], than: Point, cost: Callable[[Measures], Estimate]
) -> list[Point]:
    """Return the points that surely cost less and miss less."""

    def beats(ours: Measures, theirs: Measures) -> bool:
        cheaper = cost(ours).high < cost(theirs).low
        return cheaper and ours.miss_rate.high < theirs.miss_rate.low

    return [point for point in points if beats(point.measures, than.measures)]


def _misses(measures: Measures) -> float:
    return measures.miss_rate.high


def _up(amount: float, parts: float = 1e4) -> float:
    """Return an amount rounded up to a multiple of 1 / parts: by default to 0.01 %."""
    count = math.ceil(amount * parts)
    return (count + (count / parts < amount)) / parts  # the product may have been rounded down


def _at_least(amount: float) -> str:
    """Return an amount that is enough, in four figures."""
    decimals = 3 - math.floor(math.log10(amount))
    return f"{_up(amount, 10.0**decimals):,.{max(decimals, 0)}f}"


def _out_of_reach(points: Sequence[Point], limits: Sequence[Limit]) -> str:
    """Say how near the settings that keep all other limits come to one."""
    cannot = "no setting of the policy can do that"
    for limit in limits:
        others = [other for other in limits if other is not limit]
        rest = [point for point in points if all(other.kept(point) for other in others)]
        if rest:
            nearest = limit.nearest(min(limit.figure(point.measures) for point in rest))
            return f"{cannot}: {nearest}{', all else kept' if others else ''}"
    return f"{cannot}: ask for less at once, to see how near it comes"
