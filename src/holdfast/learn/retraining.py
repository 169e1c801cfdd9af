"""A challenger for a fleet: trained in the world that was fitted to its log, with several seeds.

Which seed is registered is decided on episodes of validation; what is reported of it comes from
episodes that nothing else uses. An order that was interrupted goes on in its folder.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from holdfast.errors import InputError
from holdfast.learn import training
from holdfast.learn.drqn_cmdp_plus import DialRange, PlusSettings
from holdfast.learn.feasibility import prospect
from holdfast.learn.training import Run, train
from holdfast.model.arrays import IntArray
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
ALIKE = 1.25  # nodes that differ by less in their blocks are trained for as one size

# Hears which seed does what ("training", "validation"), and how many rounds of it are done.
Hear = Callable[[int, str, float], None]


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
class FittedSettings(PlusSettings):
    expected: ClassVar[bool] = True


@dataclass(frozen=True)
class Order:
    """What is to be trained: the same order gives the same challenger."""

    scenario: Scenario  # as fitted
    ranges: dict[str, tuple[float, float]]  # of its fields that differ from node to node
    ceilings: Ceilings
    targets: tuple[Ceilings, ...]  # that get dials as well
    dials: DialRange
    budget: Budget
    facts: dict[str, Any]  # for the manifest: where it comes from

    def run(self, seed: int) -> Run:
        settings = FittedSettings(
            dials=self.dials,
            targets=self.targets,
            default=self.ceilings,
            validation=self.budget.validation,
            ranges=self.ranges,
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
    blocks: IntArray,
    champion: AnyPolicy,
    declared: Ceilings | None,
    budget: Budget,
    facts: dict[str, Any],
) -> Order:
    """Return what to train in a fitted world, for nodes with so many blocks each.

    Where it does not allow the declared ceilings, the challenger is to keep what the champion
    keeps there.
    """
    scenario = replace(scenario, blocks=int(np.median(blocks)))
    smallest, largest = int(blocks.min()), int(blocks.max())
    ahead = prospect(scenario)
    ceilings = declared
    if ceilings is None or not ahead.allows(ceilings):
        kept = _tried(champion, scenario, REHEARSED, REHEARSAL_SEED)
        ceilings = Ceilings(kept.miss_rate.value, kept.latency.value)
    return Order(
        scenario=scenario,
        ranges={"blocks": (smallest, largest)} if largest > ALIKE * smallest else {},
        ceilings=ceilings,
        targets=ahead.targets(ceilings),
        dials=ahead.dials(ceilings),
        budget=budget,
        facts=facts,
    )


def retrain(
    order: Order,
    champion: AnyPolicy,
    folder: Path,
    hear: Hear = lambda _seed, _phase, _done: None,
) -> Retrained:
    """Train what is left of the order, choose a seed, evaluate it and leave its checkpoint."""
    trained = []
    for seed in range(order.budget.seeds):
        place = folder / f"seed-{seed}"
        # One after the other, in this process: serving needs the other cores.
        train(order.run(seed), place, _telling(hear, seed))
        trained.append(checkpoint.load(place))
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


def _telling(hear: Hear, seed: int) -> training.Hear:
    return lambda phase, done, _figures: hear(seed, phase, done)


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
