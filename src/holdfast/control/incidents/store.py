"""Cases: what failed audits lead to, as durable steps of which one at a time is ready.

A step ends in one transaction with its effect on the schedule and its leaf in the evidence, so a
worker that is killed has taken it or has not.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, case, insert, literal, or_, select, update

from holdfast.control.incidents.types import Kind, ResponseRecord, State, Step, Task
from holdfast.control.operator_commands import record_instruction
from holdfast.control.policies.aliases import Author
from holdfast.control.scheduling.guardrails import Override
from holdfast.control.scheduling.schedule import LeaseLostError
from holdfast.control.scheduling.telemetry import TEACHING, Outcome
from holdfast.errors import ConflictError, NotFoundError, StorageError
from holdfast.evidence import leaf
from holdfast.evidence.codecs import plain
from holdfast.storage.database import transaction
from holdfast.storage.schema import (
    NEVER,
    alerts,
    audits,
    canaries,
    holdings,
    leaves,
    responses,
)

MOST_AT_ONCE = 100


class Cases:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def open(self, plans: Mapping[Outcome, Sequence[Step]], now: int) -> None:
        """Plan the steps for audits that failed; one that fails during a case belongs to it."""
        query = select(audits).where(audits.c.unanswered).order_by(audits.c.id).limit(MOST_AT_ONCE)
        with transaction(self._engine) as connection:
            for audit in connection.execute(query.with_for_update(skip_locked=True)).all():
                self._answer(connection, audit, plans[Outcome(audit.outcome)], now)

    def _answer(self, connection: Connection, audit: Any, plan: Sequence[Step], now: int) -> None:
        whose = select(holdings.c.id).where(holdings.c.id == audit.holding)
        connection.execute(whose.with_for_update())  # so that nobody opens a second case
        if _expected(connection, audit.holding, now):
            _answered(connection, audit.id)
            return
        if audit.outcome == Outcome.FAILED:
            signed = f"audit {audit.number} failed by a wrong proof that the node signed"
            _alert_damage(connection, audit.holding, signed, now, first=True)
        under_way = select(responses.c.id).where(*_of(audit.holding, *OPEN_STATES))
        if plan and not connection.execute(under_way.limit(1)).first():
            row = {"holding": audit.holding, "audit": audit.number, "detail": ""}
            steps = [row | {"step": step, "state": State.PLANNED} for step in plan]
            connection.execute(insert(responses), steps)
            _promote(connection, audit.holding, f"audit {audit.number} {audit.outcome}", now)
        _answered(connection, audit.id)

    def resolve(self, now: int, *, patience: int, pause: int) -> None:
        """Go on with cases whose follow-up has ended: if it passed, the case is over.

        A wrong proof that the node signed is proof of damage, which a sample may miss the next
        time: such a case goes on to localise the damage before a follow-up can end it.
        """
        same = (audits.c.holding == responses.c.holding) & (audits.c.number == responses.c.awaits)
        ended = (
            select(responses, audits.c.id.label("ended_audit"), audits.c.outcome)
            .join(audits, same)
            .where(responses.c.state == State.ASKED)
            .limit(MOST_AT_ONCE)
            .with_for_update(of=responses, skip_locked=True)
        )
        with transaction(self._engine) as connection:
            for row in connection.execute(ended).all():
                detail = f"audit {row.awaits}, which followed up, ended {row.outcome}"
                _answered(connection, row.ended_audit)
                over = {"state": State.DONE, "ended": now, "detail": detail}
                if row.outcome == Outcome.PASSED and not _unlocated(connection, row):
                    _drop(connection, row.holding, now)
                    repaired = _repaired(connection, row.holding, row.audit)
                    how = "repaired" if repaired else "nothing was repaired"
                    _calm(connection, row.holding, f"{how}, audit {row.awaits} passed", now)
                elif row.outcome not in TEACHING and now - row.began < patience:
                    over = {"state": State.READY, "due": now + pause, "awaits": None}
                connection.execute(_row(row.id).values(over))
                if over["state"] is State.DONE:
                    _promote(connection, row.holding, detail, now)

    def claim(self, now: int, lease: int) -> Task | None:
        """Take the step that has been ready for longest."""
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
        taken = update(responses).where(responses.c.id.in_(ready.scalar_subquery()))
        with transaction(self._engine) as connection:
            changed = taken.values(lease=now + lease, token=token).returning(responses)
            row = connection.execute(changed).first()
            if row is None:
                return None
            whose = select(holdings.c.name).where(holdings.c.id == row.holding)
            name = connection.execute(whose).scalar_one()
        step = Step(row.step)
        common = (row.holding, name, row.audit, step, row.detail, row.began, row.progress)
        return Task(row.id, token, *common)

    def put_back(self, task: Task, due: int, progress: bytes | None) -> None:
        """Leave the rest of a step for later."""
        with transaction(self._engine) as connection:
            _ours(connection, task, {"due": due, "progress": progress, "lease": 0})

    def done(
        self,
        task: Task,
        told: Sequence[ResponseRecord],
        detail: str,
        now: int,
        *,
        drop: Collection[Step] = (),
        hand_on: bytes | None = None,
        found: int | None = None,
    ) -> None:
        """End a step, drop planned ones that have no point any more, and go on to the next.

        What is handed on is the progress with which a repair begins; what was found are the
        damaged blocks that the audit of the case met.
        """
        with transaction(self._engine) as connection:
            if found is not None:
                failed = (audits.c.holding == task.holding, audits.c.number == task.audit)
                connection.execute(update(audits).where(*failed).values(found=found))
            for each in told:
                _record(connection, task, each, now)
                if each.step in _DAMAGE and each.blocks:
                    _alert_damage(connection, task.holding, each.detail, now)
            if hand_on is not None:
                repairs = (*_of(task.holding, State.PLANNED), responses.c.step == Step.REPAIR)
                connection.execute(update(responses).where(*repairs).values(progress=hand_on))
            _end(connection, task, State.DONE if told else State.DROPPED, detail, now, drop)

    def follow_up(self, task: Task, now: int, *, due: int, interval: int, ratio: float) -> bool:
        """Put an audit on the schedule; return False if the holding is being audited just now."""
        decided = holdings.c.decided
        changes = {
            "due": case((decided > due, decided), else_=due),  # whatever became of the clock
            "interval": interval,
            "ratio": ratio,
            "overrides": int(Override.FOLLOW_UP),
        }
        with transaction(self._engine) as connection:
            number = _idle(connection, task.holding, now, changes)
            if number is None:
                return False
            told = ResponseRecord(
                leaf.Step.FOLLOW_UP, f"{task.detail}; {ratio:.2f} of the blocks are next"
            )
            _record(connection, task, told, now)
            asked = {"state": State.ASKED, "awaits": number + 1, "lease": 0}
            _ours(connection, task, asked)
        return True

    def quarantine(self, task: Task, now: int) -> bool:
        """Take the holding off the schedule; return False if it is being audited just now."""
        with transaction(self._engine) as connection:
            if _idle(connection, task.holding, now, {"due": NEVER, "quarantined": True}) is None:
                return False
            _record(connection, task, ResponseRecord(leaf.Step.QUARANTINED, task.detail), now)
            _end(connection, task, State.DONE, task.detail, now)
        return True

    def alert(self, task: Task, now: int) -> None:
        """Raise an alert, together with its leaf, unless there is an open one."""
        with transaction(self._engine) as connection:
            apart = select(holdings.c.quarantined).where(holdings.c.id == task.holding)
            kind = Kind.QUARANTINED if connection.execute(apart).scalar_one() else Kind.FAILED
            detail, moments = plain(task.detail), {"raised": now, "seen": now}
            row = {"kind": kind, "subject": task.name, "detail": detail, **moments}
            if not connection.execute(select(alerts.c.id).where(*_raised(task.name, kind))).first():
                connection.execute(insert(alerts), [row])
            _record(connection, task, ResponseRecord(leaf.Step.ALERTED, task.detail), now)
            _end(connection, task, State.DONE, task.detail, now)


def release(engine: Engine, name: str, author: Author) -> None:
    """Bring a holding back to the schedule, to be audited at once, and end alerts about it."""
    with transaction(engine) as connection:
        query = select(holdings).where(holdings.c.name == name).with_for_update()
        row = connection.execute(query).first()
        if row is None:
            raise NotFoundError(f"holding {name!r} is not on the schedule")
        alerting = select(alerts.c.id).where(*_raised(name, *Kind)).limit(1)
        if not row.quarantined and not connection.execute(alerting).first():
            raise ConflictError(
                f"holding {name!r} is not quarantined, and no alert is open about it"
            )
        asked = row.overrides | Override.ASKED
        back = {"quarantined": False, "due": max(author.at, row.decided), "overrides": int(asked)}
        connection.execute(update(holdings).where(holdings.c.id == row.id).values(back))
        _drop(connection, row.id, author.at)
        _calm(connection, row.id, f"{author.by} released the holding", author.at)
        told = ResponseRecord(leaf.Step.RELEASED, f"{author.by} brought it back to the schedule")
        record(connection, row.id, row.number, told, author.at)
        record_instruction(connection, leaf.Order.RELEASE, name, author)


OPEN_STATES = (State.PLANNED, State.READY, State.ASKED)
_DAMAGE = (leaf.Step.LOCALISED, leaf.Step.LOST)  # with blocks


def _of(holding: int, *states: State) -> tuple[Any, ...]:
    return responses.c.holding == holding, responses.c.state.in_(states)


def _row(id_: int) -> Any:
    return update(responses).where(responses.c.id == id_)


def _ours(connection: Connection, task: Task, changes: Mapping[str, Any]) -> None:
    """Change the row of a step that is still ours; undo everything if it is another's by now."""
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
    _ours(connection, task, {"state": state, "detail": detail, "ended": now, "lease": 0})
    _drop(connection, task.holding, now, drop)
    _promote(connection, task.holding, detail, now)


def _promote(connection: Connection, holding: int, detail: str, now: int) -> None:
    """Make the next planned step ready, if there is one."""
    planned = select(responses.c.id).where(*_of(holding, State.PLANNED))
    following = connection.execute(planned.order_by(responses.c.id).limit(1)).scalar()
    if following is not None:
        ready = {"state": State.READY, "due": now, "began": now, "detail": detail}
        connection.execute(_row(following).values(ready))


def _drop(
    connection: Connection, holding: int, now: int, steps: Collection[Step] = tuple(Step)
) -> None:
    which = (*_of(holding, State.PLANNED, State.READY), responses.c.step.in_(steps))
    gone = {"state": State.DROPPED, "ended": now, "token": 0}
    connection.execute(update(responses).where(*which).values(gone))


def _answered(connection: Connection, audit: int) -> None:
    connection.execute(update(audits).where(audits.c.id == audit).values(unanswered=False))


def _expected(connection: Connection, holding: int, now: int) -> bool:
    """Return whether the damage is the owner's own; note when it was found first."""
    planted = (canaries.c.holding == holding, canaries.c.lifted == NEVER)
    found = case((canaries.c.found == NEVER, now), else_=canaries.c.found)
    return connection.execute(update(canaries).where(*planted).values(found=found)).rowcount > 0


def _idle(connection: Connection, holding: int, now: int, changes: Mapping[str, Any]) -> int | None:
    """Change a holding that nobody audits; return the number of its last audit."""
    idle = (holdings.c.id == holding, holdings.c.lease <= now, holdings.c.flight.is_(None))
    changed = update(holdings).where(*idle).values(**changes).returning(holdings.c.number)
    number: int | None = connection.execute(changed).scalar()
    return number


def _raised(name: str, *kinds: Kind) -> tuple[Any, ...]:
    return alerts.c.subject == name, alerts.c.kind.in_(kinds), alerts.c.ended == NEVER


def _alert_damage(
    connection: Connection, holding: int, what: str, now: int, *, first: bool = False
) -> None:
    """Raise an alert that a holding is damaged, or say in the open one what is known now.

    An audit that fails is the first sign: it adds nothing to what an open alert says.
    """
    name, node = _name(connection, holding), _last_leaf(connection, holding).holding.node
    detail = plain(f"{what}; node 0x{node.hex()}")
    newer = {"seen": now} if first else {"seen": now, "detail": detail, "changed": True}
    still = update(alerts).where(*_raised(name, Kind.DAMAGED)).values(newer)
    if not connection.execute(still).rowcount:
        moments = {"raised": now, "seen": now}
        row = {"kind": Kind.DAMAGED, "subject": name, "detail": detail, **moments}
        connection.execute(insert(alerts), [row])


def _unlocated(connection: Connection, row: Any) -> bool:
    """Return whether a proven damage is still to be localised in this case, for the first time."""
    opening = (audits.c.holding == row.holding, audits.c.number == row.audit)
    proven = select(audits.c.id).where(*opening, audits.c.outcome == Outcome.FAILED)
    localise = (responses.c.audit == row.audit, responses.c.step == Step.LOCALISE)
    planned = select(responses.c.id).where(*_of(row.holding, State.PLANNED), *localise)
    done = select(responses.c.id).where(*_of(row.holding, State.DONE), *localise)
    query = select(proven.exists() & planned.exists() & ~done.exists())
    return bool(connection.execute(query).scalar())


def _repaired(connection: Connection, holding: int, audit: int) -> bool:
    """Return whether blocks were put back in the case that this audit opened."""
    case_of = (responses.c.holding == holding, responses.c.audit == audit)
    done = (responses.c.step == Step.REPAIR, responses.c.state == State.DONE)
    query = select(responses.c.id).where(*case_of, *done).limit(1)
    return connection.execute(query).first() is not None


def _calm(connection: Connection, holding: int, how: str, now: int) -> None:
    """End the alerts about a holding, and say how."""
    raised = update(alerts).where(*_raised(_name(connection, holding), *Kind))
    detail = alerts.c.detail + literal(plain(f"; {how}"))
    connection.execute(raised.values(ended=now, detail=detail))


def _name(connection: Connection, holding: int) -> str:
    query = select(holdings.c.name).where(holdings.c.id == holding)
    name: str = connection.execute(query).scalar_one()
    return name


def _record(connection: Connection, task: Task, told: ResponseRecord, now: int) -> None:
    record(connection, task.holding, task.audit, told, now)


def record(
    connection: Connection, holding: int, audit: int, told: ResponseRecord, now: int
) -> None:
    """Write a leaf after the holding's last one, of which it takes whose it is."""
    before = _last_leaf(connection, holding)
    # A clock that was set back does not undo the order of events.
    response = leaf.Response(
        max(now, before.at), before.holding, audit, told.step, told.blocks, plain(told.detail)
    )
    row = {"holding": holding, "body": leaf.encode(response), "proof": None}
    connection.execute(insert(leaves), [row])


def _last_leaf(
    connection: Connection, holding: int
) -> leaf.Audit | leaf.Response | leaf.Registration:
    last = select(leaves.c.body).where(leaves.c.holding == holding).order_by(leaves.c.id.desc())
    body = connection.execute(last.limit(1)).scalar()
    if body is None:
        raise StorageError("the evidence has no leaf of a holding that was audited")
    found = leaf.decode(body)
    if not isinstance(found, leaf.Audit | leaf.Response | leaf.Registration):
        raise StorageError("the evidence has a leaf at a holding that is none of its own")
    return found
