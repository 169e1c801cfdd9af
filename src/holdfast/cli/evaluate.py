"""`holdfast evaluate`: policies side by side on matched episodes, with honest intervals."""

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from holdfast.cli import completion, terminal
from holdfast.cli.executor import Cluster, executor_for
from holdfast.cli.terminal import Json
from holdfast.model.estimate import finite

if TYPE_CHECKING:
    from holdfast.model.estimate import Estimate
    from holdfast.sim.measures import Measures
    from holdfast.sim.trial import OnProgress, Trial

# What the table shows of each measure: its label, how many decimals, and whether as a percentage.
ROWS = {
    "gas": ("gas per episode", 2, False),
    "latency": ("latency of detections", 2, False),
    "miss_rate": ("miss rate", 2, True),
    "miss_rate_honest": ("  honest nodes", 2, True),
    "miss_rate_malicious": ("  malicious nodes", 2, True),
    "detections_per_100": ("detections per 100 episodes", 0, False),
    "detected_within": ("detected within {} units", 1, True),
    "time_to_detection_p95": ("time to detection, 95 %", 0, False),
    "exposure": ("exposure, blocks x units", 0, False),
    "undetected": ("undetected at the end", 1, True),
    "audits": ("audits per episode", 1, False),
}


def evaluate(
    *,
    policy: Annotated[
        list[str],
        typer.Option(
            "--policy",
            metavar="NAME|DIR",
            autocompletion=completion.policies,
            help="A policy, see above; repeat it.",
        ),
    ],
    scenario: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE.toml",
            autocompletion=completion.scenarios,
            help="The world: paper, drift, field (field:blocks=5000) or a file.",
        ),
    ] = "paper",
    episodes: Annotated[int, typer.Option(min=1, help="Episodes for each policy.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal episodes.")] = 0,
    malicious_share: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of malicious nodes, if not the scenario's."),
    ] = None,
    cluster: Cluster = None,
    as_json: Json = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|.png", help="Draw the policies as well.")
    ] = None,
) -> None:
    """Run policies on the same simulated episodes and compare what they cost and find.

    Each figure has its 95 % interval; --json gives it as value, low and high.

    Rules: fixed-high, fixed-low, heuristic, bayesian, two-speed (Sia), daily-5 (Filecoin),
    sample-460 (libpdp), constant:14,0.20 (any interval and ratio of the grid).

    Planned in seconds for ceilings on the miss rate and, if given, on the latency:
    belief:rho=0.05,latency=7.5. References that see what is hidden: oracle, clairvoyant:rho=0.05.

    Learned: dqn, double-dqn, dueling-dqn, d3qn, ppo, a2c, ppo-lagrangian, drqn-cmdp and
    drqn-cmdp-plus, as shipped for the scenario; drqn-cmdp-plus@paper as for another; runs/a for
    the checkpoint in a folder. Where it has a dial: drqn-cmdp-plus:rho=0.04,latency=8 sets it for
    ceilings, drqn-cmdp-plus:dial=3 by its number.

    Example: holdfast evaluate --policy belief --policy fixed-high --plot policies.svg
    """
    # The command line starts without these: NumPy and Gymnasium take a fifth of a second.
    from holdfast.executor import result_of  # noqa: PLC0415
    from holdfast.policy.registry import portable  # noqa: PLC0415
    from holdfast.sim import figure, scenario_file  # noqa: PLC0415
    from holdfast.sim.trial import Trial, local_executor, run_trials  # noqa: PLC0415

    if plot:
        figure.check_can_draw(plot)
    world = scenario_file.load_scenario(scenario)
    share = world.malicious_share if malicious_share is None else malicious_share
    trials = {
        name: Trial(name, portable(name, world), world, episodes, seed, share) for name in policy
    }
    total = len(trials) * episodes
    with (
        episode_bar(total) as on_progress,
        executor_for(
            cluster, lambda: local_executor(total) if len(trials) > 1 else None
        ) as executor,
    ):
        results = {
            trial: result_of(future, f"the trial of {trial.name}")
            for trial, future in run_trials(list(trials.values()), executor, on_progress)
        }
    found = {name: results[trial].measures for name, trial in trials.items()}
    title = f"{world.name}: {episodes:,} episodes, {share:.0%} malicious, seed {seed}"
    if as_json:
        about = {
            "scenario": world.name,
            "episodes": episodes,
            "seed": seed,
            "malicious_share": share,
        }
        terminal.say(json.dumps(_data(about, found), indent=2, allow_nan=False))
    else:
        Console().print(_table(title, found))
    if plot:
        figure.draw(
            {name: (found[name], results[trials[name]].undetected) for name in trials}, title, plot
        )
        typer.echo(f"drew {plot}", err=True)


@contextmanager
def episode_bar(total: int) -> Iterator["OnProgress"]:
    """Show on a terminal how many episodes are done; say nothing to a file or a pipe."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("episodes", total=total)

        def on_progress(trial: "Trial", episodes: float) -> None:
            bar.update(task, description=trial.name, advance=episodes)

        yield on_progress


def _data(about: dict[str, Any], found: Mapping[str, "Measures"]) -> dict[str, Any]:
    """Return the measures by policy; those of a single policy stand at the top as well."""
    policies = {name: finite(asdict(measured)) for name, measured in found.items()}
    single = next(iter(policies.values())) if len(policies) == 1 else {}
    return about | single | {"policies": policies}


def _table(title: str, found: Mapping[str, "Measures"]) -> Table:
    table = Table(title=title, title_justify="left", caption="below each figure: its 95 % interval")
    table.add_column("")
    for name in found:
        table.add_column(name, justify="right", overflow="fold")
    for field, (label, decimals, percent) in ROWS.items():
        estimates = [getattr(measured, field) for measured in found.values()]
        if isinstance(estimates[0], Mapping):
            for key in estimates[0]:
                cells = [_cell(each[key], decimals, percent=percent) for each in estimates]
                table.add_row(label.format(key), *cells)
        else:
            cells = [_cell(each, decimals, percent=percent) for each in estimates]
            table.add_row(label, *cells)
    return table


def _cell(estimate: "Estimate", decimals: int, *, percent: bool) -> str:
    def shown(figure: float) -> str:
        if math.isnan(figure):
            return "-"
        if math.isinf(figure):
            return "never"
        return f"{100 * figure if percent else figure:,.{decimals}f}"

    unit = " %" if percent and math.isfinite(estimate.value) else ""
    interval = f"{shown(estimate.low)} to {shown(estimate.high)}"
    return f"{shown(estimate.value)}{unit}\n[dim]{interval}[/dim]"
