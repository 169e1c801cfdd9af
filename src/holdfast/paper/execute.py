"""Carries out one job: trains if it has to, and tries the policy in every scenario."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import InputError
from holdfast.executor import report_progress
from holdfast.model.estimate import Figure
from holdfast.paper.curve import read_curve
from holdfast.paper.job import Done, Job, Training, Trial, Tried
from holdfast.policy import checkpoint
from holdfast.policy.checkpoint import Checkpoint
from holdfast.policy.interface import AnyPolicy
from holdfast.policy.learned import Inputs
from holdfast.policy.registry import policy_named
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import Measures, measure

if TYPE_CHECKING:
    from holdfast.learn.training import Run

CURVE = "curve.csv"
WITHIN = 14


def carry_out(job: Job, folder: Path) -> Done:
    """Do the job, or what an interruption left of it; `folder` is that of its training.

    It reports which share of the training is done.
    """
    learned, curve = None, None
    if job.training:
        _train(job.training, folder)
        learned = checkpoint.load(folder)
        curve = read_curve(folder / CURVE)
    return Done(
        digest=job.digest,
        multiplier=learned.manifest.multiplier if learned else None,
        curve=curve,
        trials=tuple(_tried(trial, learned, job) for trial in job.trials),
    )


def _train(training: Training, folder: Path) -> None:
    from holdfast import learn  # noqa: PLC0415 - an optional extra

    learn.check_installed()  # a worker on another machine may lack it
    from holdfast.learn.training import train  # noqa: PLC0415

    train(
        run_of(training),
        folder,
        lambda _phase, done, _figures: report_progress(done / training.units),
    )


def run_of(training: Training) -> "Run":
    """Return the run with the settings that the method has, but for what is changed."""
    from holdfast.learn.drqn_cmdp_plus import PlusSettings  # noqa: PLC0415
    from holdfast.learn.methods import settings_of  # noqa: PLC0415 - an optional extra
    from holdfast.learn.multiplier import Multiplier, adaptive  # noqa: PLC0415
    from holdfast.learn.training import Run  # noqa: PLC0415

    settings = settings_of(training.method, training.scenario)
    changes: dict[str, Any] = {}
    if training.price is not None:
        changes["multiplier"] = Multiplier(value=training.price)
    if training.rho is not None:
        changes["multiplier"] = adaptive(training.rho)
    if training.masked or training.frames > 1:
        changes["inputs"] = Inputs(masked=training.masked, frames=training.frames)
    if training.targets:
        changes["targets"] = training.targets
    if training.alone and isinstance(settings, PlusSettings):
        changes["dials"] = settings.dials.restricted_to(training.targets[0])
    if training.validation is not None:
        changes["validation"] = training.validation
    return Run(
        method=training.method,
        scenario=training.scenario,
        seed=training.seed,
        units=training.units,
        settings=replace(settings, **changes),
    )


def _tried(trial: Trial, learned: Checkpoint | None, job: Job) -> Tried:
    try:
        policy = _policy(trial, learned)
    except InputError as error:
        if not trial.has_ceilings:
            raise
        return Tried({}, out_of_reach=str(error))
    tally = evaluate(policy, trial.scenario, episodes=job.episodes, seed=job.seed)
    return Tried(_figures(measure(tally)))


def _policy(trial: Trial, learned: Checkpoint | None) -> AnyPolicy:
    if learned and not trial.policy:
        return learned.policy(trial.ceilings)
    return policy_named(trial.policy, trial.planned_for or trial.scenario)


def _figures(measures: Measures) -> dict[str, Figure]:
    estimates = {
        "gas": measures.gas,
        "latency": measures.latency,
        "miss_rate": measures.miss_rate,
        "detections_per_100": measures.detections_per_100,
        "miss_rate_honest": measures.miss_rate_honest,
        f"detected_within_{WITHIN}": measures.detected_within[WITHIN],
    }
    return {name: Figure.of(estimate) for name, estimate in estimates.items()}
