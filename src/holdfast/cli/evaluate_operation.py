"""`holdfast evaluate --scenario operation`: policies in the operator's world."""

from dataclasses import asdict
from typing import Any

from rich.table import Table

from holdfast.cli.terminal import progress_bar, report
from holdfast.model.estimate import Estimate, finite
from holdfast.model.operation import Operation
from holdfast.sim.operation.evaluation import run
from holdfast.sim.operation.measures import OperationMeasures, measure
from holdfast.sim.operation.registry import operation_named, operation_policy

ROWS = {
    "audits_per_year": ("audits a year", 2),
    "reads_per_year": ("blocks read a year", 0),
    "cost_per_year": ("cost a year", 2),
    "exposure_per_year": ("exposure a year, damaged share x days", 3),
    "failures_per_year": ("failed audits a year", 3),
    "replacements_per_year": ("replacements a year", 4),
}


def evaluate_operation(
    policies: list[str], scenario: str, nodes: int, seed: int, *, as_json: bool
) -> None:
    """Run every policy on the same nodes and show its measures."""
    world = operation_named(scenario)
    made = {name: operation_policy(name, world) for name in policies}
    measured = {}
    with progress_bar("nodes", len(made) * nodes, of_bytes=False) as bar:
        for name, policy in made.items():
            bar.describe(name)
            tally = run(policy, world, nodes=nodes, seed=seed, progress=bar.advance)
            measured[name] = measure(tally)
    report(
        _data(world, nodes, seed, measured), _table(world, nodes, seed, measured), as_json=as_json
    )


def _data(
    world: Operation, nodes: int, seed: int, measured: dict[str, OperationMeasures]
) -> dict[str, Any]:
    policies = {name: finite(asdict(result)) for name, result in measured.items()}
    single = next(iter(policies.values())) if len(policies) == 1 else {}
    about = {"scenario": world.name, "parameters": asdict(world), "nodes": nodes, "seed": seed}
    return about | single | {"policies": policies}


def _table(
    world: Operation, nodes: int, seed: int, measured: dict[str, OperationMeasures]
) -> Table:
    years = world.days / 365
    table = Table(
        title=f"{world.name}: {nodes:,} nodes for {years:g} years, seed {seed}",
        title_justify="left",
        caption="below each figure: its 95 % interval over nodes",
    )
    table.add_column("")
    for name in measured:
        table.add_column(name, justify="right", overflow="fold")
    results = list(measured.values())
    for field, (label, decimals) in ROWS.items():
        table.add_row(label, *(_cell(getattr(result, field), decimals) for result in results))
    for share in results[0].onsets_per_100_node_years:
        percent = f"{100 * float(share):g} %"
        table.add_row(
            f"onsets per 100 node-years, {percent}",
            *(_cell(result.onsets_per_100_node_years[share], 2) for result in results),
        )
        for days in results[0].late_per_onset[share]:
            table.add_row(
                f"  later than {days} days, per onset",
                *(_cell(result.late_per_onset[share][days], 4) for result in results),
            )
    return table


def _cell(estimate: Estimate, decimals: int) -> str:
    low, high = f"{estimate.low:,.{decimals}f}", f"{estimate.high:,.{decimals}f}"
    return f"{estimate.value:,.{decimals}f}\n[dim]{low} to {high}[/dim]"
