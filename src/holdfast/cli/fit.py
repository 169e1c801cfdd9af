"""`holdfast policy fit`: what the log of audits says about the fleet."""

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import Json, say

if TYPE_CHECKING:
    from holdfast.inference.fit import Fitted


def fit(
    save: Annotated[
        bool, typer.Option("--save/--dry-run", help="Whether to keep it for what builds on it.")
    ] = True,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Fit the scenario to the logged audits by maximum likelihood, with 95 % intervals.

    Reads the control plane's database while the service goes on. Needs no passphrase.

    Example: holdfast policy fit --dry-run
    """
    from holdfast.control.inference.audit_log import read_log  # noqa: PLC0415
    from holdfast.control.inference.fits import save_fit  # noqa: PLC0415
    from holdfast.control.service import milliseconds  # noqa: PLC0415
    from holdfast.control.settings.models import read_control  # noqa: PLC0415
    from holdfast.inference import fit as inference  # noqa: PLC0415
    from holdfast.owner import check_home  # noqa: PLC0415
    from holdfast.storage.database import opened  # noqa: PLC0415 - as in other commands

    folder = home.expanduser()
    check_home(folder)
    settings = read_control(folder)
    now = milliseconds()
    with opened(settings.address(folder), read_only=not save) as engine:
        log = read_log(engine, settings.rails.unit, now)
        fitted = inference.fit(log, settings.scenario)
        number = save_fit(engine, fitted, now) if save else None
    if as_json:
        terminal.print_json(fitted.document() | {"id": number})
        return
    _tell(fitted, settings.scenario.name)
    say("nothing was kept" if number is None else f"kept as fit {number}")


def _tell(fitted: "Fitted", base: str) -> None:
    say(f"{fitted.audits} audits of {fitted.nodes} holdings, beginning from the scenario {base}")
    for name, told in fitted.parameters.items():
        say(f"  {name}: {told.value:.3g}, at 95 % between {told.low:.3g} and {told.high:.3g}")
    say("all other parameters are the scenario's: such a log can't tell them")
