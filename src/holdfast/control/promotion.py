"""Whether a version may decide: it keeps the ceiling in simulation, and does well in shadow."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

from sqlalchemy import Engine

from holdfast.control.aliases import Verdict
from holdfast.control.comparison import Comparison, compare
from holdfast.control.rails import DAY
from holdfast.control.registry import Registry
from holdfast.control.stress import stressed
from holdfast.errors import InputError
from holdfast.evidence.leaf import Check
from holdfast.evidence.story import span
from holdfast.model.scenario import Scenario
from holdfast.policy.serving import Serving
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import Estimate, measure

SEED = 0
Z = 1.96
FLEET = "miss rate"
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Conditions:
    """What a promotion needs."""

    ceiling: float | None = None  # on the miss rate; else the one that the champion was made for
    stress: float = 2.5  # times the odds of a miss that it allows, in worse worlds
    episodes: int = 4000  # in each world
    decisions: int = 200  # in shadow, at least
    shadow: int = 14 * DAY  # and for so long
    gas_margin: float = 0.05  # by which the gas a month may be higher, as a share
    rails_margin: float = 0.02  # by which more decisions may be replaced or clipped
    outside_margin: float = 0.01  # by which more observations may lie outside of the training

    def __post_init__(self) -> None:
        if self.ceiling is not None and not 0 < self.ceiling < 1:
            raise InputError(f"the ceiling must lie between 0 and 1, not at {self.ceiling:g}")
        if self.stress < 1:
            raise InputError(f"stress must be at least 1, not {self.stress:g}")


@dataclass(frozen=True)
class Trial:
    """The miss rate of a version in one simulated world, and what it must stay below."""

    world: str
    miss_rate: Estimate
    ceiling: float

    @property
    def kept(self) -> bool:
        return self.miss_rate.high <= self.ceiling  # never so for what could not be measured

    def check(self) -> Check:
        found = self.miss_rate
        figures = f"{found.value:.4f} with an interval up to {found.high:.4f}"
        return Check(self.world, self.kept, f"{figures}, and the ceiling is {self.ceiling:.4f}")


def world_of_fleet(_engine: Engine, scenario: Scenario) -> Scenario:
    """Return the world that is most like this fleet."""
    return scenario


def ceiling_of(conditions: Conditions, champion: Serving) -> float:
    ceiling = conditions.ceiling or champion.rho
    if ceiling is None:
        raise InputError(
            f"{champion.name} was made for no ceiling: set `ceiling` in [control.promotion]"
        )
    return ceiling


def trials(
    policy: Serving,
    world: Scenario,
    ceiling: float,
    conditions: Conditions,
    progress: Progress = lambda _episodes: None,
) -> list[Trial]:
    """Return how a policy does in the fleet's world, and in worse ones."""
    odds = conditions.stress * ceiling / (1 - ceiling)
    worlds = {FLEET: (world, ceiling)} | {
        f"{FLEET} with {name}": (each, odds / (1 + odds)) for name, each in stressed(world).items()
    }
    return [
        Trial(name, miss_rate(policy, each, conditions.episodes, progress), limit)
        for name, (each, limit) in worlds.items()
    ]


def miss_rate(
    policy: Serving, world: Scenario, episodes: int, progress: Progress = lambda _episodes: None
) -> Estimate:
    """Return the miss rate with an interval that few encounters widen, too."""
    tally = evaluate(policy.policy, world, episodes=episodes, seed=SEED, progress=progress)
    found = measure(tally).miss_rate
    misses, encounters = float(tally.misses.sum()), float((tally.misses + tally.detections).sum())
    if not encounters:
        return Estimate(math.nan, math.nan, math.nan)
    # The bootstrap knows how encounters of an episode go together, but nothing of what it never
    # saw: without a single miss its interval has no width.
    high = max(found.high, _wilson(misses / encounters, encounters))
    return Estimate(found.value, found.low, high)


def _wilson(share: float, count: float) -> float:
    """Return the upper end of Wilson's interval."""
    spread = Z * math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
    return (share + Z**2 / (2 * count) + spread) / (1 + Z**2 / count)


def judge(
    engine: Engine,
    version: str,
    champion: str,
    world: Scenario,
    conditions: Conditions,
    *,
    unit: int,
    progress: Progress = lambda _episodes: None,
) -> Verdict:
    """Return whether a version may take the champion's place, with all that speaks for it or not.

    Gas is no yardstick where the champion itself breaks the ceiling.
    """
    registry = Registry(engine)
    reigning = registry.serving(champion)
    ceiling = ceiling_of(conditions, reigning)
    found = trials(registry.serving(version), world, ceiling, conditions, progress)
    rate = miss_rate(reigning, world, conditions.episodes, progress)
    beside = compare(engine, version, champion, unit=unit)
    checks = [trial.check() for trial in found]
    checks += _shadow_checks(beside, conditions, lax=not rate.high <= ceiling)
    figures = {
        "ceiling": ceiling,
        "world": asdict(world),
        "conditions": asdict(conditions),
        "trials": [numbers(trial) for trial in found],
        "champion": {"version": champion, "miss_rate": _finite(asdict(rate))},
        "shadow": None if beside is None else asdict(beside),
    }
    return Verdict(tuple(checks), figures)


def _shadow_checks(beside: Comparison | None, conditions: Conditions, *, lax: bool) -> list[Check]:
    wanted = f"{conditions.decisions} over {span(conditions.shadow)} are wanted"
    if beside is None:
        return [Check("shadow", passed=False, detail=f"it was never beside the champion; {wanted}")]
    seen = f"{beside.decisions} decisions of {beside.holdings} holdings over {span(beside.span)}"
    enough = beside.decisions >= conditions.decisions and beside.span >= conditions.shadow
    gas = beside.gas_change
    change = f"{gas.value:+.1%} with an interval up to {gas.high:+.1%}"
    allowed = f"{conditions.gas_margin:+.1%} is allowed"
    if lax:
        allowed = "any is allowed, as the champion breaks the ceiling"
    return [
        Check("shadow", enough, f"{seen}; {wanted}"),
        Check("gas a month", lax or gas.high <= conditions.gas_margin, f"{change}; {allowed}"),
        _share("rails", beside.rails.difference, conditions.rails_margin),
        _share("outside of training", beside.outside.difference, conditions.outside_margin),
    ]


def _share(name: str, difference: Estimate, margin: float) -> Check:
    found = f"{difference.value:+.1%} of the decisions, with an interval up to"
    detail = f"{found} {difference.high:+.1%}; {margin:+.1%} is allowed"
    return Check(name, difference.high <= margin, detail)


def numbers(trial: Trial) -> dict[str, object]:
    """Return a trial as JSON holds it."""
    return asdict(trial) | {"miss_rate": _finite(asdict(trial.miss_rate)), "kept": trial.kept}


def _finite(figures: dict[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in figures.items()}
