"""The schedule: which holdings are due, who is at work on them, and what became of that.

Any number of workers share it. A claim is a lease with a token of its own; only its token can
conclude it, so that a worker that was thought dead can do no harm, and a lease that ends brings
the holding back with the audit that was under way.
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
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from holdfast.control.scheduling.telemetry import unaudited
from holdfast.errors import InputError
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
    leaves,
    public_keys,
    shadow_sums,
    shadows,
)

NAMES_AT_ONCE = 500  # in one query


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
_DEPART = _of_ours("overrides", "flight")
_SUSPEND = _of_ours("due", "flight", lease=_FREE)
_POSTPONE = _of_ours(
    "due",
    overrides=holdings.c.overrides.bitwise_or(_given("overrides")),
    lease=_FREE,
)
_AUDIT, _LEAF = insert(audits).inline(), insert(leaves).inline()
_STATE = insert(shadows).inline()
_ADVANCE = (
    update(shadows)
    .where(shadows.c.holding == _given("holding"), shadows.c.version == _given("version"))
    .values({name: _given(name) for name in ("number", "memory", "chosen")})
)


def _added(insertion: Any) -> Any:
    """Return the statement that enters a decision, or adds it to the sums that are there."""
    key, kept = [column.name for column in shadow_sums.primary_key], {"first", "last"}
    sums = {
        column.name: column + insertion.excluded[column.name]
        for column in shadow_sums.c
        if column.name not in {*key, *kept}
    }
    return insertion.on_conflict_do_update(
        index_elements=key, set_=sums | {"last": insertion.excluded["last"]}
    )


_ADD = {
    "sqlite": _added(sqlite.insert(shadow_sums).inline()),
    "postgresql": _added(postgresql.insert(shadow_sums).inline()),
}


@dataclass(frozen=True)
class Beside:
    """What is written of a version in shadow, together with a decision."""

    state: dict[str, Any]
    decision: dict[str, Any] | None  # as sums; none where nothing is to be compared
    new: bool  # whether it had no state of this holding yet


@dataclass(frozen=True)
class Conclusion:
    """What is written at the end of an audit, all at once."""

    holding: dict[str, Any]  # the row's new values, by column
    audit: dict[str, Any]
    leaf: dict[str, Any]
    beside: Sequence[Beside] = ()


@dataclass(frozen=True)
class Lag:
    """How far the schedule is behind."""

    overdue: int  # holdings that are due and that nobody is at work on
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
        """Enter holdings by name, number of blocks and public key; each is due at once.

        `registrations` are their first leaves, by name.
        """
        new = {
            "due": now,
            "added": now,
            "audited": now,
            "observed": now,
            "news": True,
            "history": unaudited(),
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
        deadline, whatever else waits.
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

    def gathered(self, now: int, longest: int, enough: int) -> bool:
        """Return whether so many audits are due to begin, or one has been for so long."""
        free = or_(holdings.c.lease <= now, holdings.c.due <= now - longest)
        begins = (holdings.c.due <= now, free, holdings.c.flight.is_(None))
        due = select(holdings.c.due).where(*begins).order_by(holdings.c.due)
        with transaction(self.engine) as connection:
            first = connection.execute(due.limit(1)).scalar()
            if first is None or first <= now - longest:
                return first is not None
            return connection.execute(due.offset(enough - 1).limit(1)).first() is not None

    def extend(self, token: int, until: int) -> int:
        """Lengthen the lease of what is still ours; return how many holdings that are."""
        held = update(holdings).where(holdings.c.token == token, holdings.c.lease > 0)
        with transaction(self.engine) as connection:
            return connection.execute(held.values(lease=until)).rowcount

    def decide(
        self, token: int, rows: Sequence[dict[str, Any]], beside: Sequence[Beside] = ()
    ) -> None:
        """Write first decisions about holdings that were not due for an audit.

        Shadows begin with the next one where a lease was lost.
        """
        with transaction(self.engine) as connection:
            if bulk.execute(connection, _DECIDE, _ours(token, rows)) == len(rows):
                write_beside(connection, beside)

    def depart(
        self, token: int, flights: Sequence[tuple[int, int, bytes]], together: Sequence[Batch] = ()
    ) -> None:
        """Write down audits before they have any effect; raise if a lease was lost."""
        rows = [dict(zip(("id", "overrides", "flight"), each, strict=True)) for each in flights]
        with transaction(self.engine) as connection:
            if bulk.execute(connection, _DEPART, _ours(token, rows)) != len(rows):
                raise LeaseLostError
            for each in together:
                words = b"".join(each.words)
                row = {"owner": each.owner, "deadline": each.deadline, "words": words}
                connection.execute(insert(batches).values(seed=each.seed, **row))

    def batch(self, seed: bytes) -> Batch:
        """Return the batch with that seed, which audits under way were written down with."""
        query = select(batches.c.owner, batches.c.deadline, batches.c.words)
        with transaction(self.engine) as connection:
            owner, deadline, words = connection.execute(query.where(batches.c.seed == seed)).one()
        entries = (words[at : at + WORD_BYTES] for at in range(0, len(words), WORD_BYTES))
        return Batch(owner, seed, deadline, tuple(entries))

    def postpone(self, token: int, later: Sequence[tuple[int, int, int]]) -> None:
        """Put holdings back, each due at another time and with more overrides."""
        rows = [dict(zip(("id", "due", "overrides"), each, strict=True)) for each in later]
        if rows:
            with transaction(self.engine) as connection:
                bulk.execute(connection, _POSTPONE, _ours(token, rows))

    def suspend(self, token: int, later: Sequence[tuple[int, int, bytes]]) -> None:
        """Put holdings back in the middle of their audits."""
        rows = [dict(zip(("id", "due", "flight"), each, strict=True)) for each in later]
        with transaction(self.engine) as connection:
            bulk.execute(connection, _SUSPEND, _ours(token, rows))

    def conclude(self, token: int, conclusions: Sequence[Conclusion]) -> list[int]:
        """Write what came of audits, all of each or nothing; return the holdings concluded.

        Those whose lease was lost meanwhile are left out: they are another worker's now.
        """
        with transaction(self.engine) as connection:
            if _written(connection, token, conclusions):
                return [each.holding["id"] for each in conclusions]
        ids = [each.holding["id"] for each in conclusions]
        ours = select(holdings.c.id).where(holdings.c.id.in_(ids), holdings.c.token == token)
        with transaction(self.engine) as connection:
            kept = set(connection.execute(ours.with_for_update()).scalars())
            _written(connection, token, [c for c in conclusions if c.holding["id"] in kept])
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
    """Return the columns that tell how far the schedule is behind."""
    late = (holdings.c.due <= now) & (holdings.c.lease <= now)
    return [
        func.count(case((late, 1))).label("overdue"),
        func.min(case((late, holdings.c.due))).label("first"),
        func.count(case((holdings.c.lease > now, 1))).label("working"),
        func.count(case((holdings.c.quarantined, 1))).label("quarantined"),
    ]


class LeaseLostError(Exception):
    """Another worker has the holdings now: whatever was begun is theirs to finish."""


def _register(connection: Connection, registrations: Mapping[str, bytes]) -> None:
    """Write the first leaves of holdings that have just been entered."""
    names = list(registrations)
    for first in range(0, len(names), NAMES_AT_ONCE):
        some = holdings.c.name.in_(names[first : first + NAMES_AT_ONCE])
        rows = [
            {"holding": id_, "body": registrations[name], "proof": None}
            for id_, name in connection.execute(select(holdings.c.id, holdings.c.name).where(some))
        ]
        connection.execute(insert(leaves), rows)


def _written(connection: Connection, token: int, conclusions: Sequence[Conclusion]) -> bool:
    """Write the conclusions, or undo it all and return False if a lease was lost."""
    if not conclusions:
        return True
    rows = _ours(token, [each.holding for each in conclusions])
    if bulk.execute(connection, _CONCLUDE, rows) != len(rows):
        connection.rollback()
        return False
    bulk.execute(connection, _AUDIT, [each.audit for each in conclusions])
    bulk.execute(connection, _LEAF, [each.leaf for each in conclusions])
    write_beside(connection, [each for conclusion in conclusions for each in conclusion.beside])
    return True


def write_beside(connection: Connection, beside: Sequence[Beside]) -> None:
    """Write what shadows decided; who has the lease of a holding is alone with their states."""
    for statement, rows in (
        (_STATE, [each.state for each in beside if each.new]),
        (_ADVANCE, [each.state for each in beside if not each.new]),
        (
            _ADD[connection.dialect.name],
            [each.decision for each in beside if each.decision is not None],
        ),
    ):
        if rows:
            bulk.execute(connection, statement, rows)


def _ours(token: int, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "token": token} for row in rows]


def column(claims: Sequence[Claim], name: str) -> IntArray:
    return np.array([getattr(claim, name) for claim in claims])
