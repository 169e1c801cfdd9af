"""Whether a version may decide: it keeps the ceiling in simulation, and does well in shadow.

The episodes are drawn anew for every judgement, so nobody can fit a policy to them beforehand.
"""

import math
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Engine

from holdfast.control.policies.aliases import Verdict, last_report
from holdfast.control.policies.claims import (
    CORNERS,
    Watched,
    check_claims,
    check_envelope,
    compare_claims,
    join_envelopes,
)
from holdfast.control.policies.comparison import Comparison, compare
from holdfast.control.policies.stress import stressed
from holdfast.control.policies.versions import Registry
from holdfast.control.settings.models import Conditions
from holdfast.errors import InputError
from holdfast.evidence.explain import span
from holdfast.evidence.leaf import Check
from holdfast.model.scenario import Scenario
from holdfast.policy.checkpoint import Manifest
from holdfast.policy.rules import Constant
from holdfast.policy.serving import Serving
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import Estimate, measure
from holdfast.sim.tally import Tally
from holdfast.storage.database import transaction

SEED_BITS = 53  # whole numbers of more would lose digits in a browser
Z = 1.96
FLEET = "miss rate"
Progress = Callable[[float], None]


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


def fresh_seed() -> int:
    """Return a seed that nobody could know beforehand."""
    return secrets.randbits(SEED_BITS)


def ceiling_of(engine: Engine, conditions: Conditions, champion: Serving) -> float:
    ceiling = conditions.ceiling or standing_ceiling(engine, champion)
    if ceiling is None:
        raise InputError(
            f"{champion.name} was made for no ceiling: set `ceiling` in [control.promotion]"
        )
    return ceiling


def standing_ceiling(engine: Engine, champion: Serving) -> float | None:
    """Return the ceiling that the champion was made for, or was judged by, if that is lower.

    What it was made for is what its manifest claims, and must not loosen the ceiling for the next.
    """
    with transaction(engine) as connection:
        judged = last_report(connection, champion.version).get("ceiling")
    known = [ceiling for ceiling in (champion.rho, judged) if ceiling is not None]
    return min(known, default=None)


def episodes_to_run(policy: Serving, conditions: Conditions) -> int:
    """Return how many episodes a judgement simulates, at most."""
    measured = 0 if policy.manifest is None else 1 + len(CORNERS)
    return (len(stressed(Scenario())) + 2 + measured) * conditions.episodes


def trials(
    policy: Serving,
    world: Scenario,
    ceiling: float,
    conditions: Conditions,
    seed: int,
    progress: Progress = lambda _episodes: None,
) -> list[Trial]:
    """Return how a policy does in the fleet's world, and in worse ones."""
    odds = conditions.stress * ceiling / (1 - ceiling)
    worlds = {FLEET: (world, ceiling)} | {
        f"{FLEET} with {name}": (each, odds / (1 + odds)) for name, each in stressed(world).items()
    }
    return [
        Trial(name, miss_rate(policy, each, conditions.episodes, seed, progress), limit)
        for name, (each, limit) in worlds.items()
    ]


def miss_rate(
    policy: Serving,
    world: Scenario,
    episodes: int,
    seed: int,
    progress: Progress = lambda _episodes: None,
) -> Estimate:
    tally = evaluate(policy.policy, world, episodes=episodes, seed=seed, progress=progress)
    return _miss_rate(tally, measure(tally).miss_rate)


def _miss_rate(tally: Tally, found: Estimate) -> Estimate:
    """Return the miss rate with an interval that few encounters widen, too."""
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
    seed: int | None = None,
    progress: Progress = lambda _episodes: None,
) -> Verdict:
    """Return whether a version may take the champion's place, with all that speaks for it or not.

    Gas isn't compared where the champion itself breaks the ceiling. A seed repeats a judgement;
    without one the episodes are drawn anew.
    """
    seed = fresh_seed() if seed is None else seed
    registry = Registry(engine)
    reigning, policy = registry.serving(champion), registry.serving(version)
    ceiling = ceiling_of(engine, conditions, reigning)
    watched = Watched(policy.policy)
    found = trials(replace(policy, policy=watched), world, ceiling, conditions, seed, progress)
    rate = miss_rate(reigning, world, conditions.episodes, seed, progress)
    with transaction(engine) as connection:
        beside = compare(connection, version, champion, unit=unit)
    drawn = f"{conditions.episodes} in every world, from the seed {seed}"
    checks = [Check("episodes", passed=True, detail=drawn), *(trial.check() for trial in found)]
    measured: dict[str, Any] = {}
    if policy.manifest is not None:
        more, measured = _measured(
            policy, policy.manifest, watched, world, conditions, seed, progress
        )
        checks += more
    checks += _shadow_checks(beside, conditions, lax=not rate.high <= ceiling)
    figures = measured | {
        "seed": seed,
        "ceiling": ceiling,
        "world": asdict(world),
        "conditions": asdict(conditions),
        "trials": [numbers(trial) for trial in found],
        "champion": {"version": champion, "miss_rate": _finite(asdict(rate))},
        "shadow": None if beside is None else asdict(beside),
    }
    return Verdict(tuple(checks), figures)


def _measured(
    policy: Serving,
    manifest: Manifest,
    watched: Watched,
    world: Scenario,
    conditions: Conditions,
    seed: int,
    progress: Progress,
) -> tuple[list[Check], dict[str, Any]]:
    """Measure what the manifest claims: return the checks, and the figures for the report.

    A policy on its own behaves well and meets little: a healthy node that it audits twice a month
    never gets the reputation of one that is audited daily. So the corners of all behaviour are
    simulated, too.
    """
    corners = [Watched(Constant(action)) for action in CORNERS]
    for corner in corners:
        evaluate(corner, world, episodes=conditions.episodes, seed=seed, progress=progress)
    met = join_envelopes([watched, *corners])
    # A manifest can't make the simulation longer than that of the fleet's own world.
    shorter = conditions.episodes * world.horizon // manifest.scenario.horizon
    episodes = max(1, min(conditions.episodes, shorter))
    tally = evaluate(
        policy.policy, manifest.scenario, episodes=episodes, seed=seed, progress=progress
    )
    own = measure(tally)
    measured = {
        "miss_rate": _miss_rate(tally, own.miss_rate),
        "gas": own.gas,
        "latency": own.latency,
    }
    claims = compare_claims(manifest, policy.policy, measured)
    figures = {
        "claims": [
            asdict(claim) | {"measured": _finite(asdict(claim.measured)), "kept": claim.kept}
            for claim in claims
        ],
        "envelope": {"claimed": manifest.envelope, "met": met},
    }
    return [check_claims(manifest, claims), check_envelope(manifest.envelope, met)], figures


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
