"""`holdfast train`: train a learned policy, with one seed or several at once."""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast import learn
from holdfast.cli import terminal
from holdfast.cli.completion import complete_policy, complete_scenario
from holdfast.cli.executor import Cluster, executor_for
from holdfast.cli.terminal import Json, report
from holdfast.errors import InputError
from holdfast.executor import LocalExecutor
from holdfast.policy import checkpoint
from holdfast.sim.scenario_file import load_scenario

if TYPE_CHECKING:
    from holdfast.learn.methods import AnySettings
    from holdfast.learn.pool import Job

UNITS = 600


def train(
    *,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE.py:CLASS",
            autocompletion=complete_policy,
            help="What to train, see above.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The folder to write. Several seeds are written to DIR/seed-K."
        ),
    ] = None,
    scenario: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE.toml",
            autocompletion=complete_scenario,
            help="The world: paper, drift, field or a file.",
        ),
    ] = "paper",
    episodes: Annotated[
        int | None, typer.Option(min=1, help="Episodes to train for.", show_default=str(UNITS))
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, help="Rounds to train drqn-cmdp-plus for.", show_default=str(UNITS)),
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(min=0, help="Equal seeds give equal weights. Repeatable.", show_default="0"),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Train with the seeds 0 to N - 1.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Seeds at the same time.", show_default="one per core")
    ] = None,
    cluster: Cluster = None,
    rho: Annotated[
        float | None,
        typer.Option(help="Ceiling on the miss rate.", show_default="0.05 where there is one"),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a setting of the method. Repeatable."
        ),
    ] = None,
    settings_file: Annotated[
        Path | None,
        typer.Option("--settings", metavar="FILE.toml", help="Settings of the method to change."),
    ] = None,
    show_settings: Annotated[
        bool,
        typer.Option("--show-settings", help="Print the settings as a file for --settings."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a policy in simulation and save it as a checkpoint.

    Methods of the paper: dqn, double-dqn, dueling-dqn, d3qn, ppo, a2c, and, with a multiplier
    that adapts to the ceiling --rho, ppo-lagrangian and drqn-cmdp. Beyond it, by the same recipe:
    recurrent-ppo-lagrangian, pid-lagrangian, focops and r2d2; and drqn-cmdp-plus, trained for all
    ceilings at once, in rounds of some thousand decisions. Your own: mine.py:Agent, a class in a
    file, or package.module:Agent; docs/extending.md describes it.

    An interrupted training resumes when you give the command again, and ends with the same
    weights. `tensorboard --logdir DIR` shows the curves, which are in curve.csv as well.

    --show-settings lists the settings of a method and their values. --set and --settings change
    them, and run.json records them.

    Example: holdfast train --method drqn-cmdp --seeds 4 --set learning_rate=5e-4 --out runs/drqn
    """
    learn.check_installed()
    from holdfast.learn import methods, pool, settings_changes, training  # noqa: PLC0415
    from holdfast.learn.settings import to_json  # noqa: PLC0415 - the extra `train`

    world = load_scenario(scenario)
    settings = (
        methods.settings_of(method, world) if rho is None else methods.with_ceiling(method, rho)
    )
    changes = settings_changes.read_changes(set_ or [], settings_file)
    settings = settings_changes.change_settings(settings, changes, method)
    if show_settings:
        keys = dict(settings_changes.settings_of_keys(settings))
        report(
            {"method": method, "settings": to_json(keys)},
            settings_changes.as_toml(settings),
            as_json=as_json,
        )
        return
    if out is None:
        raise InputError("say where to write the checkpoint, with --out")
    units = _units(method, settings, episodes, rounds)
    if seed and seeds:
        raise InputError("give --seed, once or several times, or --seeds, but not both")
    numbers = list(range(seeds)) if seeds else list(dict.fromkeys(seed or [0]))
    plan = [
        pool.Job(
            training.Run(method, world, number, units, settings),
            out / f"seed-{number}" if len(numbers) > 1 else out,
        )
        for number in numbers
    ]
    ahead = [job for job in plan if not training.finished(job.run, job.folder)]
    with (
        executor_for(cluster, lambda: _local_executor(ahead, jobs), jobs) as executor,
        _progress(ahead) as on_progress,
    ):
        pool.train_all(ahead, executor, on_progress)
    trained = [_result(job, scenario, new=job in ahead) for job in plan]
    data = {
        "method": method,
        "scenario": world.name,
        "units": units,
        "changed_settings": changes,
        "trained": trained,
    }
    lines = (line for result in trained for line in _describe(result))
    report(data, lines, as_json=as_json)


def _local_executor(jobs: list["Job"], at_once: int | None) -> LocalExecutor | None:
    """Return processes for several trainings; a single one runs here."""
    return LocalExecutor(at_once) if len(jobs) > 1 else None


def _units(method: str, settings: "AnySettings", episodes: int | None, rounds: int | None) -> int:
    from holdfast.learn.drqn_cmdp_plus import PlusSettings  # noqa: PLC0415 - the extra `train`
    from holdfast.learn.plugin_learner import PluginSettings  # noqa: PLC0415

    if isinstance(settings, PluginSettings):
        return rounds or episodes or UNITS
    if isinstance(settings, PlusSettings):
        if episodes:
            raise InputError(f"{method} counts rounds: give --rounds instead of --episodes")
        return rounds or UNITS
    if rounds:
        raise InputError(f"{method} counts episodes: give --episodes instead of --rounds")
    return episodes or UNITS


@contextmanager
def _progress(jobs: list["Job"]) -> Iterator[Callable[..., None]]:
    """Show the progress of each training on a terminal, with the figures of its last unit."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    quiet = not sys.stderr.isatty()
    with Progress(*columns, console=terminal.messages, disable=quiet) as bars:
        tasks = {
            job.folder: bars.add_task(f"seed {job.run.seed}", total=job.run.units, figures="")
            for job in jobs
        }

        def on_progress(job: "Job", phase: str, done: float, figures: dict[str, float]) -> None:
            bars.update(
                tasks[job.folder],
                description=f"seed {job.run.seed}, {phase}",
                completed=done,
                figures=_figures(figures),
            )

        yield on_progress


def _figures(figures: dict[str, float]) -> str:
    shapes = {
        "gas": ", gas {:.1f}",
        "miss_rate": ", miss rate {:.1%}",
        "multiplier": ", multiplier {:.1f}",
    }
    return "".join(shapes[name].format(figures[name]) for name in shapes if name in figures)


def _result(job: "Job", scenario: str, *, new: bool) -> dict[str, Any]:
    # Without a slash, a folder named like a method would be taken for the method.
    folder = str(job.folder) if "/" in str(job.folder) else f"./{job.folder}"
    use = ["holdfast", "evaluate", "--policy", folder]
    return {
        "seed": job.run.seed,
        "checkpoint": str(job.folder),
        "trained_before": not new,
        "evaluation": checkpoint.load(job.folder).manifest.evaluation,
        "use": shlex.join(use if scenario == "paper" else [*use, "--scenario", scenario]),
    }


def _describe(result: dict[str, Any]) -> Iterator[str]:
    evaluation = result["evaluation"]
    before = " before" if result["trained_before"] else ""
    yield f"seed {result['seed']} was trained{before}: {result['checkpoint']}"
    if "refused" in evaluation:
        yield f"  not evaluated: {evaluation['refused']}"
    else:
        gas, latency, missed = (
            evaluation[name]["value"] for name in ("gas", "latency", "miss_rate")
        )
        yield (
            f"  over {evaluation['episodes']:,} episodes: gas {gas:.2f},"
            f" latency {_format(latency, '.2f')}, miss rate {_format(missed, '.2%')}"
        )
    yield f"  {result['use']}"


def _format(figure: float | None, shape: str) -> str:
    return "-" if figure is None else format(figure, shape)
