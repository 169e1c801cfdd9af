"""A challenger for a fleet: trained in the world that was fitted to its log, with several seeds.

Which seed is registered is decided on episodes of validation; what is reported of it comes from
episodes that nothing else uses. An order that was interrupted goes on in its folder.
"""

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.errors import InputError
from holdfast.learn import pool
from holdfast.learn.plus import DialRange, PlusSettings
from holdfast.learn.prospect import prospect
from holdfast.learn.training import Run
from holdfast.model.scenario import Scenario
from holdfast.policy import checkpoint
from holdfast.policy.dial import Validated, choose
from holdfast.policy.interface import AnyPolicy
from holdfast.policy.lagrangian import Ceilings
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import Measures, measure

METHOD = "drqn-cmdp-plus"
CHALLENGER = "challenger"
# Of the report on the challenger and the champion: neither training nor validation draws these.
EVALUATION_SEED = 2_000_003
# Of the champion's figures that become ceilings where its own are out of reach.
REHEARSAL_SEED = 3_000_017
REHEARSED = 4000


@dataclass(frozen=True)
class Budget:
    seeds: int = 3
    rounds: int = 600
    validation: int = 4000  # episodes for each dial
    episodes: int = 2000  # of the report

    def __post_init__(self) -> None:
        if min(self.seeds, self.rounds, self.validation, self.episodes) < 1:
            raise InputError("a budget has at least one seed, round and episode")


@dataclass(frozen=True)
class Order:
    """What is to be trained: the same order gives the same challenger."""

    scenario: Scenario  # as fitted
    ceilings: Ceilings
    targets: tuple[Ceilings, ...]  # that get dials as well
    dials: DialRange
    budget: Budget
    facts: dict[str, Any]  # for the manifest: where it comes from

    def run(self, seed: int) -> Run:
        settings = PlusSettings(
            dials=self.dials,
            targets=self.targets,
            default=self.ceilings,
            validation=self.budget.validation,
        )
        return Run(METHOD, self.scenario, seed, self.budget.rounds, settings)


@dataclass(frozen=True)
class Candidate:
    """A training seed, and what its dial for the ceilings achieved in validation."""

    seed: int
    validated: Validated | None  # None if it has no dial that keeps them


@dataclass(frozen=True)
class Retrained:
    folder: Path  # of the checkpoint
    seed: int
    candidates: tuple[Candidate, ...]
    challenger: Measures
    champion: Measures


def ordered(
    scenario: Scenario,
    champion: AnyPolicy,
    declared: Ceilings | None,
    budget: Budget,
    facts: dict[str, Any],
) -> Order:
    """Return what to train in a fitted world.

    Where it does not allow the declared ceilings, the challenger is to keep what the champion
    keeps there.
    """
    ahead = prospect(scenario)
    ceilings = declared
    if ceilings is None or not ahead.allows(ceilings):
        kept = _tried(champion, scenario, REHEARSED, REHEARSAL_SEED)
        ceilings = Ceilings(kept.miss_rate.value, kept.latency.value)
    targets, dials = ahead.targets(ceilings), ahead.dials(ceilings)
    return Order(scenario, ceilings, targets, dials, budget, facts)


def retrain(
    order: Order,
    champion: AnyPolicy,
    folder: Path,
    *,
    at_once: int = 1,
    hear: pool.Hear = lambda _job, _phase, _done, _figures: None,
) -> Retrained:
    """Train what is left of the order, choose a seed, evaluate it and leave its checkpoint."""
    jobs = [
        pool.Job(order.run(seed), folder / f"seed-{seed}") for seed in range(order.budget.seeds)
    ]
    pool.train_all(jobs, at_once, hear)
    trained = [checkpoint.load(job.folder) for job in jobs]
    candidates = tuple(
        Candidate(seed, _validated(each, order.ceilings)) for seed, each in enumerate(trained)
    )
    seed = _best(candidates, order.ceilings)
    found, episodes = trained[seed], order.budget.episodes
    measured = {
        name: _tried(policy, order.scenario, episodes, EVALUATION_SEED)
        for name, policy in (("challenger", found.policy(order.ceilings)), ("champion", champion))
    }
    manifest = replace(
        found.manifest,
        training=found.manifest.training
        | {"retraining": order.facts, "candidates": [asdict(each) for each in candidates]},
        evaluation={"episodes": episodes, "seed": EVALUATION_SEED}
        | {name: report(each) for name, each in measured.items()},
    )
    checkpoint.save(folder / CHALLENGER, manifest, found.parameters)
    return Retrained(folder / CHALLENGER, seed, candidates, **measured)


def report(measures: Measures) -> dict[str, dict[str, float | None]]:
    """Return the main figures as JSON can hold them."""
    return {
        name: {key: value if math.isfinite(value) else None for key, value in figure.items()}
        for name, figure in asdict(measures).items()
        if name in ("gas", "latency", "miss_rate")
    }


def _validated(trained: checkpoint.Checkpoint, ceilings: Ceilings) -> Validated | None:
    dials = trained.manifest.dials
    try:
        chosen = choose(dials, ceilings)
    except InputError:
        return None
    return next(each for each in dials if each.dial == chosen)


def _best(candidates: tuple[Candidate, ...], ceilings: Ceilings) -> int:
    """Return the seed that kept the ceilings at the least gas, on the episodes of validation."""
    kept = [(each.validated.gas, each.seed) for each in candidates if each.validated]
    if not kept:
        raise InputError(f"no seed stayed below {ceilings} in validation: train for longer")
    return min(kept)[1]


def _tried(policy: AnyPolicy, scenario: Scenario, episodes: int, seed: int) -> Measures:
    return measure(evaluate(policy, scenario, episodes=episodes, seed=seed))
