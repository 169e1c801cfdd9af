"""The results of an experiment as data: a row per policy, with the figures of every seed."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from holdfast import atomic
from holdfast.errors import InputError, MalformedError
from holdfast.model.estimate import Figure
from holdfast.model.scenario import Scenario
from holdfast.paper.curve import Curve
from holdfast.paper.experiments import Effort, PlannedRow, Programme
from holdfast.paper.job import EVALUATION_SEED, Done, Tried, read_done
from holdfast.paper.published import DECOMPOSITION, MAIN
from holdfast.paper.summary import Summary, summarise
from holdfast.policy import json_schema

SHIPPED = Path(str(resources.files("holdfast.paper"))) / "results"
MAX_BYTES = 1 << 24

MEASURES = (
    *("gas", "latency", "miss_rate", "miss_rate_honest"),
    *("detections_per_100", "detected_within_14"),
)
SHARES = ("miss_rate", "miss_rate_honest", "detected_within_14")
MULTIPLIER = "multiplier"


@dataclass(frozen=True)
class SeedCurve:
    policy: str
    seed: int
    curve: Curve


@dataclass(frozen=True)
class TriedScenario:
    hash: str
    parameters: Scenario


@dataclass(frozen=True)
class Row:
    policy: str
    variant: str
    trained: bool  # else it ran once, and its intervals are over episodes instead of seeds
    malicious_share: float  # in the scenario of the trial
    rho: float | None  # the ceilings it is made for
    latency: float | None
    measures: dict[str, Summary]
    out_of_reach: tuple[str | None, ...]  # by seed: why the ceilings can't be kept
    paper: dict[str, float]  # what the paper reports
    scenario: str = ""  # the hash of the one it was tried in

    @property
    def seeds(self) -> int:
        """Return the number of seeds behind the figures."""
        return sum(reason is None for reason in self.out_of_reach) if self.trained else 0

    def mean(self, measure: str) -> float:
        """Return the figure of a row that has one."""
        figure = self.measures[measure].mean
        if figure is None:
            raise InputError(f"the row {self.policy} has no {measure}")
        return figure

    @property
    def reached(self) -> bool:
        return bool(self.measures["gas"].known)


@dataclass(frozen=True)
class Result:
    experiment: str
    taste: bool
    seeds: int
    episodes: int
    evaluation_seed: int
    rows: tuple[Row, ...]
    curves: tuple[SeedCurve, ...] = ()
    scenarios: tuple[TriedScenario, ...] = ()  # of all rows

    def series(self, policy: str) -> list[Row]:
        """Return all rows of the policy without a variant."""
        return [row for row in self.rows if (row.policy, row.variant) == (policy, "")]


def gather(experiment: str, effort: Effort, out: Path) -> Result:
    """Return the result of an experiment whose jobs are all done."""
    programme = Programme(effort)
    rows, curves = [], []
    for planned in programme.rows(experiment):
        jobs = programme.jobs_of(planned)
        results = [read_done(out, job) for job in jobs]
        job_results = [job_result for job_result in results if job_result is not None]
        if len(job_results) < len(jobs):
            raise InputError(f"{out} does not hold all of {experiment} yet")
        index = jobs[0].trials.index(planned.trial)
        trials = [job_result.trials[index] for job_result in job_results]
        rows.append(row_of(experiment, planned, job_results, trials))
        if experiment.startswith("table1"):
            curves += [
                SeedCurve(planned.policy, seed, job_result.curve)
                for seed, job_result in enumerate(job_results)
                if job_result.curve and job_result.curve.returns
            ]
    return Result(
        experiment=experiment,
        taste=effort.taste,
        seeds=effort.seeds,
        episodes=effort.episodes,
        evaluation_seed=EVALUATION_SEED,
        rows=tuple(rows),
        curves=tuple(curves),
        scenarios=tuple(
            TriedScenario(scenario.hash, scenario)
            for scenario in dict.fromkeys(
                planned.trial.scenario for planned in programme.rows(experiment)
            )
        ),
    )


def row_of(
    experiment: str, planned: PlannedRow, job_results: Sequence[Done], trials: Sequence[Tried]
) -> Row:
    """Return the row of a policy, from the trials of every seed."""
    figures = {name: [_figure(trial, name) for trial in trials] for name in MEASURES}
    trained = planned.training is not None
    measures = {name: _summary(name, column, trained=trained) for name, column in figures.items()}
    multipliers = [result.multiplier for result in job_results]
    if any(multiplier is not None for multiplier in multipliers):
        measures[MULTIPLIER] = summarise(multipliers, least=0.0)
    published = None
    if experiment == "table1-paper":
        published = MAIN.get(planned.policy)
    elif experiment == "decomposition":
        published = DECOMPOSITION[planned.policy, planned.variant]
    return Row(
        policy=planned.policy,
        variant=planned.variant,
        trained=trained,
        malicious_share=planned.trial.scenario.malicious_share,
        rho=planned.rho,
        latency=planned.latency,
        measures=measures,
        out_of_reach=tuple(trial.out_of_reach for trial in trials),
        paper=published.figures() if published else {},
        scenario=planned.trial.scenario.hash,
    )


def _figure(trial: Tried, name: str) -> Figure:
    return trial.measures.get(name) or Figure(None, None, None)


def _summary(measure: str, figures: Sequence[Figure], *, trained: bool) -> Summary:
    if trained:
        most = 1.0 if measure in SHARES else math.inf
        return summarise([figure.value for figure in figures], 0.0, most)
    (once,) = figures
    value = once.value
    return Summary((value,), value, None, value, value, once.low, once.high)


def read_result(path: Path) -> Result:
    content = atomic.read(path, at_most=MAX_BYTES)
    try:
        return json_schema.read(Result, json_schema.parse(content))
    except InputError as error:
        raise MalformedError(f"{path} can't be used: {error}") from error


def shipped_result(experiment: str) -> Result:
    path = SHIPPED / f"{experiment}.json"
    if not path.exists():
        raise InputError(f"no results of {experiment} are shipped: make them with --out DIR")
    return read_result(path)


def as_csv(result: Result) -> bytes:
    """Return one line per measure and row, with the figures of all seeds."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        (
            *("experiment", "taste", "policy", "variant", "malicious_share", "rho"),
            *("latency_ceiling", "measure", "seeds", "mean", "iqm", "low", "high", "min", "max"),
            *("paper", *(f"seed_{seed}" for seed in range(result.seeds))),
        )
    )
    for row in result.rows:
        about = (result.experiment, result.taste, row.policy, row.variant)
        where = (row.malicious_share, row.rho, row.latency)
        for measure, summary in row.measures.items():
            figures = (
                summary.mean,
                summary.iqm,
                summary.low,
                summary.high,
                summary.min,
                summary.max,
            )
            by_seed = summary.by_seed if row.trained else ()
            seeds = len(summary.known) if row.trained else 0
            paper = row.paper.get(measure)
            writer.writerow((*about, *where, measure, seeds, *figures, paper, *by_seed))
    return text.getvalue().encode()
