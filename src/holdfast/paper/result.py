"""The results of an experiment as data: a row for each policy, every seed in it."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from holdfast import atomic
from holdfast.errors import InputError, MalformedError
from holdfast.paper.curve import Curve
from holdfast.paper.experiments import Effort, Line, Programme
from holdfast.paper.job import EVALUATION_SEED, Done, Figure, Tried, read_done
from holdfast.paper.published import DECOMPOSITION, MAIN
from holdfast.paper.summary import Summary, summarise
from holdfast.policy import json_schema

SHIPPED = Path(str(resources.files("holdfast.paper"))) / "results"
MOST_BYTES = 1 << 24

MEASURES = (
    *("gas", "latency", "miss_rate", "miss_rate_honest"),
    *("detections_per_100", "detected_within_14"),
)
MULTIPLIER = "multiplier"


@dataclass(frozen=True)
class SeedCurve:
    policy: str
    seed: int
    curve: Curve


@dataclass(frozen=True)
class Row:
    policy: str
    variant: str
    trained: bool  # else it was tried once, and its intervals are over episodes, not over seeds
    malicious_share: float  # in the scenario of the trial
    rho: float | None  # the ceilings it is made for
    latency: float | None
    measures: dict[str, Summary]
    out_of_reach: tuple[str | None, ...]  # by seed: why the ceilings can't be kept
    paper: dict[str, float]  # what the paper reports

    @property
    def seeds(self) -> int:
        """Return how many seeds stand behind the figures."""
        return sum(reason is None for reason in self.out_of_reach) if self.trained else 0

    def iqm(self, measure: str) -> float:
        """Return the figure of a row that has one."""
        figure = self.measures[measure].iqm
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

    def series(self, policy: str) -> list[Row]:
        """Return all rows of the policy as it is, whatever it was asked for."""
        return [row for row in self.rows if (row.policy, row.variant) == (policy, "")]

    def row(self, policy: str, variant: str = "", **where: float | None) -> Row | None:
        """Return the first row of the policy that has a figure and fits, if there is one."""
        for row in self.rows:
            fits = all(getattr(row, name) == value for name, value in where.items())
            if (row.policy, row.variant) == (policy, variant) and fits and row.reached:
                return row
        return None


def gather(experiment: str, effort: Effort, out: Path) -> Result:
    """Return what the jobs left, which must all be done."""
    programme = Programme(effort)
    rows, curves = [], []
    for line in programme.lines(experiment):
        jobs = programme.jobs_of(line)
        found = [read_done(out, job) for job in jobs]
        done = [each for each in found if each is not None]
        if len(done) < len(jobs):
            raise InputError(f"{out} does not hold all of {experiment} yet")
        at = jobs[0].trials.index(line.trial)
        rows.append(_row(experiment, line, done, [each.trials[at] for each in done]))
        if experiment.startswith("table1"):
            curves += [
                SeedCurve(line.policy, seed, each.curve)
                for seed, each in enumerate(done)
                if each.curve and each.curve.returns
            ]
    return Result(
        experiment=experiment,
        taste=effort.taste,
        seeds=effort.seeds,
        episodes=effort.episodes,
        evaluation_seed=EVALUATION_SEED,
        rows=tuple(rows),
        curves=tuple(curves),
    )


def _row(experiment: str, line: Line, done: Sequence[Done], tried: Sequence[Tried]) -> Row:
    figures = {name: [_figure(each, name) for each in tried] for name in MEASURES}
    trained = line.training is not None
    measures = {name: _summary(column, trained=trained) for name, column in figures.items()}
    multipliers = [each.multiplier for each in done]
    if any(multiplier is not None for multiplier in multipliers):
        measures[MULTIPLIER] = summarise(multipliers)
    published = None
    if experiment == "table1-paper":
        published = MAIN.get(line.policy)
    elif experiment == "decomposition":
        published = DECOMPOSITION[line.policy, line.variant]
    return Row(
        policy=line.policy,
        variant=line.variant,
        trained=trained,
        malicious_share=line.trial.scenario.malicious_share,
        rho=line.rho,
        latency=line.latency,
        measures=measures,
        out_of_reach=tuple(each.out_of_reach for each in tried),
        paper=published.figures() if published else {},
    )


def _figure(tried: Tried, name: str) -> Figure:
    return tried.measures.get(name) or Figure(None, None, None)


def _summary(figures: Sequence[Figure], *, trained: bool) -> Summary:
    if trained:
        return summarise([figure.value for figure in figures])
    (once,) = figures
    value = once.value
    return Summary((value,), value, value, value, value, once.low, once.high)


def read_result(path: Path) -> Result:
    content = atomic.read(path, at_most=MOST_BYTES)
    try:
        return json_schema.read(Result, json_schema.parse(content))
    except InputError as error:
        raise MalformedError(f"{path} can't be used: {error}") from error


def shipped(experiment: str) -> Result:
    path = SHIPPED / f"{experiment}.json"
    if not path.exists():
        raise InputError(f"no results of {experiment} are shipped: make them with --out DIR")
    return read_result(path)


def as_csv(result: Result) -> bytes:
    """Return a line for each measure of each row, with the figures of all seeds."""
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
        for measure, each in row.measures.items():
            figures = (each.mean, each.iqm, each.low, each.high, each.min, each.max)
            by_seed = each.by_seed if row.trained else ()
            seeds = len(each.known) if row.trained else 0
            paper = row.paper.get(measure)
            writer.writerow((*about, *where, measure, seeds, *figures, paper, *by_seed))
    return text.getvalue().encode()
