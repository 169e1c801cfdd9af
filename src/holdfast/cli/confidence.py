"""`holdfast confidence`: how much may be damaged or was missed, inferred from the log."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from holdfast.cli import terminal
from holdfast.cli.checked_holding import coverage_facts
from holdfast.cli.control import ControlPlane, open_control
from holdfast.cli.home import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import Json, report, table
from holdfast.control.inference.confidence import Confidences, declared_ceiling
from holdfast.control.inference.refresh_lease import LEASE_SECONDS
from holdfast.control.queries.confidence import (
    ConfidenceReport,
    KnownDamage,
    count_proven,
    list_known_damage,
    read_confidence,
)
from holdfast.control.queries.coverage import Coverage, list_coverage
from holdfast.control.queries.coverage_words import CAVEAT
from holdfast.durations import HOUR
from holdfast.errors import InputError, RefusedError
from holdfast.storage.database import transaction
from holdfast.words import span, when

MAX_ROWS = 50
# `holdfast serve` refreshes figures once per unit of time. It gets this much longer to do it.
REFRESH_TIME = 6 * HOUR
WAIT_SECONDS = LEASE_SECONDS + 5  # for another process to end its refresh
RETRY_SECONDS = 0.5
LINE_SECONDS = 3.0  # between two lines of progress where there is no terminal
REFRESH_HINT = "`holdfast serve` keeps them fresh; `holdfast confidence --fresh` refreshes them now"


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
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Infer everything anew, which takes longer.")
    ] = False,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> int:
    """Estimate undetected damage: exit 1 if damage is known or the ceiling is broken.

    Shows the figures that `holdfast serve` keeps fresh, and as of when they are. If there are none
    yet, they are inferred now. They come from the log with the latest fit, or one made for them.
    Nobody can observe damage that no audit has sampled. Needs no passphrase.

    Where the last audit of a holding failed, that is shown instead of a bound. Storage that a tool
    checks has a bound in its own unit, from what was read lately.

    Example: holdfast confidence
    """
    with open_control(home, read_only=not fresh) as control:
        inferred = None if fresh else _read(control)
        with transaction(control.engine) as connection:
            checked = list_coverage(connection, control.now())
            proven = count_proven(connection)
            known = list_known_damage(connection)
    missing = None
    if inferred is None and (proven or not checked):
        try:
            inferred = _infer(home)
        except InputError as error:
            if not checked and not known:
                raise
            missing = str(error)
    with open_control(home, read_only=True) as control:
        if ceiling is None:
            ceiling = declared_ceiling(control.engine, control.settings)
        now, unit = control.now(), control.settings.rails.unit
    names = holding or ()
    _check_names(names, inferred, checked, known)
    data = _data(inferred, names, ceiling, known) | {
        "stale": inferred is not None and not now - unit - REFRESH_TIME < inferred.fleet.at <= now,
        "checked": [
            {"holding": coverage.holding, "kind": coverage.kind, "unit": coverage.unit}
            | {"units": coverage.units}
            | coverage_facts(coverage, now)
            for coverage in checked
            if not names or coverage.holding in names
        ],
    }
    damaged = data["known_damage"] or any(facts["damaged"] for facts in data["checked"])
    sentences = _describe(data, now) if inferred is not None else _describe_missing(missing)
    shown = [*_describe_known(known, names), *sentences, *_describe_checked(data)]
    report(data, shown, as_json=as_json)
    return 1 if data["broken"] or damaged else 0


def _infer(home: Path) -> ConfidenceReport:
    with open_control(home) as control:
        _refresh(control)
        inferred = _read(control)
    if inferred is None:
        raise RefusedError("the holdings changed while their damage was inferred: try again")
    return inferred


def _read(control: ControlPlane) -> ConfidenceReport | None:
    with transaction(control.engine) as connection:
        return read_confidence(connection)


def _refresh(control: ControlPlane) -> None:
    """Infer everything anew, after another process that is at it."""
    confidences = Confidences(control.engine, control.settings)
    deadline = time.monotonic() + WAIT_SECONDS
    with _progress() as on_progress:
        while not confidences.refresh_all(control.now(), on_progress):
            if time.monotonic() > deadline:
                raise RefusedError("another process is refreshing the figures: try again later")
            time.sleep(RETRY_SECONDS)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show how far a refresh is: a bar on a terminal, else a line every few seconds."""
    last = time.monotonic()
    with terminal.progress_bar("fitting the log", 1, of_bytes=False) as bar:

        def on_progress(done: int, total: int) -> None:
            nonlocal last
            if done:
                bar.describe("inferring damage")
            bar.reach(done / max(total, 1))
            if not sys.stderr.isatty() and time.monotonic() - last > LINE_SECONDS:
                last = time.monotonic()
                typer.echo(f"inferred the damage of {done} of {total} holdings", err=True)

        yield on_progress


def _check_names(
    names: Sequence[str],
    inferred: ConfidenceReport | None,
    checked: Sequence[Coverage],
    damaged: Sequence[KnownDamage],
) -> None:
    """Raise if nothing is known of a holding that was named."""
    known = {coverage.holding for coverage in checked}
    known |= {estimate.holding for estimate in inferred.holdings} if inferred else set()
    for name in {*names} - {damage.holding for damage in damaged}:
        if inferred is not None and name in inferred.waiting:
            raise InputError(f"nothing is inferred of holding {name!r} yet: {REFRESH_HINT}")
        if name not in known:
            raise InputError(f"holding {name!r} is not on the schedule")


def _data(
    inferred: ConfidenceReport | None,
    names: Sequence[str],
    ceiling: float | None,
    known: Sequence[KnownDamage],
) -> dict[str, Any]:
    """Return the figures. What is inferred of a holding that is damaged is no bound on it."""
    damaged = {damage.holding for damage in known}
    facts = {"known_damage": [asdict(damage) for damage in _select_known(known, names)]}
    if inferred is None:
        nothing = ("at", "miss_rate", "detections", "ceiling", "fleet_at_most")
        empty: dict[str, Any] = {"observed": False} | dict.fromkeys(nothing)
        return empty | facts | {"broken": False, "holdings": [], "waiting": []}
    fleet = inferred.fleet
    return facts | {
        "observed": False,
        "at": fleet.at,
        "miss_rate": asdict(fleet.miss_rate),
        "detections": fleet.detections,
        "ceiling": ceiling,
        "broken": ceiling is not None and fleet.miss_rate.low > ceiling,
        "fleet_at_most": None if damaged else fleet.fleet_at_most,
        "holdings": [
            asdict(estimate)
            for estimate in inferred.holdings
            if (not names or estimate.holding in names) and estimate.holding not in damaged
        ],
        "waiting": list(inferred.waiting),
    }


def _select_known(known: Sequence[KnownDamage], names: Sequence[str]) -> list[KnownDamage]:
    return [damage for damage in known if not names or damage.holding in names]


def _describe_known(known: Sequence[KnownDamage], names: Sequence[str]) -> Iterator[str]:
    """Yield what is known to be damaged, before what is only inferred."""
    damages = _select_known(known, names)
    for damage in damages[:MAX_ROWS]:
        yield f"{damage.holding} is {damage.describe()}; see holdfast repair {damage.holding}"
    if len(damages) > MAX_ROWS:
        yield f"and {len(damages) - MAX_ROWS} more holdings are damaged"


def _describe_missing(reason: str | None) -> Iterator[str]:
    if reason is not None:
        yield f"holdings on nodes: {reason}"


def _describe_checked(data: dict[str, Any]) -> Iterator[str]:
    """Yield a bound per holding that a tool checks, each in its own unit."""
    for facts in data["checked"]:
        bound, *rest = facts["sentences"]
        yield f"{facts['holding']} ({facts['kind']}): {bound}"
        for sentence in rest:
            yield f"  {sentence}"
    if data["checked"]:
        yield CAVEAT


def _describe(data: dict[str, Any], now: int) -> Iterator[str | Table]:
    rows, rate, ceiling = data["holdings"], data["miss_rate"], data["ceiling"]
    age = f"{span(now - data['at'])} ago" if data["at"] <= now else "by another clock"
    yield f"as of {when(data['at'])}, {age}"
    if data["stale"]:
        yield f"-> these figures are old: {REFRESH_HINT}"
    yield "inferred from the log, not observed; upper bounds at 95 %:"
    if rows:
        yield table(
            ("holding", "damaged at most>", "probability of any damage>"),
            [
                (row["holding"], f"{row['at_most']:.2%}", f"{row['damaged']:.0%}")
                for row in rows[:MAX_ROWS]
            ],
        )
    if len(rows) > MAX_ROWS:
        yield f"and {len(rows) - MAX_ROWS} more holdings, none worse than the last one above"
    if data["waiting"]:
        count = len(data["waiting"])
        yield f"{count} new {'holding is' if count == 1 else 'holdings are'} not among them yet"
    if data["fleet_at_most"] is not None:
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
