"""`holdfast paper`: the paper's tables and figures, as they ship or reproduced."""

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich import box
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from holdfast.cli import terminal
from holdfast.cli.executor import Cluster, executor_for
from holdfast.cli.terminal import Json, report
from holdfast.errors import InputError
from holdfast.executor import LocalExecutor
from holdfast.model.scenario import SCENARIOS
from holdfast.paper import publication, runner, table
from holdfast.paper.added_policy import add_policies
from holdfast.paper.experiments import EXPERIMENTS, Effort, Programme
from holdfast.paper.job import EPISODES, Job
from holdfast.paper.result import Result, gather, shipped_result
from holdfast.paper.runner import OnProgress
from holdfast.policy.registry import policy_named

SEEDS, QUICK_SEEDS = 5, 1
QUICK_EPISODES = 100
WITH_INTERVAL = ("gas", "latency", "misses %")  # columns; --json has all intervals

Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Reproduce the results in this folder, or resume. Default: show those that ship.",
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        min=1, help=f"Training seeds: {SEEDS}, with --quick {QUICK_SEEDS}.", show_default=False
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, help="Jobs at the same time. Default: one per core.", show_default=False),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="A try in minutes, hardly trained: not a result.")
]


class Experiment(StrEnum):
    """The experiments of the paper, and all of them."""

    TABLE1 = "table1"
    DECOMPOSITION = "decomposition"
    ABLATION = "ablation"
    SENSITIVITY = "sensitivity"
    SHIFT = "shift"
    FRONTIER = "frontier"
    ALL = "all"


class World(StrEnum):
    """The scenarios of the main comparison."""

    PAPER = "paper"
    DRIFT = "drift"


def paper(
    experiment: Annotated[
        Experiment,
        typer.Argument(
            metavar="EXPERIMENT",
            help="table1 (the main comparison), decomposition (recurrence and adaptive λ), "
            "ablation, sensitivity (trained for fewer and more malicious nodes), shift (trained "
            "for the usual share, tried on others), frontier (tighter and looser ceilings), or "
            "all: about three hours on two cores.",
        ),
    ],
    scenario: Annotated[
        World | None, typer.Option(help="The world of table1: paper.", show_default=False)
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME|DIR|FILE.py:CLASS",
            help="Add a policy to table1, tried on the same episodes: as in evaluate. Repeatable.",
            show_default=False,
        ),
    ] = None,
    out: Out = None,
    seeds: Seeds = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    quick: Quick = False,
    as_json: Json = False,
) -> None:
    """Show a table of the paper as it ships, or reproduce it.

    An interrupted run resumes where it stopped when you give the command again.

    Example: holdfast paper table1 --scenario drift

    Example: holdfast paper table1 --policy constant:7,0.10

    Example: holdfast paper all --out results
    """
    if scenario and experiment is not Experiment.TABLE1:
        raise InputError("--scenario is for table1 only: leave it out")
    if policy and experiment is not Experiment.TABLE1:
        raise InputError("--policy is for table1 only: leave it out")
    world = scenario or World.PAPER
    for name in policy or []:
        policy_named(name, SCENARIOS[world])  # refuse it before anything is computed
    results = _results(_names(experiment, world), out, seeds, jobs, cluster, quick=quick)
    if policy:
        results = [add_policies(result, policy, SCENARIOS[world]) for result in results]
    data = {result.experiment: asdict(result) for result in results}
    (only, *_) = data.values()
    together = experiment is Experiment.ALL
    report({"experiments": data} if together else only, map(_table, results), as_json=as_json)


def _names(experiment: Experiment, scenario: World) -> list[str]:
    if experiment is Experiment.ALL:
        return list(EXPERIMENTS)
    return [f"table1-{scenario}" if experiment is Experiment.TABLE1 else str(experiment)]


def _results(
    experiments: list[str],
    out: Path | None,
    seeds: int | None,
    jobs: int | None,
    cluster: str | None,
    *,
    quick: bool,
) -> list[Result]:
    if out or quick:
        effort = Effort(
            seeds=seeds or (QUICK_SEEDS if quick else SEEDS),
            episodes=QUICK_EPISODES if quick else EPISODES,
            taste=quick,
        )
        return _reproduce(experiments, effort, out, jobs, cluster)
    if seeds or jobs or cluster:
        raise InputError(
            "--seeds, --jobs and --cluster need --out DIR or --quick: shipped results are fixed"
        )
    return [shipped_result(experiment) for experiment in experiments]


def _reproduce(
    experiments: list[str],
    effort: Effort,
    out: Path | None,
    at_once: int | None,
    cluster: str | None,
) -> list[Result]:
    """Run the jobs that the folder lacks; without a folder, all of them."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as passing:
        folder = out or Path(passing)
        if out:
            publication.check_can_publish(out)
        jobs = Programme(effort).jobs(experiments)
        todo = runner.missing(jobs, folder)
        with (
            executor_for(cluster, lambda: LocalExecutor(at_once), at_once) as executor,
            _job_bar(todo) as on_progress,
        ):
            runner.run(todo, folder, executor, on_progress)
        results = [gather(experiment, effort, folder) for experiment in experiments]
        if out:
            publication.publish(results, out)
        return results


@contextmanager
def _job_bar(jobs: Sequence[Job]) -> Iterator[OnProgress]:
    """Show the progress of the jobs on stderr: a bar on a terminal, else a line per job."""
    total = sum(job.seconds for job in jobs)
    shares: dict[str, float] = {}
    weights = {job.id: job.seconds for job in jobs}
    start = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
    bar = Progress(*columns, console=terminal.messages, disable=not sys.stderr.isatty())

    def on_progress(job: Job, share: float) -> None:
        shares[job.id] = share
        elapsed = time.monotonic() - start
        done = sum(weights[name] * part for name, part in shares.items())
        left = f"{_span(elapsed)} elapsed, about {_span(elapsed * (total - done) / done)} left"
        finished = sum(part == 1 for part in shares.values())
        bar.update(task, completed=done, left=left, description=f"{finished} of {len(jobs)} jobs")
        if share == 1 and not sys.stderr.isatty():
            typer.echo(f"{finished} of {len(jobs)} jobs, {left}: {job.id}", err=True)

    with bar:
        task = bar.add_task(f"0 of {len(jobs)} jobs", total=total, left="")
        yield on_progress


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _table(result: Result) -> Table:
    warning = table.warning(result)
    shown = Table(
        title="\n".join(filter(None, (warning, table.title(result)))),
        caption="\n".join(filter(None, (table.caption(result), table.EXPLAINED, warning))),
        title_justify="left",
        caption_justify="left",
        title_style="bold red" if warning else None,
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for heading in table.HEADINGS:
        justify: Literal["left", "right"] = "left" if heading == "policy" else "right"
        shown.add_column(heading, justify=justify, no_wrap=True)
    for row in result.rows:
        if not table.is_constant(row):
            cells = table.cells(result, row)
            shown.add_row(
                *(
                    f"{cell.text}\n[dim]{cell.interval}[/dim]"
                    if heading in WITH_INTERVAL
                    else cell.text
                    for heading, cell in zip(table.HEADINGS, cells, strict=True)
                )
            )
    return shown
