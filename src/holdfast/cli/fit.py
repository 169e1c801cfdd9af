"""`holdfast policy fit`: what the log of audits says about the fleet."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.table import Table

from holdfast.cli.control import open_control
from holdfast.cli.home import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import Json, report, table
from holdfast.control.inference.audit_log import read_log
from holdfast.control.inference.fits import save_fit
from holdfast.inference import fit as inference
from holdfast.inference.fit import Fitted


def fit(
    save: Annotated[
        bool, typer.Option("--save/--dry-run", help="Save the fit, or only show it.")
    ] = True,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Fit the scenario to the audits in the log.

    The fit is by maximum likelihood, with 95 % intervals. The service may run meanwhile. Needs no
    passphrase.

    Example: holdfast policy fit --dry-run
    """
    with open_control(home, read_only=not save) as control:
        now, scenario = control.now(), control.settings.scenario
        fitted = inference.fit(read_log(control.engine, control.settings.rails.unit, now), scenario)
        number = save_fit(control.engine, fitted, now) if save else None
    data = fitted.document() | {"id": number}
    report(data, _describe(fitted, scenario.name, number), as_json=as_json)


def _describe(fitted: Fitted, base: str, number: int | None) -> Iterator[str | Table]:
    yield f"{fitted.audits} audits of {fitted.nodes} holdings, starting from the scenario {base}"
    yield table(
        ("parameter", "value>", "95 % interval>"),
        [
            (name, f"{estimate.value:.3g}", f"{estimate.low:.3g} to {estimate.high:.3g}")
            for name, estimate in fitted.parameters.items()
        ],
    )
    yield "all other parameters come from the scenario: a log of audits can't show them"
    yield "not saved" if number is None else f"saved as fit {number}"
