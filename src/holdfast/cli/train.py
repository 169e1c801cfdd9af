"""`holdfast train`: train a learned policy, with one seed or several at once."""

import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import learn
from holdfast.cli.completion import complete_policy, complete_scenario
from holdfast.cli.executor import Cluster, executor_for
from holdfast.cli.terminal import Json, report
from holdfast.cli.training_progress import show_progress
from holdfast.errors import InputError
from holdfast.executor import LocalExecutor
from holdfast.policy import checkpoint
from holdfast.sim.scenario_file import load_scenario

if TYPE_CHECKING:
    from holdfast.learn.pool import Job

UNITS = 600
EVALUATE_EVERY = 50
CLUSTER_LOCK = ".cluster.lock"


def train(
    *,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE.py:CLASS",
            autocompletion=complete_policy,
            help="What to train, see above.",
        ),
    ] = None,
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
    sweep: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml", help="Train all that a file describes, instead of one method."
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Train the I-th of N parts of the trainings."),
    ] = None,
    keep_state: Annotated[
        bool, typer.Option(help="Keep the state, some megabytes, for a longer training.")
    ] = True,
    evaluate_every: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Evaluate after every N episodes or rounds. 0: only at the end.",
        ),
    ] = EVALUATE_EVERY,
    as_json: Json = False,
) -> None:
    """Train a policy in simulation and save it as a checkpoint.

    Methods of the paper: dqn, double-dqn, dueling-dqn, d3qn, ppo, a2c, and, with a multiplier
    that adapts to the ceiling --rho, ppo-lagrangian and drqn-cmdp. Beyond it, by the same recipe:
    recurrent-ppo-lagrangian, pid-lagrangian, focops and r2d2; and drqn-cmdp-plus, trained for all
    ceilings at once, in rounds of some thousand decisions. Your own: mine.py:Agent, a class in a
    file, or package.module:Agent; docs/extending.md describes it.

    An interrupted training resumes when you give the command again, and ends with the same
    weights. With more episodes it is extended. `tensorboard --logdir DIR` shows the curves, which
    are in curve.csv as well: figures of the episodes in which the agent explores. evaluation.csv
    has those of fixed episodes in which it doesn't, every --evaluate-every episodes.

    --show-settings lists the settings of a method and their values. --set and --settings change
    them, and run.json records them. --sweep trains many methods, ceilings and seeds, and --shard
    divides them among processes or machines.

    Example: holdfast train --method drqn-cmdp --seeds 4 --set learning_rate=5e-4 --out runs/drqn
    """
    learn.check_installed()
    from holdfast.learn import folder_lock, pool, sweep_file, training  # noqa: PLC0415

    if sweep is not None:
        given = (method, episodes, rounds, seed, seeds, rho, set_, settings_file)
        if any(given) or show_settings or scenario != "paper":
            raise InputError(
                "with --sweep the file says what to train: give no other option for it"
            )
        trainings = sweep_file.read_sweep(sweep)
        plan = trainings.jobs(_checked_out(out), keep_state=keep_state)
        about: dict[str, Any] = {"sweep": str(sweep)}
    elif method is None:
        raise InputError("say what to train, with --method or --sweep")
    else:
        one = _OneMethod(method, scenario, rho, set_ or [], settings_file)
        if show_settings:
            report(one.data(), one.as_toml(), as_json=as_json)
            return
        numbers = _seeds(seed, seeds)
        units = one.units(episodes, rounds)
        plan = one.jobs(units, numbers, _checked_out(out), keep_state=keep_state)
        about = {
            "method": method,
            "scenario": one.world.name,
            "units": units,
            "changed_settings": one.changes,
        }
    if shard is not None:
        plan, about = sweep_file.select_shard(plan, shard), about | {"shard": shard}
    plan = [replace(job, evaluate_every=evaluate_every or None) for job in plan]
    ahead = [job for job in plan if not training.finished(job.run, job.folder)]
    with (
        folder_lock.hold_folder(_checked_out(out), CLUSTER_LOCK) if cluster else nullcontext(),
        executor_for(cluster, lambda: _local_executor(ahead, jobs), jobs) as executor,
        show_progress(ahead) as on_progress,
    ):
        pool.train_all(ahead, executor, on_progress)
    trained = [_result(job, scenario, new=job in ahead) for job in plan]
    lines = (
        _describe_sweep(plan, ahead, _checked_out(out))
        if sweep is not None
        else [line for result in trained for line in _describe(result)]
    )
    report(about | {"trained": trained}, lines, as_json=as_json)


def _checked_out(out: Path | None) -> Path:
    if out is None:
        raise InputError("say where to write the checkpoint, with --out")
    return out


def _seeds(seed: list[int] | None, seeds: int | None) -> list[int]:
    if seed and seeds:
        raise InputError("give --seed, once or several times, or --seeds, but not both")
    return list(range(seeds)) if seeds else list(dict.fromkeys(seed or [0]))


class _OneMethod:
    """A method in a scenario, with its settings as the user changed them."""

    def __init__(
        self,
        method: str,
        scenario: str,
        rho: float | None,
        pairs: list[str],
        file: Path | None,
    ) -> None:
        from holdfast.learn import methods, settings_changes  # noqa: PLC0415 - the extra `train`

        self.method, self.world = method, load_scenario(scenario)
        usual = (
            methods.settings_of(method, self.world)
            if rho is None
            else methods.with_ceiling(method, rho)
        )
        self.changes = settings_changes.read_changes(pairs, file)
        self.settings = settings_changes.change_settings(usual, self.changes, method)

    def data(self) -> dict[str, Any]:
        from holdfast.learn import settings, settings_changes  # noqa: PLC0415 - as above

        keys = dict(settings_changes.settings_of_keys(self.settings))
        return {"method": self.method, "settings": settings.to_json(keys)}

    def as_toml(self) -> list[str]:
        from holdfast.learn import settings_changes  # noqa: PLC0415 - as above

        return settings_changes.as_toml(self.settings)

    def units(self, episodes: int | None, rounds: int | None) -> int:
        from holdfast.learn.drqn_cmdp_plus import PlusSettings  # noqa: PLC0415 - as above
        from holdfast.learn.plugin_learner import PluginSettings  # noqa: PLC0415

        if isinstance(self.settings, PluginSettings):
            return rounds or episodes or UNITS
        if isinstance(self.settings, PlusSettings):
            if episodes:
                raise InputError(
                    f"{self.method} counts rounds: give --rounds instead of --episodes"
                )
            return rounds or UNITS
        if rounds:
            raise InputError(f"{self.method} counts episodes: give --episodes instead of --rounds")
        return episodes or UNITS

    def jobs(self, units: int, seeds: list[int], out: Path, *, keep_state: bool) -> list["Job"]:
        from holdfast.learn import pool, training  # noqa: PLC0415 - as above

        return [
            pool.Job(
                training.Run(self.method, self.world, seed, units, self.settings),
                out / f"seed-{seed}" if len(seeds) > 1 else out,
                keep_state,
            )
            for seed in seeds
        ]


def _local_executor(jobs: list["Job"], at_once: int | None) -> LocalExecutor | None:
    """Return processes for several trainings; a single one runs here."""
    return LocalExecutor(at_once) if len(jobs) > 1 else None


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


def _describe_sweep(plan: list["Job"], new: list["Job"], out: Path) -> list[str]:
    before = len(plan) - len(new)
    words = shlex.join(["holdfast", "aggregate", str(out)])
    return [f"trained {len(new)}, and {before} were trained before", f"  {words}"]


def _format(figure: float | None, shape: str) -> str:
    return "-" if figure is None else format(figure, shape)
