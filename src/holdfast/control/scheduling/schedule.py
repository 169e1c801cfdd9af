"""The schedule: which holdings are due, which worker has each, and the result of each audit.

This is the only place that writes the table of holdings. Any number of workers share it. A claim is
a lease with a token of its own. Only its token can conclude it, so a worker that was thought dead
can do no harm. A lease that ends brings the holding back with the audit that was under way.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Engine,
    Row,
    Table,
    Update,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    literal_column,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from holdfast.control.evidence.leaves import leaf_row, record_leaves
from holdfast.control.policies.shadow_states import ShadowRecord, record_shadows
from holdfast.control.scheduling import coverage
from holdfast.control.scheduling.claims import Claim, Conclusion, Lag, LeaseLostError
from holdfast.control.scheduling.guardrails import Override
from holdfast.control.scheduling.lag import lag_at
from holdfast.control.scheduling.telemetry import empty_history_bytes
from holdfast.errors import InputError, NotFoundError
from holdfast.ledger.interface import WORD_BYTES, Batch
from holdfast.pdp import PublicKey
from holdfast.storage import bulk
from holdfast.storage.database import transaction
from holdfast.storage.home_schema import catalogue, checked_holdings
from holdfast.storage.schema import NEVER, audits, batches, holdings, public_keys

MAX_NAMES_PER_QUERY = 500


_CLAIMED = [holdings.c[field.name] for field in fields(Claim)]
# What a decision changes in the row, and what the end of an audit changes besides.
_DECIDED = (
    *("due", "history", "observed", "news", "version", "memory"),
    *("decided", "observation", "chosen", "interval", "ratio", "overrides"),
)
_ENDED = ("number", "audited", "outcome", "blocks")


def _update_leased(*names: str, **others: Any) -> Update:
    """Return the statement that sets these columns of a holding that is ours by its token."""
    ours = (holdings.c.id == _parameter("id"), holdings.c.token == _parameter("token"))
    return update(holdings).where(*ours).values({name: _parameter(name) for name in names} | others)


def _parameter(name: str) -> BindParameter[Any]:
    return bindparam(bulk.OURS + name)


_FREE: ColumnElement[int] = literal_column("0")
_DECIDE = _update_leased(*_DECIDED, lease=_FREE)
_CONCLUDE = _update_leased(
    *_DECIDED[1:],
    *_ENDED,
    # An audit that an operator asked for does not end a quarantine.
    due=case((holdings.c.quarantined, literal_column(str(NEVER))), else_=_parameter("due")),
    lease=_FREE,
    flight=null(),
)
_SAVE_AUDIT = _update_leased("due", "ratio", "overrides", "flight")
_SUSPEND = _update_leased("due", "flight", lease=_FREE)
_POSTPONE = _update_leased(
    "due",
    overrides=holdings.c.overrides.bitwise_or(_parameter("overrides")),
    lease=_FREE,
)
_EXTEND = _update_leased(lease=_parameter("until")).where(holdings.c.lease > _FREE)
_AUDIT = insert(audits).inline()


def _link(table: Table) -> Update:
    """Return the statement that gives the owner's rows the ids of holdings just scheduled."""
    own = select(holdings.c.id).where(holdings.c.name == table.c.name).scalar_subquery()
    return update(table).where(table.c.scheduled.is_(None)).values(scheduled=own)


_LINKS = tuple(map(_link, (catalogue, checked_holdings)))


class Schedule:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def add(
        self,
        rows: Sequence[tuple[str, int, PublicKey]],
        now: int,
        registrations: Mapping[str, bytes] | None = None,
    ) -> None:
        """Enter holdings by name, number of blocks and public key; all are due at once.

        `registrations` are their first leaves, by name.
        """
        points = {key.id: b"".join(key.abscissas) for _, _, key in rows}
        self._enter(
            [{"name": name, "blocks": n} for name, n, _ in rows], now, points, registrations
        )

    def add_checked(self, rows: Sequence[tuple[str, int, int]], now: int) -> None:
        """Enter holdings that tools check, by name, number of units and `verify_within`."""
        checked = [
            {"name": name, "blocks": units, "checked": True, "verify_within": within}
            for name, units, within in rows
        ]
        self._enter(checked, now)

    def _enter(
        self,
        rows: Sequence[Mapping[str, Any]],
        now: int,
        points: Mapping[bytes, bytes] | None = None,
        registrations: Mapping[str, bytes] | None = None,
    ) -> None:
        """Enter holdings, with the points of their public keys by the keys' ids."""
        new = {
            **dict.fromkeys(("due", "added", "audited", "observed"), now),
            **dict.fromkeys(("memory", "observation"), b""),
            "news": True,
            "history": empty_history_bytes(),
        }
        try:
            with transaction(self.engine) as connection:
                connection.execute(insert(holdings), [{**row, **new} for row in rows])
                known = set(connection.execute(select(public_keys.c.id)).scalars())
                keys = (points or {}).items()
                fresh = [{"id": i, "points": p} for i, p in keys if i not in known]
                if fresh:
                    connection.execute(insert(public_keys), fresh)
                for link in _LINKS:
                    connection.execute(link)
                _register(connection, registrations or {})
        except IntegrityError as error:
            raise InputError("a holding of that name is on the schedule already") from error

    def enforce_longest(self, longest: int, now: int | None = None) -> None:
        """Bring forward what was planned further ahead than `longest` milliseconds allow.

        That is after the last decision, where settings became stricter, or after `now`, where the
        clock was set back.
        """
        latest = holdings.c.decided + longest if now is None else literal(now + longest)
        planned = (holdings.c.decided > 0, holdings.c.flight.is_(None), holdings.c.due < NEVER)
        late = update(holdings).where(*planned, holdings.c.due > latest)
        with transaction(self.engine) as connection:
            connection.execute(late.values(due=latest))

    def names(self) -> set[str]:
        with transaction(self.engine) as connection:
            return set(connection.execute(select(holdings.c.name)).scalars())

    def claim(
        self,
        now: int,
        lease: int,
        limit: int,
        *,
        under_way: bool = False,
        without_nodes: Collection[bytes] = (),
        only: Collection[str] | None = None,
        early: bool = False,
    ) -> list[Claim]:
        """Take up to `limit` holdings that are due, or with `early` any, for `lease` milliseconds.

        An audit under way is taken when it is due, even with `early`: its node is asked again then.
        With `under_way` only those whose audit has begun: a node is asked again before its
        deadline, even while other audits wait for a batch. Holdings on `without_nodes` are left
        out; with `only`, all others than these.
        """
        # A lease that lies too far ahead is from a clock that was set back since.
        free = or_(holdings.c.lease <= now, holdings.c.lease > now + 2 * lease)
        due = select(holdings.c.id).where(free)
        is_due = holdings.c.due <= now
        due = due.where(or_(is_due, holdings.c.flight.is_(None)) if early else is_due)
        if under_way:
            due = due.where(holdings.c.flight.is_not(None))
        if without_nodes:
            full = select(catalogue.c.scheduled).where(
                catalogue.c.node.in_(list(without_nodes)), catalogue.c.scheduled.is_not(None)
            )
            due = due.where(holdings.c.id.not_in(full))
        if only is not None:
            due = due.where(holdings.c.name.in_(list(only)))
        due = (
            due.order_by(holdings.c.due, holdings.c.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        taken = (
            update(holdings)
            .where(holdings.c.id.in_(due.scalar_subquery()))
            .values(lease=now + lease, token=secrets.randbits(63))
            .returning(*_CLAIMED)
        )
        with transaction(self.engine) as connection:
            rows = connection.execute(taken).all()
        return sorted(map(_claim, rows), key=lambda claim: (claim.due, claim.id))

    def has_batch(self, now: int, longest: int, enough: int) -> bool:
        """Return whether `enough` audits are due to begin, or one has waited for `longest`."""
        free = or_(holdings.c.lease <= now, holdings.c.due <= now - longest)
        begins = (holdings.c.due <= now, free, holdings.c.flight.is_(None))
        due = select(holdings.c.due).where(*begins).order_by(holdings.c.due)
        with transaction(self.engine) as connection:
            first = connection.execute(due.limit(1)).scalar()
            if first is None or first <= now - longest:
                return first is not None
            return connection.execute(due.offset(enough - 1).limit(1)).first() is not None

    def extend(self, claims: Collection[Claim], until: int) -> None:
        """Extend the leases that are still ours; `until` 0 gives them up."""
        rows = [{"id": claim.id, "token": claim.token, "until": until} for claim in claims]
        self._put_back(_EXTEND, rows)

    def decide(self, rows: Sequence[dict[str, Any]], shadows: Sequence[ShadowRecord] = ()) -> None:
        """Write first decisions about holdings that were not due for an audit.

        If a lease was lost, shadows begin with the next decision.
        """
        with transaction(self.engine) as connection:
            if bulk.execute(connection, _DECIDE, rows) == len(rows):
                record_shadows(connection, shadows)

    def save_audits(self, rows: Sequence[dict[str, Any]], new: Sequence[Batch] = ()) -> None:
        """Save audits before they have any effect; raise if a lease was lost."""
        with transaction(self.engine) as connection:
            if bulk.execute(connection, _SAVE_AUDIT, rows) != len(rows):
                raise LeaseLostError
            for batch in new:
                words = b"".join(batch.words)
                row = {"owner": batch.owner, "deadline": batch.deadline, "words": words}
                connection.execute(insert(batches).values(seed=batch.seed, **row))

    def batch(self, seed: bytes) -> Batch:
        """Return the batch with that seed, which audits under way were saved with."""
        query = select(batches.c.owner, batches.c.deadline, batches.c.words)
        with transaction(self.engine) as connection:
            owner, deadline, words = connection.execute(query.where(batches.c.seed == seed)).one()
        entries = (words[at : at + WORD_BYTES] for at in range(0, len(words), WORD_BYTES))
        return Batch(owner, seed, deadline, tuple(entries))

    def postpone(self, rows: Sequence[dict[str, Any]]) -> None:
        """Put holdings back, each due at another time and with more overrides."""
        self._put_back(_POSTPONE, rows)

    def suspend(self, rows: Sequence[dict[str, Any]]) -> None:
        """Put holdings back in the middle of their audits."""
        self._put_back(_SUSPEND, rows)

    def _put_back(self, statement: Update, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            with transaction(self.engine) as connection:
                bulk.execute(connection, statement, rows)

    def conclude(self, conclusions: Sequence[Conclusion]) -> list[int]:
        """Write the results of audits, all of each or nothing; return the holdings concluded.

        Those whose lease was lost meanwhile are left out: another worker has them now.
        """
        tokens = {c.holding["id"]: c.holding["token"] for c in conclusions}
        with transaction(self.engine) as connection:
            if _conclude(connection, conclusions):
                return list(tokens)
        leases = select(holdings.c.id, holdings.c.token).where(holdings.c.id.in_(tokens))
        with transaction(self.engine) as connection:
            rows = connection.execute(leases.with_for_update())
            kept = {id_ for id_, token in rows if tokens[id_] == token}
            _conclude(connection, [c for c in conclusions if c.holding["id"] in kept])
        return [id_ for id_ in tokens if id_ in kept]

    def lag(self, now: int) -> Lag:
        with transaction(self.engine) as connection:
            overdue, first, working, quarantined = connection.execute(select(*lag_at(now))).one()
        return Lag(overdue, 0 if first is None else now - first, working, quarantined)

    def next_due(self, after: int = 0) -> int | None:
        """Return when the next holding is due after that moment, even if a worker has it."""
        query = select(func.min(holdings.c.due)).where(
            after < holdings.c.due, holdings.c.due < NEVER
        )
        with transaction(self.engine) as connection:
            due: int | None = connection.execute(query).scalar()
        return due


def lock_holding(connection: Connection, name: str) -> Row[Any]:
    """Return the row of a holding, which nobody else changes until the transaction ends."""
    query = select(holdings).where(holdings.c.name == name).with_for_update()
    row = connection.execute(query).first()
    if row is None:
        raise NotFoundError(f"holding {name!r} is not on the schedule")
    return row


def request_audit(connection: Connection, row: Row[Any], now: int) -> None:
    """Have a holding audited at once, because an operator asked; this ends a quarantine."""
    changes = {
        "quarantined": False,
        "due": max(now, row.decided),  # the clock may have been set back
        "overrides": row.overrides | int(Override.ASKED),
    }
    connection.execute(update(holdings).where(holdings.c.id == row.id).values(changes))


def schedule_follow_up(
    connection: Connection, holding: int, now: int, *, due: int, interval: int, ratio: float
) -> int | None:
    """Schedule an audit that follows up; return its number, or None during another audit."""
    decided = holdings.c.decided
    changes = {
        "due": case((decided > due, decided), else_=due),  # the clock may have been set back
        "interval": interval,
        "ratio": ratio,
        "overrides": int(Override.FOLLOW_UP),
    }
    number = _update_idle(connection, holding, now, changes)
    return None if number is None else number + 1


def quarantine(connection: Connection, holding: int, now: int) -> bool:
    """Take a holding off the schedule; return False if it is being audited."""
    changes = {"due": NEVER, "quarantined": True}
    return _update_idle(connection, holding, now, changes) is not None


def rename_scheduled(connection: Connection, holding: int, name: str) -> None:
    renamed = update(holdings).where(holdings.c.id == holding)
    connection.execute(renamed.values(name=name))


def delete_scheduled(connection: Connection, holding: int) -> None:
    """Take a holding off the schedule for good; a worker that has it loses its lease."""
    connection.execute(delete(holdings).where(holdings.c.id == holding))


def _update_idle(
    connection: Connection, holding: int, now: int, changes: Mapping[str, Any]
) -> int | None:
    """Change a holding that nobody audits; return the number of its last audit."""
    idle = (holdings.c.id == holding, holdings.c.lease <= now, holdings.c.flight.is_(None))
    changed = update(holdings).where(*idle).values(**changes).returning(holdings.c.number)
    number: int | None = connection.execute(changed).scalar()
    return number


def _register(connection: Connection, registrations: Mapping[str, bytes]) -> None:
    """Record the first leaves of holdings that have just been entered."""
    names = list(registrations)
    for first in range(0, len(names), MAX_NAMES_PER_QUERY):
        some = holdings.c.name.in_(names[first : first + MAX_NAMES_PER_QUERY])
        rows = [
            leaf_row(registrations[name], id_)
            for id_, name in connection.execute(select(holdings.c.id, holdings.c.name).where(some))
        ]
        record_leaves(connection, rows)


def _claim(row: Sequence[Any]) -> Claim:
    """Return the claim in a row. SQLite returns a share of 1.0 that was just updated as 1."""
    claim = Claim(*row)
    return replace(claim, ratio=float(claim.ratio))


def _conclude(connection: Connection, conclusions: Sequence[Conclusion]) -> bool:
    """Write the conclusions, or undo it all and return False if a lease was lost."""
    if not conclusions:
        return True
    rows = [conclusion.holding for conclusion in conclusions]
    if bulk.execute(connection, _CONCLUDE, rows) != len(rows):
        connection.rollback()
        return False
    bulk.execute(connection, _AUDIT, [conclusion.audit for conclusion in conclusions])
    record_leaves(connection, [conclusion.leaf for conclusion in conclusions])
    record_shadows(connection, [record for c in conclusions for record in c.shadows])
    for conclusion in conclusions:
        if conclusion.look is not None:
            coverage.record_look(connection, conclusion.holding["id"], conclusion.look)
    return True
