"""`holdfast confidence`: how much may be damaged, and how much was missed, though nobody saw it."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import Json, say
from holdfast.errors import InputError

if TYPE_CHECKING:
    from holdfast.inference.confidence import Confidence

SHOWN = 50


def confidence(
    holding: Annotated[
        list[str] | None, typer.Argument(help="Holdings to show; the worst if none is named.")
    ] = None,
    ceiling: Annotated[
        float, typer.Option(min=0, max=1, help="The declared ceiling on the miss rate.")
    ] = 0.05,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> int:
    """Say how much of each holding may be damaged now; exit 1 if the ceiling is surely broken.

    These figures are inferred from the log by the latest fit, or by one made now: nobody observes
    damage that no audit has met. Needs no passphrase.

    Example: holdfast confidence --ceiling 0.05
    """
    from holdfast.control.canaries import read_trials  # noqa: PLC0415 - as in other commands
    from holdfast.control.database import opened  # noqa: PLC0415
    from holdfast.control.episodes import read_episodes  # noqa: PLC0415
    from holdfast.control.fits import latest_fit  # noqa: PLC0415
    from holdfast.control.service import milliseconds  # noqa: PLC0415
    from holdfast.control.settings import read_control  # noqa: PLC0415
    from holdfast.inference import confidence as inference  # noqa: PLC0415
    from holdfast.inference.efficacy import efficacy  # noqa: PLC0415
    from holdfast.inference.fit import fit  # noqa: PLC0415
    from holdfast.owner import check_home  # noqa: PLC0415

    folder = home.expanduser()
    check_home(folder)
    settings = read_control(folder)
    with opened(settings.address(folder), read_only=True) as engine:
        known = read_episodes(engine, settings.rails.unit, milliseconds())
        fitted, works = latest_fit(engine), efficacy(read_trials(engine))
    for name in holding or ():
        if name not in known.names:
            raise InputError(f"holding {name!r} is not on the schedule")
    fitted = fitted or fit(known.log, settings.scenario)
    told = inference.confidence(known.log, fitted, works=works)
    rows = [
        {"holding": known.names[at], "at_most": float(told.at_most[at])}
        | {"damaged": float(told.damaged[at])}
        for at in (-told.at_most).argsort(kind="stable").tolist()
        if not holding or known.names[at] in holding
    ]
    broken = told.miss_rate.low > ceiling
    if as_json:
        terminal.print_json(
            {
                "observed": False,
                "miss_rate": asdict(told.miss_rate),
                "detections": told.detections,
                "ceiling": ceiling,
                "broken": broken,
                "fleet_at_most": told.fleet_at_most,
                "holdings": rows,
            }
        )
    else:
        _tell(told, rows, ceiling)
    return 1 if broken else 0


def _tell(told: "Confidence", rows: list[dict[str, Any]], ceiling: float) -> None:
    say("inferred from the log, not observed; as of now, at 95 %:")
    for row in rows[:SHOWN]:
        chance = f"any at all with probability {row['damaged']:.0%}"
        say(f"  {row['holding']}: at most {row['at_most']:.2%} damaged, {chance}")
    if len(rows) > SHOWN:
        say(f"  and {len(rows) - SHOWN} holdings more, each with no more than the last of these")
    say(f"all holdings together: at most {told.fleet_at_most:.2%} damaged")
    rate = told.miss_rate
    verdict = "inside" if rate.high <= ceiling else "above" if rate.low > ceiling else "around"
    say(
        f"miss rate of the whole log: {rate.value:.1%}, between {rate.low:.1%} and {rate.high:.1%}:"
        f" {verdict} the ceiling of {ceiling:.1%}"
    )
