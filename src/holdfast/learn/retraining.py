"""Retraining: a challenger for a fleet, trained in the scenario that was fitted to its log.

Several seeds are trained and validation episodes choose one; the report on it comes from episodes
that nothing else uses. An interrupted retraining resumes in its folder.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from holdfast.errors import InputError
from holdfast.learn.drqn_cmdp_plus import DialRange, PlusSettings
from holdfast.learn.feasibility import feasible_range
from holdfast.learn.pool import Job, train_all
from holdfast.learn.training import Run
from holdfast.model.arrays import IntArray
from holdfast.model.scenario import Scenario
from holdfast.policy import checkpoint
from holdfast.policy.dial import ValidatedDial, choose_dial
from holdfast.policy.interface import AnyPolicy
from holdfast.policy.lagrangian import Ceilings
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import Measures, main_figures, measure

METHOD = "drqn-cmdp-plus"
CHALLENGER = "challenger"
# The seed of the report on challenger and champion; neither training nor validation uses it.
EVALUATION_SEED = 2_000_003
# The champion's figures in these episodes become the ceilings if the declared ones are infeasible.
CHAMPION_SEED = 3_000_017
CHAMPION_EPISODES = 4000
MAX_SIZE_RATIO = 1.25  # nodes whose block counts differ by less are trained as one size

# Called with the seed, its phase ("training", "validation") and the rounds done.
OnProgress = Callable[[int, str, float], None]


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
class RetrainingRequest:
    """What to train; equal requests give equal challengers."""

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
    validated: ValidatedDial | None  # None if it has no dial that keeps them


@dataclass(frozen=True)
class RetrainingResult:
    folder: Path  # of the checkpoint
    seed: int
    candidates: tuple[Candidate, ...]
    challenger: Measures
    champion: Measures


def make_request(
    scenario: Scenario,
    blocks: IntArray,
    champion: AnyPolicy,
    declared: Ceilings | None,
    budget: Budget,
    facts: dict[str, Any],
) -> RetrainingRequest:
    """Return what to train in a fitted scenario, for nodes with these numbers of blocks.

    If the scenario does not allow the declared ceilings, the challenger has to keep what the
    champion keeps there.
    """
    scenario = replace(scenario, blocks=int(np.median(blocks)))
    smallest, largest = int(blocks.min()), int(blocks.max())
    feasible = feasible_range(scenario)
    ceilings = declared
    if ceilings is None or not feasible.allows(ceilings):
        achieved = _evaluate(champion, scenario, CHAMPION_EPISODES, CHAMPION_SEED)
        ceilings = Ceilings(achieved.miss_rate.value, achieved.latency.value)
    return RetrainingRequest(
        scenario=scenario,
        ranges={"blocks": (smallest, largest)} if largest > MAX_SIZE_RATIO * smallest else {},
        ceilings=ceilings,
        targets=feasible.targets(ceilings),
        dials=feasible.dials(ceilings),
        budget=budget,
        facts=facts,
    )


def retrain(
    request: RetrainingRequest,
    champion: AnyPolicy,
    folder: Path,
    on_progress: OnProgress = lambda _seed, _phase, _done: None,
    executor: Executor | None = None,
) -> RetrainingResult:
    """Train the seeds that are left, choose one, evaluate it and save its checkpoint.

    Without an executor the seeds are trained one after the other: serving needs the other cores.
    """
    jobs = [Job(request.run(seed), folder / f"seed-{seed}") for seed in range(request.budget.seeds)]
    train_all(
        jobs, executor, lambda job, phase, done, _figures: on_progress(job.run.seed, phase, done)
    )
    checkpoints = [checkpoint.load(job.folder) for job in jobs]
    candidates = tuple(
        Candidate(seed, _validated_dial(trained, request.ceilings))
        for seed, trained in enumerate(checkpoints)
    )
    seed = _best(candidates, request.ceilings)
    chosen, episodes = checkpoints[seed], request.budget.episodes
    measures = {
        name: _evaluate(policy, request.scenario, episodes, EVALUATION_SEED)
        for name, policy in (
            ("challenger", chosen.policy(request.ceilings)),
            ("champion", champion),
        )
    }
    manifest = replace(
        chosen.manifest,
        training=chosen.manifest.training
        | {
            "retraining": request.facts,
            "candidates": [asdict(candidate) for candidate in candidates],
        },
        evaluation={"episodes": episodes, "seed": EVALUATION_SEED}
        | {name: main_figures(figures) for name, figures in measures.items()},
    )
    checkpoint.save(folder / CHALLENGER, manifest, chosen.parameters)
    return RetrainingResult(folder / CHALLENGER, seed, candidates, **measures)


def _validated_dial(trained: checkpoint.Checkpoint, ceilings: Ceilings) -> ValidatedDial | None:
    dials = trained.manifest.dials
    try:
        chosen = choose_dial(dials, ceilings)
    except InputError:
        return None
    return next(validated for validated in dials if validated.dial == chosen)


def _best(candidates: tuple[Candidate, ...], ceilings: Ceilings) -> int:
    """Return the seed that kept the ceilings at the least gas in validation."""
    valid = [
        (candidate.validated.gas, candidate.seed) for candidate in candidates if candidate.validated
    ]
    if not valid:
        raise InputError(f"no seed stayed below {ceilings} in validation: train for longer")
    return min(valid)[1]


def _evaluate(policy: AnyPolicy, scenario: Scenario, episodes: int, seed: int) -> Measures:
    return measure(evaluate(policy, scenario, episodes=episodes, seed=seed))
