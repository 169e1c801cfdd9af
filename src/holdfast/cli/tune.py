"""`holdfast tune`: the cheapest policies of simple kinds at a given exposure."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from holdfast.cli.terminal import Json, report, table
from holdfast.errors import InputError
from holdfast.model.estimate import finite
from holdfast.sim.operation.evaluation import run
from holdfast.sim.operation.measures import measure
from holdfast.sim.operation.registry import is_operation, operation_named, operation_policy
from holdfast.sim.operation.tuning import Tuned
from holdfast.sim.operation.tuning import tune as find_best

KINDS = ("constant", "two-speed", "bayes", "clairvoyant")


def tune(
    exposure: Annotated[
        float,
        typer.Option(help="Damaged share x days that a node may have in a year, on average."),
    ],
    scenario: Annotated[
        str, typer.Option(metavar="NAME", help="operation, or operation:per_audit=10.")
    ] = "operation",
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="constant, two-speed, bayes or clairvoyant. Repeatable.",
            show_default="constant, two-speed",
        ),
    ] = None,
    nodes: Annotated[int, typer.Option(min=100, help="Nodes to tune on.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the nodes to tune on.")] = 0,
    as_json: Json = False,
) -> None:
    """Find the cheapest policy of each kind that keeps an exposure.

    The world is the operator's. Each policy is tuned on some nodes and measured on as many fresh
    ones, with the next seed. The bayes policy learns hazards from a node's own audits; clairvoyant
    sees them, as nobody can.

    Example: holdfast tune --exposure 0.118 --scenario operation:per_audit=10
    """
    kinds = tuple(dict.fromkeys(kind or KINDS[:2]))
    for name in kinds:
        if name not in KINDS:
            raise InputError(f"there is no kind {name!r} to tune: they are {', '.join(KINDS)}")
    if not is_operation(scenario):
        raise InputError("policies are tuned in the scenario operation")
    world = operation_named(scenario)
    best = find_best(
        world,
        exposure,
        nodes=nodes,
        seed=seed,
        kinds=kinds,
        on_progress=lambda name: typer.echo(f"trying {name}", err=True),
    )
    fresh = [
        Tuned(
            tuned.kind,
            tuned.name,
            measure(run(operation_policy(tuned.name, world), world, nodes=nodes, seed=seed + 1)),
        )
        for tuned in best
    ]
    data = {
        "scenario": world.name,
        "parameters": asdict(world),
        "exposure": exposure,
        "nodes": nodes,
        "seed": seed,
        "tuned": [
            {"kind": tuned.kind, "name": tuned.name} | finite(asdict(tuned.measures))
            for tuned in fresh
        ],
    }
    rows = [_row(tuned) for tuned in fresh]
    titles = ("policy", "audits a year>", "reads a year>", "cost a year>", "exposure a year>")
    report(data, table(titles, rows), as_json=as_json)


def _row(tuned: Tuned) -> tuple[str, ...]:
    def text(figure: Any, decimals: int) -> str:
        half = figure.high - figure.value
        return f"{figure.value:,.{decimals}f} ± {half:,.{decimals}f}"

    measures = tuned.measures
    return (
        tuned.name,
        text(measures.audits_per_year, 2),
        text(measures.reads_per_year, 0),
        text(measures.cost_per_year, 2),
        text(measures.exposure_per_year, 4),
    )
