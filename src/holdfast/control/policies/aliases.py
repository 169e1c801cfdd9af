"""Aliases of versions: the champion decides, the challenger runs in shadow, and the previous one.

They follow from an append-only history. Each change is written together with its leaf in the
evidence, and only if nobody made another one meanwhile.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Engine, func, insert, select
from sqlalchemy.exc import IntegrityError

from holdfast.control.evidence.leaves import record_leaf
from holdfast.control.policies.shadow_states import delete_other_states
from holdfast.errors import ConflictError, NotFoundError
from holdfast.evidence import leaf
from holdfast.evidence.codecs import plain
from holdfast.evidence.leaf import Change, Check, PolicyChange
from holdfast.storage.database import transaction
from holdfast.storage.schema import promotions, versions

ALIASES = ("champion", "challenger", "previous")


@dataclass(frozen=True)
class Aliases:
    changes: int = 0  # that led here
    champions: tuple[str, ...] = ()  # the last one decides; a rollback takes it off
    named: str | None = None

    @property
    def champion(self) -> str | None:
        return self.champions[-1] if self.champions else None

    @property
    def previous(self) -> str | None:
        return self.champions[-2] if len(self.champions) > 1 else None

    @property
    def challenger(self) -> str | None:
        return None if self.named == self.champion else self.named

    @property
    def shadows(self) -> tuple[str, ...]:
        """The challenger, and the last champion, so that its states are fresh after a rollback."""
        both = dict.fromkeys((self.challenger, self.previous))
        return tuple(version for version in both if version not in {None, self.champion})

    @property
    def in_use(self) -> tuple[str, ...]:
        return self.shadows if self.champion is None else (self.champion, *self.shadows)

    def of(self, version: str) -> tuple[str, ...]:
        """Return the aliases that a version has."""
        return tuple(name for name in ALIASES if getattr(self, name) == version)

    def after(self, change: Change, version: str) -> "Aliases":
        last = replace(self, changes=self.changes + 1)
        match change:
            case Change.PROMOTED:
                return replace(last, champions=(*self.champions, version))
            case Change.ROLLED_BACK:
                return replace(last, champions=self.champions[:-1])
            case Change.NAMED:
                return replace(last, named=version)
            case Change.WITHDRAWN:
                return replace(last, named=None)


@dataclass(frozen=True)
class Verdict:
    """What a promotion is judged by; `figures` holds all that was measured, as JSON does."""

    checks: tuple[Check, ...]
    figures: dict[str, Any]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


@dataclass(frozen=True)
class Entry:
    """One change of the history."""

    number: int
    at: int
    change: str
    version: str
    name: str
    by: str
    reason: str
    forced: bool
    report: dict[str, Any] | None  # what a promotion was judged by


def read_aliases(connection: Connection, known: Aliases | None = None) -> Aliases:
    """Return the aliases; from those known before, only later changes are read."""
    aliases = known or Aliases()
    later = promotions.c.id > aliases.changes
    query = select(promotions.c.change, promotions.c.version).where(later)
    for change, version in connection.execute(query.order_by(promotions.c.id)):
        aliases = aliases.after(Change(change), version)
    return aliases


@dataclass(frozen=True)
class Named:
    version: str
    name: str


def named_aliases(connection: Connection) -> dict[str, Named]:
    """Return the versions that have an alias, with their names."""
    aliases = read_aliases(connection)
    rows = connection.execute(select(versions.c.id, versions.c.name)).all()
    names = {row.id: row.name for row in rows}
    return {
        alias: Named(version, names.get(version, ""))
        for alias in ALIASES
        if (version := getattr(aliases, alias)) is not None
    }


def history(connection: Connection, limit: int) -> list[Entry]:
    """Return the last changes, the newest first."""
    query = (
        select(promotions, versions.c.name)
        .join(versions, versions.c.id == promotions.c.version)
        .order_by(promotions.c.id.desc())
        .limit(limit)
    )
    return [
        Entry(
            number=row.id,
            at=row.at,
            change=row.change,
            version=row.version,
            name=row.name,
            by=row.by,
            reason=row.reason,
            forced=row.forced,
            report=None if row.report is None else json.loads(row.report),
        )
        for row in connection.execute(query)
    ]


def last_report(connection: Connection, version: str) -> dict[str, Any]:
    """Return the figures of the version's last promotion; empty if it was not judged."""
    query = (
        select(promotions.c.report)
        .where(promotions.c.version == version, promotions.c.change == str(Change.PROMOTED))
        .order_by(promotions.c.id.desc())
        .limit(1)
    )
    report = connection.execute(query).scalar()
    return {} if report is None else dict(json.loads(report))


@dataclass(frozen=True)
class Author:
    """Who changes something, when and why."""

    by: str
    at: int
    reason: str = ""


def promote(
    engine: Engine,
    known: Aliases,
    version: str,
    author: Author,
    verdict: Verdict | None = None,
    *,
    forced: bool = False,
) -> Aliases:
    """Let a version decide from the next decision on."""
    if version == known.champion:
        raise ConflictError(f"{version[:12]} is the champion already")
    return _write(engine, known, Change.PROMOTED, version, author, verdict, forced=forced)


def rollback(engine: Engine, known: Aliases, author: Author) -> Aliases:
    """Make the previous champion decide again."""
    if known.previous is None:
        raise ConflictError("there is nothing to roll back to: no other version has decided before")
    return _write(engine, known, Change.ROLLED_BACK, known.previous, author)


def challenge(engine: Engine, known: Aliases, version: str, author: Author) -> Aliases:
    """Let a version run in shadow from the next decision on."""
    for alias in ("champion", "challenger"):
        if version == getattr(known, alias):
            raise ConflictError(f"{version[:12]} is the {alias} already")
    return _write(engine, known, Change.NAMED, version, author)


def withdraw(engine: Engine, known: Aliases, author: Author) -> Aliases:
    if known.challenger is None:
        raise ConflictError("there is no challenger to withdraw")
    return _write(engine, known, Change.WITHDRAWN, known.challenger, author)


def _write(
    engine: Engine,
    known: Aliases,
    change: Change,
    version: str,
    author: Author,
    verdict: Verdict | None = None,
    *,
    forced: bool = False,
) -> Aliases:
    after = known.after(change, version)
    report = None if verdict is None else json.dumps(verdict.figures, sort_keys=True).encode()
    try:
        with transaction(engine) as connection:
            last = connection.execute(select(func.max(promotions.c.at))).scalar() or 0
            at = max(author.at, last)  # the clock may have been set back
            entry = PolicyChange(
                at=at,
                change=change,
                policy=policy_of(connection, version),
                previous=_before(connection, known, change),
                by=plain(author.by),
                reason=plain(author.reason),
                forced=forced,
                checks=() if verdict is None else verdict.checks,
                report=None if report is None else hashlib.sha256(report).digest(),
            )
            row = {
                "id": after.changes,
                "at": at,
                "change": str(change),
                "version": version,
                "by": entry.by,
                "reason": entry.reason,
                "forced": forced,
                "report": report,
            }
            connection.execute(insert(promotions), [row])
            record_leaf(connection, entry)
            delete_other_states(connection, after.in_use)
    except IntegrityError as error:
        raise ConflictError(
            "somebody has changed the policies meanwhile: see `holdfast policy history`"
        ) from error
    return after


def _before(connection: Connection, known: Aliases, change: Change) -> leaf.Policy | None:
    shadow = change in {Change.NAMED, Change.WITHDRAWN}
    before = known.challenger if shadow else known.champion
    return None if before is None or change is Change.WITHDRAWN else policy_of(connection, before)


def policy_of(connection: Connection, version: str) -> leaf.Policy:
    """Return how the evidence names a version."""
    query = select(versions.c.name).where(versions.c.id == version)
    name = connection.execute(query).scalar()
    if name is None:
        raise NotFoundError(f"there is no version {version[:12]} in the registry")
    return leaf.Policy(plain(name), bytes.fromhex(version))
