"""Stores cases: the steps that respond to a failed audit, of which one at a time is ready.

A step ends in one transaction with its effect on the schedule and its leaf in the evidence. A
worker that is killed has either finished it or not begun.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, case, insert, or_, select, update

from holdfast.control.evidence.leaves import last_leaf, record_leaf
from holdfast.control.incidents.answered_cases import end_answered_cases
from holdfast.control.incidents.damage_words import FIRST_SIGNS, describe_first_sign
from holdfast.control.incidents.holding_alerts import (
    end_alerts,
    has_open_alert,
    raise_alert,
    raise_damage_alert,
)
from holdfast.control.incidents.repeated_repairs import plan_quarantines
from holdfast.control.incidents.types import (
    OPEN_STATES,
    Kind,
    Progress,
    ResponseRecord,
    State,
    Step,
    Task,
)
from holdfast.control.operator_commands import record_instruction
from holdfast.control.policies.aliases import Author
from holdfast.control.scheduling import schedule
from holdfast.control.scheduling.claims import LeaseLostError
from holdfast.control.scheduling.telemetry import LOSSES, TEACHING
from holdfast.errors import ConflictError
from holdfast.evidence import leaf
from holdfast.evidence.codecs import plain
from holdfast.evidence.escaping import escape_name
from holdfast.evidence.leaf import Outcome
from holdfast.evidence.storage_check import MAX_DAMAGED
from holdfast.owner.losses import FileLoss, describe_losses, encode_losses
from holdfast.storage.database import transaction
from holdfast.storage.home_schema import catalogue, checked_holdings
from holdfast.storage.inference_schema import canaries
from holdfast.storage.schema import NEVER, audits, holdings, responses

MAX_AUDITS_PER_TICK = 100


class Cases:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def open(self, plans: Mapping[Outcome, Sequence[Step]], now: int) -> None:
        """Plan the steps for failed audits; one that fails during a case belongs to that case."""
        query = (
            select(audits)
            .where(audits.c.unanswered)
            .order_by(audits.c.id)
            .limit(MAX_AUDITS_PER_TICK)
        )
        with transaction(self._engine) as connection:
            for audit in connection.execute(query.with_for_update(skip_locked=True)).all():
                self._respond(connection, audit, plans[Outcome(audit.outcome)], now)

    def _respond(self, connection: Connection, audit: Any, plan: Sequence[Step], now: int) -> None:
        holding = select(holdings.c.id).where(holdings.c.id == audit.holding)
        connection.execute(holding.with_for_update())  # so that nobody opens a second case
        _mark_answered(connection, audit.id)
        if _is_canary(connection, audit.holding, now):
            return
        if audit.outcome in FIRST_SIGNS:
            unit = select(checked_holdings.c.unit).where(
                checked_holdings.c.scheduled == audit.holding
            )
            sign = describe_first_sign(audit, connection.execute(unit).scalar() or "unit")
            detail = f"audit {audit.number}: {sign}"
            raise_damage_alert(connection, audit.holding, detail, now, first=True)
        under_way = select(responses.c.id).where(*_of(audit.holding, *OPEN_STATES))
        if plan and not connection.execute(under_way.limit(1)).first():
            row = {"holding": audit.holding, "audit": audit.number, "detail": ""}
            steps = [row | {"step": step, "state": State.PLANNED} for step in plan]
            connection.execute(insert(responses), steps)
            _ready_next(connection, audit.holding, f"audit {audit.number} {audit.outcome}", now)

    def resolve(self, now: int, *, patience: int, pause: int) -> None:
        """Continue the cases whose follow-up has ended: if it passed, the case is over.

        A wrong proof that the node signed proves damage, which the next sample may miss. So does
        a node's own admission. Such a case localises the damage before a follow-up can end it.
        """
        same = (audits.c.holding == responses.c.holding) & (audits.c.number == responses.c.awaits)
        ended = (
            select(responses, audits.c.id.label("ended_audit"), audits.c.outcome)
            .join(audits, same)
            .where(responses.c.state == State.ASKED)
            .limit(MAX_AUDITS_PER_TICK)
            .with_for_update(of=responses, skip_locked=True)
        )
        with transaction(self._engine) as connection:
            end_answered_cases(connection, now)
            for row in connection.execute(ended).all():
                detail = f"audit {row.awaits}, which followed up, ended {row.outcome}"
                _mark_answered(connection, row.ended_audit)
                changes = {"state": State.DONE, "ended": now, "detail": detail}
                if row.outcome == Outcome.PASSED and not _must_localise(connection, row):
                    _drop(connection, row.holding, now)
                    repaired = _was_repaired(connection, row.holding, row.audit)
                    done = "repaired" if repaired else "nothing was repaired"
                    end_alerts(connection, row.holding, f"{done}, audit {row.awaits} passed", now)
                elif row.outcome not in TEACHING and now - row.began < patience:
                    changes = {"state": State.READY, "due": now + pause, "awaits": None}
                connection.execute(_row(row.id).values(changes))
                if changes["state"] is State.DONE:
                    _ready_next(connection, row.holding, detail, now)

    def quarantine_repeated(self, now: int, repairs: int, within: int) -> None:
        """Plan the quarantine of holdings that were repaired too often."""
        plan_quarantines(self._engine, now, repairs=repairs, within=within)

    def claim(self, now: int, lease: int, *, without_nodes: Collection[bytes] = ()) -> Task | None:
        """Take the step that has been ready for longest, of a holding on none of these nodes."""
        token = secrets.randbits(63)
        # A lease that lies too far ahead is from a clock that was set back since.
        free = or_(responses.c.lease <= now, responses.c.lease > now + 2 * lease)
        ready = (
            select(responses.c.id)
            .where(responses.c.state == State.READY, responses.c.due <= now, free)
            .order_by(responses.c.due, responses.c.id)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        if without_nodes:
            theirs = select(catalogue.c.scheduled).where(
                catalogue.c.node.in_(list(without_nodes)), catalogue.c.scheduled.is_not(None)
            )
            ready = ready.where(responses.c.holding.not_in(theirs))
        taken = update(responses).where(responses.c.id.in_(ready.scalar_subquery()))
        with transaction(self._engine) as connection:
            changed = taken.values(lease=now + lease, token=token).returning(responses)
            row = connection.execute(changed).first()
            if row is None:
                return None
            place = holdings.outerjoin(catalogue, catalogue.c.scheduled == holdings.c.id)
            query = select(holdings.c.name, holdings.c.checked, catalogue.c.node).select_from(place)
            query = query.where(holdings.c.id == row.holding)
            name, checked, node = connection.execute(query).one()
        step = Step(row.step)
        common = (row.holding, name, row.audit, step, row.detail, row.began, row.progress)
        return Task(row.id, token, *common, checked, None if node is None else bytes(node))

    def is_answering(self, task: Task) -> bool:
        """Return whether the audit of the case only got no answer, and the newest has passed."""
        first = select(audits.c.outcome).where(
            audits.c.holding == task.holding, audits.c.number == task.audit
        )
        newest = select(holdings.c.outcome).where(
            holdings.c.id == task.holding, holdings.c.number > task.audit
        )
        with transaction(self._engine) as connection:
            outcomes = [connection.execute(query).scalar() for query in (first, newest)]
        return outcomes == [Outcome.TIMED_OUT, Outcome.PASSED]

    def extend(self, task: Task, until: int) -> None:
        """Keep a step that takes long; raise if its lease was lost."""
        with transaction(self._engine) as connection:
            _update_ours(connection, task, {"lease": until})

    def give_up(self, task: Task) -> None:
        """Let others take a step at once, with what is saved of it."""
        with transaction(self._engine) as connection:
            _update_ours(connection, task, {"lease": 0, "token": 0})

    def put_back(
        self, task: Task, due: int, state: bytes | None, progress: Progress | None = None
    ) -> None:
        """Leave the rest of a step for later, with what the next attempt needs to know."""
        changes = {"due": due, "progress": state, "lease": 0, **_counts(progress, due)}
        with transaction(self._engine) as connection:
            _update_ours(connection, task, changes)

    def finish(
        self,
        task: Task,
        recorded: Sequence[ResponseRecord],
        detail: str,
        now: int,
        *,
        drop: Collection[Step] = (),
        hand_on: bytes | None = None,
        damaged: int | None = None,
        losses: Sequence[FileLoss] = (),
        damages: Sequence[FileLoss] = (),
        note: str = "",
        progress: Progress | None = None,
    ) -> None:
        """End a step, drop planned steps that have become pointless, and ready the next one.

        `hand_on` is the state with which a repair begins. `damaged` is how many damaged blocks
        the audit of the case met. The names of files in `losses`, `damages` and `note` come into
        alerts, and stay out of the evidence, which others read.
        """
        with transaction(self._engine) as connection:
            if damaged is not None:
                failed = (audits.c.holding == task.holding, audits.c.number == task.audit)
                connection.execute(update(audits).where(*failed).values(found=damaged))
            for response in recorded:
                _record(connection, task, response, now)
                if response.step in _DAMAGE and (response.blocks or response.units):
                    named = losses if response.step is leaf.Step.LOST else damages
                    parts = [response.detail, describe_losses(named), note]
                    what = ": ".join(filter(None, parts))
                    raise_damage_alert(connection, task.holding, what, now)
            if hand_on is not None:
                repairs = (*_of(task.holding, State.PLANNED), responses.c.step == Step.REPAIR)
                handed = {"progress": hand_on, "total": damaged or 0}
                connection.execute(update(responses).where(*repairs).values(handed))
            changes = _counts(progress, now)
            if losses:
                changes["losses"] = encode_losses(losses)
            if changes:
                _update_ours(connection, task, changes)
            _end(connection, task, State.DONE if recorded else State.DROPPED, detail, now, drop)

    def follow_up(self, task: Task, now: int, *, due: int, interval: int, ratio: float) -> bool:
        """Put an audit on the schedule; return False if the holding is being audited just now."""
        with transaction(self._engine) as connection:
            number = schedule.schedule_follow_up(
                connection, task.holding, now, due=due, interval=interval, ratio=ratio
            )
            if number is None:
                return False
            following = "the damaged ones" if task.checked else f"{ratio:.2f} of the blocks"
            detail = f"{task.detail}; {following} are next"
            _record(connection, task, ResponseRecord(leaf.Step.FOLLOW_UP, detail), now)
            _update_ours(connection, task, {"state": State.ASKED, "awaits": number, "lease": 0})
        return True

    def quarantine(self, task: Task, now: int) -> bool:
        """Take the holding off the schedule; return False if it is being audited just now."""
        with transaction(self._engine) as connection:
            if not schedule.quarantine(connection, task.holding, now):
                return False
            _record(connection, task, ResponseRecord(leaf.Step.QUARANTINED, task.detail), now)
            _end(connection, task, State.DONE, task.detail, now)
        return True

    def alert(self, task: Task, now: int) -> None:
        """Raise an alert, together with its leaf, unless there is an open one."""
        with transaction(self._engine) as connection:
            query = select(holdings.c.quarantined).where(holdings.c.id == task.holding)
            kind = Kind.QUARANTINED if connection.execute(query).scalar_one() else Kind.FAILED
            if not has_open_alert(connection, task.name, kind):
                raise_alert(connection, task.name, kind, task.detail, now)
            _record(connection, task, ResponseRecord(leaf.Step.ALERTED, task.detail), now)
            _end(connection, task, State.DONE, task.detail, now)


def release(engine: Engine, name: str, author: Author) -> None:
    """Bring a holding back to the schedule, to be audited at once, and end alerts about it."""
    with transaction(engine) as connection:
        row = schedule.lock_holding(connection, name)
        if not row.quarantined and not has_open_alert(connection, name, *Kind):
            raise ConflictError(
                f"holding {name!r} is not quarantined, and no alert is open about it"
            )
        schedule.request_audit(connection, row, author.at)
        _drop(connection, row.id, author.at)
        end_alerts(connection, row.id, f"{author.by} released the holding", author.at)
        detail = f"{author.by} brought it back to the schedule"
        response = ResponseRecord(leaf.Step.RELEASED, detail)
        record_response(connection, row.id, row.number, response, author.at)
        record_instruction(connection, leaf.Order.RELEASE, name, author)


def drop_cases(connection: Connection, holding: int, now: int) -> None:
    """End what is under way for a holding that is removed."""
    open_steps = update(responses).where(*_of(holding, *OPEN_STATES))
    changes = {"state": State.DROPPED, "ended": now, "token": 0, "lease": 0}
    connection.execute(open_steps.values(changes))
    answered = update(audits).where(audits.c.holding == holding, audits.c.unanswered)
    connection.execute(answered.values(unanswered=False))
    lifted = update(canaries).where(canaries.c.holding == holding, canaries.c.lifted == NEVER)
    connection.execute(lifted.values(lifted=now))


_DAMAGE = (leaf.Step.LOCALISED, leaf.Step.LOST)  # with blocks


def _of(holding: int, *states: State) -> tuple[Any, ...]:
    return responses.c.holding == holding, responses.c.state.in_(states)


def _counts(progress: Progress | None, now: int) -> dict[str, Any]:
    if progress is None:
        return {}
    return {"done": progress.done, "total": progress.total, "progressed": now}


def _row(id_: int) -> Any:
    return update(responses).where(responses.c.id == id_)


def _update_ours(connection: Connection, task: Task, changes: Mapping[str, Any]) -> None:
    """Change the row of a step whose lease is ours; undo everything if it was lost."""
    query = _row(task.id).where(responses.c.token == task.token).values(**changes)
    if connection.execute(query).rowcount != 1:
        raise LeaseLostError


def _end(
    connection: Connection,
    task: Task,
    state: State,
    detail: str,
    now: int,
    drop: Collection[Step] = (),
) -> None:
    _update_ours(connection, task, {"state": state, "detail": detail, "ended": now, "lease": 0})
    _drop(connection, task.holding, now, drop)
    _ready_next(connection, task.holding, detail, now)


def _ready_next(connection: Connection, holding: int, detail: str, now: int) -> None:
    """Make the next planned step ready, if there is one."""
    planned = select(responses.c.id).where(*_of(holding, State.PLANNED))
    following = connection.execute(planned.order_by(responses.c.id).limit(1)).scalar()
    if following is not None:
        ready = {"state": State.READY, "due": now, "began": now, "detail": detail}
        connection.execute(_row(following).values(ready))


def _drop(
    connection: Connection, holding: int, now: int, steps: Collection[Step] = tuple(Step)
) -> None:
    pending = (*_of(holding, State.PLANNED, State.READY), responses.c.step.in_(steps))
    changes = {"state": State.DROPPED, "ended": now, "token": 0}
    connection.execute(update(responses).where(*pending).values(changes))


def _mark_answered(connection: Connection, audit: int) -> None:
    connection.execute(update(audits).where(audits.c.id == audit).values(unanswered=False))


def _is_canary(connection: Connection, holding: int, now: int) -> bool:
    """Return whether the owner planted the damage; note when an audit met it first."""
    planted = (canaries.c.holding == holding, canaries.c.lifted == NEVER)
    first = case((canaries.c.found == NEVER, now), else_=canaries.c.found)
    return connection.execute(update(canaries).where(*planted).values(found=first)).rowcount > 0


def _must_localise(connection: Connection, row: Any) -> bool:
    """Return whether proven damage has not been localised in this case, and a step is to."""
    opening = (audits.c.holding == row.holding, audits.c.number == row.audit)
    by_proof = audits.c.report.is_(None)  # after a check, exactly what was damaged is looked at
    proven = select(audits.c.id).where(*opening, by_proof, audits.c.outcome.in_(LOSSES))
    localise = (responses.c.audit == row.audit, responses.c.step == Step.LOCALISE)
    planned = select(responses.c.id).where(*_of(row.holding, State.PLANNED), *localise)
    done = select(responses.c.id).where(*_of(row.holding, State.DONE), *localise)
    query = select(proven.exists() & planned.exists() & ~done.exists())
    return bool(connection.execute(query).scalar())


def _was_repaired(connection: Connection, holding: int, audit: int) -> bool:
    """Return whether blocks were repaired in the case that this audit opened."""
    case_of = (responses.c.holding == holding, responses.c.audit == audit)
    done = (responses.c.step == Step.REPAIR, responses.c.state == State.DONE)
    query = select(responses.c.id).where(*case_of, *done).limit(1)
    return connection.execute(query).first() is not None


def _record(connection: Connection, task: Task, response: ResponseRecord, now: int) -> None:
    record_response(connection, task.holding, task.audit, response, now)


def record_response(
    connection: Connection, holding: int, audit: int, response: ResponseRecord, now: int
) -> None:
    """Record a step in the evidence, under the identity that the holding's last leaf has."""
    before = last_leaf(connection, holding)
    at = max(now, before.at)  # a clock that was set back does not undo the order of events
    step, detail = response.step, plain(response.detail)
    entry: leaf.Leaf
    if isinstance(before.holding, leaf.CheckedHolding):
        units = tuple(map(escape_name, response.units[:MAX_DAMAGED]))
        entry = leaf.CheckResponse(at, before.holding, audit, step, units, detail)
    else:
        entry = leaf.Response(at, before.holding, audit, step, response.blocks, detail)
    record_leaf(connection, entry, holding)
