"""Ends cases after time-outs whose holding has given a proof since, before their follow-up."""

from sqlalchemy import Connection, select, update

from holdfast.control.incidents.holding_alerts import end_alerts
from holdfast.control.incidents.types import OPEN_STATES, State, Step
from holdfast.evidence.leaf import Outcome
from holdfast.storage.schema import audits, holdings, responses


def end_answered_cases(connection: Connection, now: int) -> None:
    """End the cases that wait to follow up a time-out, if a later audit has passed."""
    opening = (audits.c.holding == responses.c.holding) & (audits.c.number == responses.c.audit)
    later = (holdings.c.number > responses.c.audit) & (holdings.c.outcome == Outcome.PASSED)
    waiting = (
        select(responses.c.holding, holdings.c.number)
        .join(audits, opening)
        .join(holdings, holdings.c.id == responses.c.holding)
        .where(responses.c.state == State.READY, responses.c.step == Step.FOLLOW_UP, later)
        .where(audits.c.outcome == Outcome.TIMED_OUT)
    )
    for row in connection.execute(waiting.with_for_update(of=responses, skip_locked=True)).all():
        _end(connection, row.holding, row.number, now)


def _end(connection: Connection, holding: int, number: int, now: int) -> None:
    steps = update(responses).where(responses.c.holding == holding)
    changes = {"state": State.DROPPED, "ended": now, "token": 0, "lease": 0}
    connection.execute(steps.where(responses.c.state.in_(OPEN_STATES)).values(changes))
    end_alerts(connection, holding, f"nothing was repaired, audit {number} passed", now)
