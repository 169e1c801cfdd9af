"""The schedule: which holdings are due, which worker has each, and the result of each audit.

This is the only place that writes the table of holdings. Any number of workers share it. A claim is
a lease with a token of its own. Only its token can conclude it, so a worker that was thought dead
can do no harm. A lease that ends brings the holding back with the audit that was under way.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Engine,
    Row,
    Update,
    bindparam,
    case,
    func,
    insert,
    literal_column,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from holdfast.control.evidence.leaves import leaf_row, record_leaves
from holdfast.control.policies.shadow_states import ShadowRecord, record_shadows
from holdfast.control.scheduling.guardrails import Override
from holdfast.control.scheduling.telemetry import empty_history_bytes
from holdfast.errors import InputError, NotFoundError
from holdfast.ledger.interface import WORD_BYTES, Batch
from holdfast.model.arrays import IntArray
from holdfast.pdp import PublicKey
from holdfast.storage import bulk
from holdfast.storage.database import transaction
from holdfast.storage.home_schema import catalogue
from holdfast.storage.schema import (
    NEVER,
    audits,
    batches,
    holdings,
    public_keys,
)

MAX_NAMES_PER_QUERY = 500


@dataclass(frozen=True, slots=True)
class Claim:
    """A holding that is due, as it stands in its row."""

    id: int
    name: str
    blocks: int
    due: int
    number: int
    audited: int
    history: bytes
    observed: int
    news: bool
    version: str
    memory: bytes
    decided: int
    observation: bytes
    chosen: int
    interval: int
    ratio: float
    overrides: int
    flight: bytes | None


_CLAIMED = [holdings.c[field.name] for field in fields(Claim)]
# What a decision changes in the row, and what the end of an audit changes besides.
_DECIDED = (
    *("due", "history", "observed", "news", "version", "memory"),
    *("decided", "observation", "chosen", "interval", "ratio", "overrides"),
)
_ENDED = ("number", "audited", "outcome", "blocks")


def _of_ours(*names: str, **others: Any) -> Update:
    """Return the statement that sets these columns of a holding that is ours by its token."""
    ours = (holdings.c.id == _given("id"), holdings.c.token == _given("token"))
    return update(holdings).where(*ours).values({name: _given(name) for name in names} | others)


def _given(name: str) -> BindParameter[Any]:
    return bindparam(bulk.OURS + name)


_FREE: ColumnElement[int] = literal_column("0")
_DECIDE = _of_ours(*_DECIDED, lease=_FREE)
_CONCLUDE = _of_ours(*_DECIDED, *_ENDED, lease=_FREE, flight=null())
_SAVE_AUDIT = _of_ours("overrides", "flight")
_SUSPEND = _of_ours("due", "flight", lease=_FREE)
_POSTPONE = _of_ours(
    "due",
    overrides=holdings.c.overrides.bitwise_or(_given("overrides")),
    lease=_FREE,
)
_AUDIT = insert(audits).inline()


@dataclass(frozen=True)
class Conclusion:
    """What is written at the end of an audit, in one transaction."""

    holding: dict[str, Any]  # the row's new values, by column
    audit: dict[str, Any]
    leaf: dict[str, Any]
    shadows: Sequence[ShadowRecord] = ()


@dataclass(frozen=True)
class Lag:
    """How far the schedule is behind."""

    overdue: int  # holdings that are due and that no worker has
    longest: int  # milliseconds since the first of them was due
    working: int
    quarantined: int


# Catalogue rows of holdings that have just been scheduled get their ids.
_LINK = (
    update(catalogue)
    .where(catalogue.c.scheduled.is_(None))
    .values(
        scheduled=select(holdings.c.id).where(holdings.c.name == catalogue.c.name).scalar_subquery()
    )
)


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
        new = {
            "due": now,
            "added": now,
            "audited": now,
            "observed": now,
            "news": True,
            "history": empty_history_bytes(),
            "memory": b"",
            "observation": b"",
        }
        try:
            with transaction(self.engine) as connection:
                connection.execute(
                    insert(holdings), [{"name": name, "blocks": n, **new} for name, n, _ in rows]
                )
                known = set(connection.execute(select(public_keys.c.id)).scalars())
                points = {key.id: b"".join(key.abscissas) for _, _, key in rows}
                fresh = [{"id": i, "points": p} for i, p in points.items() if i not in known]
                if fresh:
                    connection.execute(insert(public_keys), fresh)
                connection.execute(_LINK)
                _register(connection, registrations or {})
        except IntegrityError as error:
            raise InputError("a holding of that name is on the schedule already") from error

    def names(self) -> set[str]:
        with transaction(self.engine) as connection:
            return set(connection.execute(select(holdings.c.name)).scalars())

    def claim(
        self, now: int, lease: int, limit: int, *, under_way: bool = False
    ) -> tuple[int, list[Claim]]:
        """Take up to `limit` due holdings for `lease` milliseconds; return them and their token.

        With `under_way` only those whose audit has begun: a node is asked again before its
        deadline, even while other audits wait for a batch.
        """
        token = secrets.randbits(63)
        # A lease that lies too far ahead is from a clock that was set back since.
        free = or_(holdings.c.lease <= now, holdings.c.lease > now + 2 * lease)
        due = (
            select(holdings.c.id)
            .where(holdings.c.due <= now, free, *([holdings.c.flight.is_not(None)] * under_way))
            .order_by(holdings.c.due, holdings.c.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        taken = (
            update(holdings)
            .where(holdings.c.id.in_(due.scalar_subquery()))
            .values(lease=now + lease, token=token)
            .returning(*_CLAIMED)
        )
        with transaction(self.engine) as connection:
            rows = connection.execute(taken).all()
        return token, sorted((Claim(*row) for row in rows), key=lambda claim: (claim.due, claim.id))

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

    def extend(self, token: int, until: int) -> int:
        """Extend the leases that are still ours; return how many there are."""
        ours = update(holdings).where(holdings.c.token == token, holdings.c.lease > 0)
        with transaction(self.engine) as connection:
            return connection.execute(ours.values(lease=until)).rowcount

    def decide(
        self, token: int, rows: Sequence[dict[str, Any]], shadows: Sequence[ShadowRecord] = ()
    ) -> None:
        """Write first decisions about holdings that were not due for an audit.

        If a lease was lost, shadows begin with the next decision.
        """
        with transaction(self.engine) as connection:
            if bulk.execute(connection, _DECIDE, _ours(token, rows)) == len(rows):
                record_shadows(connection, shadows)

    def save_audits(
        self, token: int, flights: Sequence[tuple[int, int, bytes]], new: Sequence[Batch] = ()
    ) -> None:
        """Save audits before they have any effect; raise if a lease was lost."""
        rows = [dict(zip(("id", "overrides", "flight"), row, strict=True)) for row in flights]
        with transaction(self.engine) as connection:
            if bulk.execute(connection, _SAVE_AUDIT, _ours(token, rows)) != len(rows):
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

    def postpone(self, token: int, later: Sequence[tuple[int, int, int]]) -> None:
        """Put holdings back, each due at another time and with more overrides."""
        rows = [dict(zip(("id", "due", "overrides"), row, strict=True)) for row in later]
        if rows:
            with transaction(self.engine) as connection:
                bulk.execute(connection, _POSTPONE, _ours(token, rows))

    def suspend(self, token: int, later: Sequence[tuple[int, int, bytes]]) -> None:
        """Put holdings back in the middle of their audits."""
        rows = [dict(zip(("id", "due", "flight"), row, strict=True)) for row in later]
        with transaction(self.engine) as connection:
            bulk.execute(connection, _SUSPEND, _ours(token, rows))

    def conclude(self, token: int, conclusions: Sequence[Conclusion]) -> list[int]:
        """Write the results of audits, all of each or nothing; return the holdings concluded.

        Those whose lease was lost meanwhile are left out: another worker has them now.
        """
        ids = [conclusion.holding["id"] for conclusion in conclusions]
        with transaction(self.engine) as connection:
            if _conclude(connection, token, conclusions):
                return ids
        ours = select(holdings.c.id).where(holdings.c.id.in_(ids), holdings.c.token == token)
        with transaction(self.engine) as connection:
            kept = set(connection.execute(ours.with_for_update()).scalars())
            _conclude(connection, token, [c for c in conclusions if c.holding["id"] in kept])
        return [id_ for id_ in ids if id_ in kept]

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


def lag_at(now: int) -> list[ColumnElement[Any]]:
    """Return the columns that say how far the schedule is behind."""
    late = (holdings.c.due <= now) & (holdings.c.lease <= now)
    return [
        func.count(case((late, 1))).label("overdue"),
        func.min(case((late, holdings.c.due))).label("first"),
        func.count(case((holdings.c.lease > now, 1))).label("working"),
        func.count(case((holdings.c.quarantined, 1))).label("quarantined"),
    ]


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


def _update_idle(
    connection: Connection, holding: int, now: int, changes: Mapping[str, Any]
) -> int | None:
    """Change a holding that nobody audits; return the number of its last audit."""
    idle = (holdings.c.id == holding, holdings.c.lease <= now, holdings.c.flight.is_(None))
    changed = update(holdings).where(*idle).values(**changes).returning(holdings.c.number)
    number: int | None = connection.execute(changed).scalar()
    return number


class LeaseLostError(Exception):
    """Another worker has the holdings now, and finishes what was begun."""


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


def _conclude(connection: Connection, token: int, conclusions: Sequence[Conclusion]) -> bool:
    """Write the conclusions, or undo it all and return False if a lease was lost."""
    if not conclusions:
        return True
    rows = _ours(token, [conclusion.holding for conclusion in conclusions])
    if bulk.execute(connection, _CONCLUDE, rows) != len(rows):
        connection.rollback()
        return False
    bulk.execute(connection, _AUDIT, [conclusion.audit for conclusion in conclusions])
    record_leaves(connection, [conclusion.leaf for conclusion in conclusions])
    record_shadows(connection, [record for c in conclusions for record in c.shadows])
    return True


def _ours(token: int, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "token": token} for row in rows]


def column(claims: Sequence[Claim], name: str) -> IntArray:
    return np.array([getattr(claim, name) for claim in claims])
