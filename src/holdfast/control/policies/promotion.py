"""Judges whether a version may be promoted: by its miss rate in simulation, and in shadow.

Every judgement uses new episodes, so nobody can fit a policy to them beforehand.
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
from holdfast.control.policies.stress import stress_scenarios
from holdfast.control.policies.versions import Registry
from holdfast.control.queries.policies import are_all_checked
from holdfast.control.settings.models import Conditions
from holdfast.errors import InputError
from holdfast.evidence.leaf import Check
from holdfast.model.estimate import Estimate, finite
from holdfast.model.scenario import Scenario
from holdfast.policy.checkpoint import Manifest
from holdfast.policy.rules import Constant
from holdfast.policy.serving import Serving
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import measure
from holdfast.sim.tally import Tally
from holdfast.storage.database import transaction
from holdfast.words import span

SEED_BITS = 53  # a browser would lose digits of a larger integer
Z = 1.96
FLEET = "miss rate"
NOTHING_TO_COMPARE = (
    "versions are compared by the gas of their proofs, and all storage of this home is checked by "
    "tools, without any: simulations alone have judged it"
)
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Trial:
    """The miss rate of a version in one simulated world, and what it must stay below."""

    world: str
    miss_rate: Estimate
    ceiling: float

    @property
    def kept(self) -> bool:
        return self.miss_rate.high <= self.ceiling  # False if it could not be measured

    def check(self) -> Check:
        rate = self.miss_rate
        figures = f"{rate.value:.4f} with an interval up to {rate.high:.4f}"
        return Check(self.world, self.kept, f"{figures}, and the ceiling is {self.ceiling:.4f}")


def fresh_seed() -> int:
    """Return a seed that nobody can predict."""
    return secrets.randbits(SEED_BITS)


def ceiling_of(engine: Engine, conditions: Conditions, champion: Serving) -> float:
    ceiling = conditions.ceiling or standing_ceiling(engine, champion)
    if ceiling is None:
        raise InputError(
            f"{champion.name} was made for no ceiling: set `ceiling` in [control.promotion]"
        )
    return ceiling


def standing_ceiling(engine: Engine, champion: Serving) -> float | None:
    """Return the lower of the ceilings that the champion was trained for and judged by.

    The first is only a claim of its manifest, and must not loosen the ceiling for its successor.
    """
    with transaction(engine) as connection:
        judged = last_report(connection, champion.version).get("ceiling")
    known = [ceiling for ceiling in (champion.rho, judged) if ceiling is not None]
    return min(known, default=None)


def episodes_to_run(policy: Serving, conditions: Conditions) -> int:
    """Return how many episodes a judgement simulates, at most."""
    measured = 0 if policy.manifest is None else 1 + len(CORNERS)
    return (len(stress_scenarios(Scenario())) + 2 + measured) * conditions.episodes


def run_trials(
    policy: Serving,
    world: Scenario,
    ceiling: float,
    conditions: Conditions,
    seed: int,
    on_progress: Progress = lambda _episodes: None,
) -> list[Trial]:
    """Return the miss rates of a policy in the fleet's scenario and in harder ones."""
    odds = conditions.stress * ceiling / (1 - ceiling)
    worlds = {FLEET: (world, ceiling)} | {
        f"{FLEET} with {name}": (harder, odds / (1 + odds))
        for name, harder in stress_scenarios(world).items()
    }
    return [
        Trial(name, miss_rate(policy, scenario, conditions.episodes, seed, on_progress), limit)
        for name, (scenario, limit) in worlds.items()
    ]


def miss_rate(
    policy: Serving,
    world: Scenario,
    episodes: int,
    seed: int,
    on_progress: Progress = lambda _episodes: None,
) -> Estimate:
    tally = evaluate(policy.policy, world, episodes=episodes, seed=seed, progress=on_progress)
    return _miss_rate(tally, measure(tally).miss_rate)


def _miss_rate(tally: Tally, estimate: Estimate) -> Estimate:
    """Return the miss rate with an interval that is wider for few encounters."""
    misses, encounters = float(tally.misses.sum()), float((tally.misses + tally.detections).sum())
    if not encounters:
        return Estimate(math.nan, math.nan, math.nan)
    # The bootstrap accounts for correlated encounters of an episode, but without a single miss its
    # interval has no width.
    high = max(estimate.high, _wilson(misses / encounters, encounters))
    return Estimate(estimate.value, estimate.low, high)


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
    on_progress: Progress = lambda _episodes: None,
) -> Verdict:
    """Return whether a version may replace the champion, with every check.

    Gas isn't compared when the champion itself violates the ceiling. A seed repeats a judgement;
    without one the episodes are new.
    """
    seed = fresh_seed() if seed is None else seed
    registry = Registry(engine)
    current, policy = registry.serving(champion), registry.serving(version)
    ceiling = ceiling_of(engine, conditions, current)
    watched = Watched(policy.policy)
    trials = run_trials(
        replace(policy, policy=watched), world, ceiling, conditions, seed, on_progress
    )
    rate = miss_rate(current, world, conditions.episodes, seed, on_progress)
    with transaction(engine) as connection:
        shadow = compare(connection, version, champion, unit=unit)
        unproved = are_all_checked(connection)
    episodes = f"{conditions.episodes} in every world, from the seed {seed}"
    checks = [Check("episodes", passed=True, detail=episodes), *(trial.check() for trial in trials)]
    measured: dict[str, Any] = {}
    if policy.manifest is not None:
        more, measured = _measure_claims(
            policy, policy.manifest, watched, world, conditions, seed, on_progress
        )
        checks += more
    if unproved:
        checks.append(Check("shadow", passed=False, detail=NOTHING_TO_COMPARE))
    else:
        checks += _shadow_checks(shadow, conditions, lax=not rate.high <= ceiling)
    figures = measured | {
        "seed": seed,
        "ceiling": ceiling,
        "world": asdict(world),
        "conditions": asdict(conditions),
        "trials": [trial_figures(trial) for trial in trials],
        "champion": {"version": champion, "miss_rate": finite(asdict(rate))},
        "shadow": None if shadow is None else asdict(shadow),
    }
    return Verdict(tuple(checks), figures)


def _measure_claims(
    policy: Serving,
    manifest: Manifest,
    watched: Watched,
    world: Scenario,
    conditions: Conditions,
    seed: int,
    on_progress: Progress,
) -> tuple[list[Check], dict[str, Any]]:
    """Measure what the manifest claims: return the checks, and the figures for the report.

    One policy alone observes little: a healthy node that it audits twice a month never gets the
    reputation of one that is audited daily. So the extremes of behaviour are simulated, too.
    """
    corners = [Watched(Constant(action)) for action in CORNERS]
    for corner in corners:
        evaluate(corner, world, episodes=conditions.episodes, seed=seed, progress=on_progress)
    met = join_envelopes([watched, *corners])
    # A manifest can't make the simulation longer than that of the fleet's own scenario.
    shorter = conditions.episodes * world.horizon // manifest.scenario.horizon
    episodes = max(1, min(conditions.episodes, shorter))
    tally = evaluate(
        policy.policy, manifest.scenario, episodes=episodes, seed=seed, progress=on_progress
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
            asdict(claim) | {"measured": finite(asdict(claim.measured)), "kept": claim.kept}
            for claim in claims
        ],
        "envelope": {"claimed": manifest.envelope, "met": met},
    }
    return [check_claims(manifest, claims), check_envelope(manifest.envelope, met)], figures


def _shadow_checks(shadow: Comparison | None, conditions: Conditions, *, lax: bool) -> list[Check]:
    wanted = f"{conditions.decisions} over {span(conditions.shadow)} are wanted"
    if shadow is None:
        return [Check("shadow", passed=False, detail=f"it was never beside the champion; {wanted}")]
    seen = f"{shadow.decisions} decisions of {shadow.holdings} holdings over {span(shadow.span)}"
    enough = shadow.decisions >= conditions.decisions and shadow.span >= conditions.shadow
    gas = shadow.gas_change
    change = f"{gas.value:+.1%} with an interval up to {gas.high:+.1%}"
    allowed = f"{conditions.gas_margin:+.1%} is allowed"
    if lax:
        allowed = "any is allowed, as the champion breaks the ceiling"
    return [
        Check("shadow", enough, f"{seen}; {wanted}"),
        Check("gas a month", lax or gas.high <= conditions.gas_margin, f"{change}; {allowed}"),
        _share("rails", shadow.rails.difference, conditions.rails_margin),
        _share("outside of training", shadow.outside.difference, conditions.outside_margin),
    ]


def _share(name: str, difference: Estimate, margin: float) -> Check:
    share = f"{difference.value:+.1%} of the decisions, with an interval up to"
    detail = f"{share} {difference.high:+.1%}; {margin:+.1%} is allowed"
    return Check(name, difference.high <= margin, detail)


def trial_figures(trial: Trial) -> dict[str, object]:
    """Return a trial as JSON."""
    return asdict(trial) | {"miss_rate": finite(asdict(trial.miss_rate)), "kept": trial.kept}
