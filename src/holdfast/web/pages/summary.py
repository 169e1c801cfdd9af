"""The fleet's state in one sentence, and the cases that are under way, as pages show them."""

from collections.abc import Sequence

from sqlalchemy import Connection

from holdfast.control.incidents.types import State, Step
from holdfast.control.queries.fleet import UNHEALTHY, FleetFigures, Health
from holdfast.control.queries.incidents import CaseUnderWay, list_cases_under_way
from holdfast.words import plural

MAX_CASES = 20  # that a page lists
_PHASES = {
    Step.FOLLOW_UP: "a follow-up audit is about to be scheduled",
    Step.LOCALISE: "the damage is being localised",
    Step.REPAIR: "damaged blocks are being repaired",
    Step.QUARANTINE: "it is being taken off the schedule",
    Step.ALERT: "an alert is being raised",
}


def phase(case: CaseUnderWay) -> str:
    """Return what is being done in a case."""
    if case.state is State.ASKED:
        return "a follow-up audit is on the schedule"
    return _PHASES[case.step]


def cases_under_way(
    connection: Connection, holding: int | None = None
) -> list[tuple[CaseUnderWay, str]]:
    """Return the oldest cases that are not over, each with what is being done."""
    cases = list_cases_under_way(connection, holding=holding, limit=MAX_CASES)
    return [(case, phase(case)) for case in cases]


def headline(fleet: FleetFigures) -> str:
    """Return a sentence on the fleet's health, and one on what is under way."""
    total = fleet.holdings
    unhealthy = sum(fleet.health[state] for state in UNHEALTHY)
    open_ = [plural(fleet.cases, "case") + " under way"] if fleet.cases else []
    open_ += [plural(fleet.alerts, "open alert")] if fleet.alerts else []
    if unhealthy:
        parts = [f"{fleet.health[state]:,} {state}" for state in UNHEALTHY if fleet.health[state]]
        verb = "needs" if unhealthy == 1 else "need"
        health = f"{unhealthy:,} of {plural(total, 'holding')} {verb} a look: {_and(parts)}."
        return f"{health} There {_are(fleet)} {_and(open_)}." if open_ else health
    if open_:
        return f"{plural(total, 'holding')}, {_and(open_)}."
    if not total:
        return "No holding is on the schedule yet."
    if fleet.health[Health.NEW]:
        await_ = "awaits" if fleet.health[Health.NEW] == 1 else "await"
        new = f"{fleet.health[Health.NEW]:,} of {plural(total, 'holding')}"
        return f"{new} {await_} a first audit."
    return "The one holding is sound." if total == 1 else f"All {total:,} holdings are sound."


def _are(fleet: FleetFigures) -> str:
    return "is" if (fleet.cases or fleet.alerts) == 1 else "are"


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
