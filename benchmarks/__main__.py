"""`python -m benchmarks`: comparisons with other frameworks, and trials with a known truth."""

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import inference, paper, retraining, sim, size_classes
from holdfast import learn as trainers
from holdfast.cli import terminal
from holdfast.cli.bench import Rounds, on_step, report_figures
from holdfast.cli.terminal import Json
from holdfast.errors import HoldfastError, InputError
from holdfast.learn.retraining import Budget

app = typer.Typer(name="benchmarks", no_args_is_help=True, pretty_exceptions_enable=False)


@app.command(name="sim")
def sim_command(rounds: Rounds = 15, as_json: Json = False) -> None:
    """Compare the fleet with the single environment, and that with Gymnasium's CartPole.

    Example: python -m benchmarks sim --json
    """
    on_step("stepping the fleet, the environment and CartPole in turns")
    report_figures(sim.measure(rounds=rounds), as_json=as_json)


@app.command(name="paper")
def paper_command(
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the results there, or resume them.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Hardly train: minutes.")] = False,
    as_json: Json = False,
) -> None:
    """Reproduce each experiment of the paper by itself: its time, processor time and memory.

    It takes hours. Experiments share trainings: `holdfast paper all` takes less than their sum.

    Example: python -m benchmarks paper --json
    """
    trainers.check_installed()
    with tempfile.TemporaryDirectory(prefix="holdfast-") as temporary:
        figures = paper.measure(out or Path(temporary), quick=quick, say=on_step)
    report_figures(figures, as_json=as_json)


@app.command(name="learn")
def learn_command(
    rounds: Rounds = 5,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes per round.")] = 8,
    as_json: Json = False,
) -> None:
    """Compare training with PyTorch and with Stable-Baselines3's DQN, in minutes.

    Example: python -m benchmarks learn --json
    """
    missing = [name for name in ("jax", "torch", "stable_baselines3") if find_spec(name) is None]
    if missing:
        raise InputError(
            f"this needs {', '.join(missing)}, which pip install 'holdfast[train,crosscheck]' "
            "installs"
        )
    from benchmarks import learn  # noqa: PLC0415 - optional extras

    report_figures(learn.measure(rounds=rounds, episodes=episodes, say=on_step), as_json=as_json)


@app.command(name="size-classes")
def size_classes_command(
    sizes: Annotated[int, typer.Option(min=1, help="Sizes of the largest fleet.")] = 1000,
    as_json: Json = False,
) -> None:
    """Compare inference in size classes with a filter for every size, in minutes.

    Example: python -m benchmarks size-classes --json
    """
    report_figures(size_classes.measure(sizes=sizes, say=on_step), as_json=as_json)


@app.command(name="inference")
def inference_command(
    fleets: Annotated[int, typer.Option(min=1, help="Simulated fleets.")] = 200,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes per fleet.")] = 50,
    recovered: Annotated[
        int, typer.Option(min=1, help="Nodes of the fleet whose parameters are recovered.")
    ] = 1000,
    as_json: Json = False,
) -> None:
    """Measure how often what is inferred from logs holds, where the truth is known.

    Example: python -m benchmarks inference --json
    """
    figures = inference.measure(fleets=fleets, nodes=nodes, recovered=recovered, say=on_step)
    report_figures(figures, as_json=as_json)


@app.command(name="retraining")
def retraining_command(
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the trainings there, or resume them.")
    ] = None,
    nodes: Annotated[int, typer.Option(min=20, help="Nodes of the fleet.")] = 1000,
    days: Annotated[int, typer.Option(min=14, help="Units for which it is audited.")] = 60,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each kind.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, help="How long each of them lasts.")] = 600,
    validation: Annotated[int, typer.Option(min=1, help="Episodes for each dial.")] = 4000,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes in the true world.")] = 2000,
    as_json: Json = False,
) -> None:
    """Retrain for a fleet unlike the one we trained for, and try the result in its true world.

    It takes half an hour of one core.

    Example: python -m benchmarks retraining --json
    """
    trainers.check_installed()
    fleet, budget = retraining.Fleet(nodes, days), Budget(seeds, rounds, validation, episodes)
    with tempfile.TemporaryDirectory(prefix="holdfast-") as temporary:
        figures = retraining.measure(fleet, budget, out or Path(temporary), on_step)
    report_figures(figures, as_json=as_json)


def run(arguments: list[str] | None = None) -> int:
    """Run one benchmark and return its exit code."""
    try:
        app(args=arguments, standalone_mode=False)
    except (HoldfastError, typer.TyperException, OSError) as error:
        terminal.complain(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run())
