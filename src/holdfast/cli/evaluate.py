"""`holdfast evaluate`: policies compared on the same episodes, with 95 % intervals."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from holdfast.cli.completion import complete_policy, complete_scenario
from holdfast.cli.executor import Cluster, executor_for
from holdfast.cli.terminal import Json, progress_bar, report
from holdfast.errors import InputError
from holdfast.executor import result_of
from holdfast.model.estimate import Estimate, finite
from holdfast.model.scenario import Scenario
from holdfast.policy.registry import check_world, portable, trained_for
from holdfast.sim import figure, scenario_file
from holdfast.sim.measures import Measures
from holdfast.sim.paired import Difference, compare
from holdfast.sim.trial import OnProgress, Trial, local_executor, run_trials

Differences = Mapping[str, Mapping[str, Difference]]  # by policy and measure

# The label, the decimals and whether it is a percentage, of each measure in the table.
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
            metavar="NAME|DIR|FILE.py:CLASS",
            autocompletion=complete_policy,
            help="A policy, see above. Repeatable.",
        ),
    ],
    scenario: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE.toml",
            autocompletion=complete_scenario,
            help="The world: paper, drift, field (field:blocks=5000) or a file.",
        ),
    ] = "paper",
    episodes: Annotated[int, typer.Option(min=1, help="Episodes per policy.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal episodes.")] = 0,
    malicious_share: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of malicious nodes. Default: the scenario's."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The policy that the others are compared with. Default: the first.",
        ),
    ] = None,
    cluster: Cluster = None,
    as_json: Json = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|.png", help="Draw a figure as well.")
    ] = None,
) -> None:
    """Compare policies on the same simulated episodes.

    Each figure has its 95 % interval. With --json it is given as value, low and high.

    With several policies, a second table has the differences from the baseline on the same
    episodes, how likely each policy is the better one, and p-values with Holm's correction for
    all comparisons of the table.

    Rules: fixed-high, fixed-low, heuristic, bayesian, two-speed (Sia), daily-5 (Filecoin),
    sample-460 (libpdp), constant:14,0.20 (any interval and ratio of the grid).

    Planned in seconds, for ceilings on the miss rate and optionally the latency:
    belief:rho=0.05,latency=7.5. References that see the hidden state: oracle,
    clairvoyant:rho=0.05.

    Learned: dqn, double-dqn, dueling-dqn, d3qn, ppo, a2c, ppo-lagrangian, drqn-cmdp and
    drqn-cmdp-plus, as shipped for the scenario; drqn-cmdp-plus@paper for another scenario; runs/a
    for the checkpoint in a folder. A dial is set for ceilings by
    drqn-cmdp-plus:rho=0.04,latency=8, or by its number: drqn-cmdp-plus:dial=3.

    Your own: mine.py:Agent, a class in a file, or a name that an installed package offers;
    docs/extending.md describes it.

    Example: holdfast evaluate --policy belief --policy fixed-high --plot policies.svg
    """
    if plot:
        figure.check_can_draw(plot)
    if baseline is not None and baseline not in policy:
        raise InputError(f"--baseline {baseline}: give it as --policy too")
    world = scenario_file.load_scenario(scenario)
    share = world.malicious_share if malicious_share is None else malicious_share
    homes = _homes(policy, world)
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
    measured = {name: results[trial].measures for name, trial in trials.items()}
    title = (
        f"{world.name} ({world.short_hash}): {episodes:,} episodes, {share:.0%} malicious,"
        f" seed {seed}"
    )
    about = {
        "scenario": {"name": world.name, "hash": world.hash, "parameters": world.parameters},
        "episodes": episodes,
        "seed": seed,
        "malicious_share": share,
        "trained_for": {
            name: {"name": home.name, "hash": home.hash, "this_scenario": home.hash == world.hash}
            for name, home in homes.items()
        },
    }
    tables, data = [_table(title, measured)], _data(about, measured)
    if len(trials) > 1:
        first = baseline or policy[0]
        sums = {name: results[trial].episodes for name, trial in trials.items()}
        differences = compare(sums.pop(first), sums)
        data |= {"baseline": first, "differences": _difference_data(differences)}
        tables.append(_difference_table(first, differences))
    report(data, tables, as_json=as_json)
    if plot:
        figure.draw(
            {name: (measured[name], results[trials[name]].undetected) for name in trials},
            title,
            plot,
        )
        typer.echo(f"drew {plot}", err=True)


def _homes(policies: Sequence[str], world: Scenario) -> dict[str, Scenario]:
    """Return what the learned policies were trained for; say where that is another scenario."""
    homes = {}
    for name in policies:
        check_world(name, world)
        home = trained_for(name, world)
        if home is not None:
            homes[name] = home
            if home.hash != world.hash:
                typer.echo(
                    f"{name} was trained for scenario {home.name} ({home.short_hash}), not for"
                    f" this one ({world.short_hash})",
                    err=True,
                )
    return homes


@contextmanager
def episode_bar(total: int) -> Iterator[OnProgress]:
    """Show on a terminal how many episodes are done, and of which trial."""
    with progress_bar("episodes", total, of_bytes=False) as bar:

        def on_progress(trial: Trial, episodes: float) -> None:
            bar.describe(trial.name)
            bar.advance(episodes)

        yield on_progress


def _data(about: dict[str, Any], measured: Mapping[str, Measures]) -> dict[str, Any]:
    """Return the measures by policy. Those of a single policy are at the top level as well."""
    policies = {name: finite(asdict(result)) for name, result in measured.items()}
    single = next(iter(policies.values())) if len(policies) == 1 else {}
    return about | single | {"policies": policies}


def _table(title: str, measured: Mapping[str, Measures]) -> Table:
    table = Table(title=title, title_justify="left", caption="below each figure: its 95 % interval")
    table.add_column("")
    for name in measured:
        table.add_column(name, justify="right", overflow="fold")
    for field, (label, decimals, percent) in ROWS.items():
        estimates = [getattr(result, field) for result in measured.values()]
        if isinstance(estimates[0], Mapping):
            for key in estimates[0]:
                cells = [_cell(estimate[key], decimals, percent=percent) for estimate in estimates]
                table.add_row(label.format(key), *cells)
        else:
            cells = [_cell(estimate, decimals, percent=percent) for estimate in estimates]
            table.add_row(label, *cells)
    return table


def _difference_data(differences: Differences) -> dict[str, Any]:
    return {
        name: {
            measure: finite(
                asdict(difference.estimate)
                | {
                    "probability_of_improvement": difference.probability_of_improvement,
                    "p_value": difference.p_value,
                    "p_holm": difference.p_holm,
                }
            )
            for measure, difference in row.items()
        }
        for name, row in differences.items()
    }


def _difference_table(baseline: str, differences: Differences) -> Table:
    table = Table(
        title=f"differences from {baseline} on the same episodes",
        title_justify="left",
        caption="below each: its 95 % interval; how likely the policy is better; p by Holm",
    )
    table.add_column("")
    for name in differences:
        table.add_column(name, justify="right", overflow="fold")
    for measure in next(iter(differences.values())):
        label, decimals, percent = ROWS[measure]
        cells = [
            _difference_cell(row[measure], decimals, percent=percent)
            for row in differences.values()
        ]
        table.add_row(label, *cells)
    return table


def _difference_cell(difference: Difference, decimals: int, *, percent: bool) -> str:
    figure = _cell(difference.estimate, decimals, percent=percent)
    if math.isnan(difference.p_value):
        return figure
    likely = f"better: {difference.probability_of_improvement:.1%}, p {difference.p_holm:.2g}"
    return f"{figure}\n[dim]{likely}[/dim]"


def _cell(estimate: Estimate, decimals: int, *, percent: bool) -> str:
    def text(number: float) -> str:
        if math.isnan(number):
            return "-"
        if math.isinf(number):
            return "never"
        return f"{100 * number if percent else number:,.{decimals}f}"

    unit = " %" if percent and math.isfinite(estimate.value) else ""
    interval = f"{text(estimate.low)} to {text(estimate.high)}"
    return f"{text(estimate.value)}{unit}\n[dim]{interval}[/dim]"
