"""`holdfast confidence`: how much may be damaged, and how much was missed, though nobody saw it."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder
from holdfast.cli.server import server_of, worked_out
from holdfast.cli.terminal import Json, say
from holdfast.errors import InputError

if TYPE_CHECKING:
    from holdfast.control.inference.confidence import ConfidenceReport
    from holdfast.control.settings.models import ControlSettings

SHOWN = 50


def confidence(
    holding: Annotated[
        list[str] | None, typer.Argument(help="Holdings to show; the worst if none is named.")
    ] = None,
    ceiling: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="The ceiling on the miss rate; else of [control.promotion], or the champion's.",
            show_default=False,
        ),
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> int:
    """Say how much of each holding may be damaged now; exit 1 if the ceiling is surely broken.

    These figures are inferred from the log by the latest fit, or by one made now: nobody observes
    damage that no audit has met. The running server works them out, if there is one. Needs no
    passphrase.

    Example: holdfast confidence
    """
    from holdfast.control.settings.models import read_control  # noqa: PLC0415 - as in other commands
    from holdfast.owner import check_home  # noqa: PLC0415

    folder = home.expanduser()
    check_home(folder)
    said = _asked(folder) or _worked_out(folder, read_control(folder))
    known = {each.holding for each in said.holdings}
    for name in holding or ():
        if name not in known:
            raise InputError(f"holding {name!r} is not on the schedule")
    rows = [asdict(each) for each in said.holdings if not holding or each.holding in holding]
    ceiling = said.ceiling if ceiling is None else ceiling
    broken = ceiling is not None and said.miss_rate.low > ceiling
    if as_json:
        terminal.print_json(
            {
                "observed": False,
                "miss_rate": asdict(said.miss_rate),
                "detections": said.detections,
                "ceiling": ceiling,
                "broken": broken,
                "fleet_at_most": said.fleet_at_most,
                "holdings": rows,
            }
        )
    else:
        _tell(said, rows, ceiling)
    return 1 if broken else 0


def _asked(folder: Path) -> "ConfidenceReport | None":
    """Return what the running server works out, if there is one."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - as above

    from holdfast.control.inference.confidence import ConfidenceReport  # noqa: PLC0415

    server = server_of(folder)
    found = None if server is None else worked_out(server, "confidence", "confidence")
    return None if found is None else TypeAdapter(ConfidenceReport).validate_python(found)


def _worked_out(folder: Path, settings: "ControlSettings") -> "ConfidenceReport":
    from holdfast.control.inference.confidence import say_now  # noqa: PLC0415 - as above
    from holdfast.control.service import milliseconds  # noqa: PLC0415
    from holdfast.storage.database import opened  # noqa: PLC0415

    with opened(settings.address(folder), read_only=True) as engine:
        return say_now(engine, settings, milliseconds())


def _tell(said: "ConfidenceReport", rows: list[dict[str, Any]], ceiling: float | None) -> None:
    say("inferred from the log, not observed; as of now, at 95 %:")
    for row in rows[:SHOWN]:
        chance = f"any at all with probability {row['damaged']:.0%}"
        say(f"  {row['holding']}: at most {row['at_most']:.2%} damaged, {chance}")
    if len(rows) > SHOWN:
        say(f"  and {len(rows) - SHOWN} holdings more, each with no more than the last of these")
    say(f"all holdings together: at most {said.fleet_at_most:.2%} damaged")
    rate = said.miss_rate
    rated = f"{rate.value:.1%}, between {rate.low:.1%} and {rate.high:.1%}"
    if ceiling is None:
        verdict = "no ceiling is declared"
    else:
        where = "inside" if rate.high <= ceiling else "above" if rate.low > ceiling else "around"
        verdict = f"{where} the ceiling of {ceiling:.1%}"
    say(f"miss rate of the whole log: {rated}: {verdict}")
