"""`holdfast confidence`: how much may be damaged or was missed, inferred from the log."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from holdfast.cli.control import open_control
from holdfast.cli.home import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import Json, report, table
from holdfast.control.inference.confidence import infer_confidence
from holdfast.errors import InputError

MAX_ROWS = 50


def confidence(
    holding: Annotated[
        list[str] | None, typer.Argument(help="Holdings to show. Default: the worst ones.")
    ] = None,
    ceiling: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="The ceiling on the miss rate. Default: that of [control.promotion], or the "
            "champion's.",
            show_default=False,
        ),
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> int:
    """Estimate undetected damage: exit 1 if the ceiling is certainly broken.

    The figures are inferred from the log with the latest fit, or with one made now. Nobody can
    observe damage that no audit has sampled. Needs no passphrase.

    Example: holdfast confidence
    """
    with open_control(home, read_only=True) as control:
        estimates = infer_confidence(control.engine, control.settings, control.now())
    known = {estimate.holding for estimate in estimates.holdings}
    for name in holding or ():
        if name not in known:
            raise InputError(f"holding {name!r} is not on the schedule")
    rows = [
        asdict(estimate)
        for estimate in estimates.holdings
        if not holding or estimate.holding in holding
    ]
    ceiling = estimates.ceiling if ceiling is None else ceiling
    broken = ceiling is not None and estimates.miss_rate.low > ceiling
    data = {
        "observed": False,
        "miss_rate": asdict(estimates.miss_rate),
        "detections": estimates.detections,
        "ceiling": ceiling,
        "broken": broken,
        "fleet_at_most": estimates.fleet_at_most,
        "holdings": rows,
    }
    report(data, _describe(data), as_json=as_json)
    return 1 if broken else 0


def _describe(data: dict[str, Any]) -> Iterator[str | Table]:
    rows, rate, ceiling = data["holdings"], data["miss_rate"], data["ceiling"]
    yield "inferred from the log, not observed; upper bounds at 95 %:"
    yield table(
        ("holding", "damaged at most>", "probability of any damage>"),
        [
            (row["holding"], f"{row['at_most']:.2%}", f"{row['damaged']:.0%}")
            for row in rows[:MAX_ROWS]
        ],
    )
    if len(rows) > MAX_ROWS:
        yield f"and {len(rows) - MAX_ROWS} more holdings, none worse than the last one above"
    yield f"all holdings together: at most {data['fleet_at_most']:.2%} damaged"
    interval = f"{rate['value']:.1%}, between {rate['low']:.1%} and {rate['high']:.1%}"
    if ceiling is None:
        verdict = "no ceiling is set"
    else:
        side = (
            "below" if rate["high"] <= ceiling else "above" if rate["low"] > ceiling else "around"
        )
        verdict = f"{side} the ceiling of {ceiling:.1%}"
    yield f"miss rate over the whole log: {interval}: {verdict}"
