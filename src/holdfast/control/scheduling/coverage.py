"""Coverage with a memory: which groups of a checked holding are drawn, and when each was read last.

Groups are drawn without replacement. Each cycle has a random order of its own, so nobody can tell
which group comes next, and all are read once a cycle. If every unit is to be verified within some
time, a cycle takes two thirds of it, and groups that would become too old are drawn first.
"""

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Update,
    bindparam,
    case,
    delete,
    false,
    func,
    insert,
    literal_column,
    select,
    true,
    update,
)

from holdfast.checkers.interface import Extent, Group
from holdfast.control.scheduling.guardrails import Override, Rails, longest_within
from holdfast.durations import DAY
from holdfast.owner.checked import end_check
from holdfast.storage import bulk
from holdfast.storage.schema import check_groups

WHOLE = ""  # names the one group of a holding whose tool chooses by itself what it checks
CYCLE_SHARE = 2 / 3  # of the time within which every unit is to be verified
_RANK_BITS = 62
MAX_NAMES_PER_QUERY = 500
_group = check_groups.c


@dataclass(frozen=True)
class Promise:
    """Every unit is verified within this time; the next check ends before `next_end`."""

    within: int
    next_end: int

    @classmethod
    def of(cls, rails: Rails, within: int, now: int, check_time: int) -> "Promise":
        """Return the promise as it stands when a check begins that may take so long.

        The next one begins at most the longest interval after the end of this one.
        """
        slack = min(2 * check_time, within // 4)
        return cls(within, now + longest_within(rails, within) * rails.unit + slack)


@dataclass(frozen=True)
class Wanted:
    """What a check is to draw."""

    units: int  # by the policy's choice
    cap: int  # units, at most
    cautious: bool = False  # whether the last check could not end
    daily_bytes: int | None = None  # to read on average, at most
    promise: Promise | None = None


@dataclass(frozen=True)
class Draw:
    """What was drawn: groups, or so many units of the tool's own choice."""

    groups: tuple[str, ...]
    units: int
    overrides: int = 0


@dataclass(frozen=True)
class Look:
    """What a check has read: groups that are intact as of then, and groups with damage."""

    verified: tuple[str, ...]
    damaged: tuple[str, ...]
    at: int
    carries: int | None  # units that a check of the holding can carry, if that is limited
    units: int | None = None  # that there are, if the tool chooses by itself and has said it


def save_groups(connection: Connection, holding: int, extent: Extent, now: int) -> None:
    """Save which groups there are now. New ones belong to the cycle that is under way."""
    there = {group.name: group for group in _groups_of(extent) if group.units}
    query = select(_group.name, _group.units, _group.bytes).where(_group.holding == holding)
    known = {_text(row.name): (row.units, row.bytes) for row in connection.execute(query)}
    gone = sorted(known.keys() - there.keys())
    for first in range(0, len(gone), MAX_NAMES_PER_QUERY):
        some = _group.name.in_(map(_bytes, gone[first : first + MAX_NAMES_PER_QUERY]))
        connection.execute(delete(check_groups).where(_group.holding == holding, some))
    changed = [
        {"holding": holding, "name": _bytes(name), "units": group.units, "bytes": group.bytes}
        for name, group in there.items()
        if name in known and known[name] != (group.units, group.bytes)
    ]
    if changed:
        bulk.execute(connection, _RESIZE, changed)
    new = [group for name, group in there.items() if name not in known]
    if new:
        _insert(connection, holding, new, now)


def draw(connection: Connection, holding: int, wanted: Wanted, now: int) -> Draw:
    """Draw a sample from the groups that were saved.

    Groups that were damaged at the last look come first, then those that would become too old.
    After a check that could not end, the order alone counts, and what is drawn moves to the next
    cycle: a group that no check survives holds up no other.
    """
    sizes = _read_sizes(connection, holding)
    if not sizes.units or wanted.cap < 1:
        return Draw((), 0)
    old = 0 if wanted.promise is None else wanted.promise.next_end - wanted.promise.within
    overdue = _units_before(connection, holding, old)
    target = max(wanted.units, overdue, _pace(sizes, wanted.promise, now))
    target = min(target, sizes.units)
    budget = _budget(sizes, wanted.daily_bytes, now)
    groups: tuple[str, ...] = ()
    units = allowed = min(target, wanted.cap)
    if sizes.whole:
        units = min(units, max(sizes.units * budget // max(sizes.bytes, 1), 1))
    else:
        urgency = None if wanted.cautious else _urgency(old)
        taken = _take(connection, holding, urgency, units, budget)
        groups, units = tuple(sorted(taken)), sum(taken.values())
    overrides = int(Override.VERIFY_WITHIN) if min(target, units) > wanted.units else 0
    overrides |= int(Override.SAMPLE_CAP) if allowed < target else 0
    overrides |= int(Override.DAILY_BYTES) if units < allowed else 0
    return Draw(groups, units, overrides)


@dataclass(frozen=True)
class _Sizes:
    units: int
    bytes: int
    newest: int  # when any of them was last verified; 0 if none was
    whole: bool  # whether the tool chooses by itself


def _read_sizes(connection: Connection, holding: int) -> _Sizes:
    columns = (func.sum(_group.units), func.sum(_group.bytes), func.max(_group.verified))
    whole = func.count(case((_group.name == _bytes(WHOLE), 1)))
    sums = select(*columns, whole).where(_group.holding == holding)
    units, length, newest, wholes = connection.execute(sums).one()
    return _Sizes(int(units or 0), int(length or 0), newest or 0, bool(wholes))


def _budget(sizes: _Sizes, daily_bytes: int | None, now: int) -> int:
    """Return how many bytes may be read: as many as the days since the last check allow."""
    if daily_bytes is None:
        return sizes.bytes
    days = max(now - sizes.newest, 0) / DAY if sizes.newest else 1.0
    return int(daily_bytes * days)


def _units_before(connection: Connection, holding: int, moment: int) -> int:
    """Return how many units were neither verified nor added since then."""
    old = (_group.holding == holding, _since() < moment)
    return int(connection.execute(select(func.sum(_group.units)).where(*old)).scalar() or 0)


def _pace(sizes: _Sizes, promise: Promise | None, now: int) -> int:
    """Return how many units are drawn so that a cycle takes its share of the promised time."""
    if promise is None or sizes.whole or not sizes.newest:
        return 0
    cycle = CYCLE_SHARE * promise.within
    return math.ceil(sizes.units * max(now - sizes.newest, 0) / cycle)


def _take(
    connection: Connection,
    holding: int,
    urgency: ColumnElement[int] | None,
    units: int,
    budget: int,
) -> dict[str, int]:
    """Take groups in their order, until there are so many units or bytes; at least one.

    They get new places in the order, in case they can't be verified.
    """
    places = (_group.cycle, _group.rank)
    ordered = (
        select(_group.name, _group.units, _group.bytes)
        .where(_group.holding == holding)
        .order_by(*(places if urgency is None else (urgency, *places)))
        .limit(units)
    )
    taken: dict[str, int] = {}
    for row in connection.execute(ordered).all():
        if taken and (units <= 0 or row.bytes > budget):
            break
        taken[_text(row.name)] = row.units
        units, budget = units - row.units, budget - row.bytes
    ranks = [{"holding": holding, "name": _bytes(name), "rank": _rank()} for name in taken]
    bulk.execute(connection, _POSTPONE if urgency is None else _SHUFFLE, ranks)
    return taken


def _urgency(old: int) -> ColumnElement[int]:
    return case((_group.damaged, 0), (_since() < old, 1), else_=2)


def record_look(connection: Connection, holding: int, look: Look) -> None:
    """Save what a check has read; its place is free for another one."""
    cycle = _lowest_cycle(connection, holding) + 1
    rows = [
        {"holding": holding, "name": _bytes(name), "at": look.at, "cycle": cycle, "rank": _rank()}
        for name in sorted({*look.verified} - {*look.damaged})
    ]
    if rows:
        bulk.execute(connection, _VERIFY, rows)
    marked = [{"holding": holding, "name": _bytes(name)} for name in sorted({*look.damaged})]
    if marked:
        bulk.execute(connection, _MARK, marked)
    if look.units is not None:
        whole = (_group.holding == holding, _group.name == _bytes(WHOLE))
        connection.execute(update(check_groups).where(*whole).values(units=look.units))
    end_check(connection, holding, look.carries, look.units)


def delete_groups(connection: Connection, holding: int) -> None:
    connection.execute(delete(check_groups).where(_group.holding == holding))


def _groups_of(extent: Extent) -> Sequence[Group]:
    return extent.groups or [Group(WHOLE, extent.units, extent.bytes)]


def _insert(connection: Connection, holding: int, groups: Sequence[Group], now: int) -> None:
    cycle = _lowest_cycle(connection, holding)
    rows = [
        {
            "holding": holding,
            "name": _bytes(group.name),
            "units": group.units,
            "bytes": group.bytes,
            "added": now,
            "cycle": cycle,
            "rank": _rank(),
        }
        for group in groups
    ]
    bulk.execute(connection, insert(check_groups).inline(), rows)


def _lowest_cycle(connection: Connection, holding: int) -> int:
    """Return the cycle that is under way."""
    lowest = select(func.min(_group.cycle)).where(_group.holding == holding)
    return connection.execute(lowest).scalar() or 0


def _since() -> ColumnElement[int]:
    """Return since when a group counts as not verified."""
    return case((_group.verified > _group.added, _group.verified), else_=_group.added)


def _bytes(name: str) -> bytes:
    """Return a name as it is stored; a file system may give one that is not valid Unicode."""
    return name.encode("utf-8", "surrogatepass")


def _text(name: bytes) -> str:
    return bytes(name).decode("utf-8", "surrogatepass")


def _rank() -> int:
    return secrets.randbits(_RANK_BITS)


def _named(**changes: Any) -> Update:
    ours = (_group.holding == _parameter("holding"), _group.name == _parameter("name"))
    return update(check_groups).where(*ours).values(changes)


def _parameter(name: str) -> BindParameter[Any]:
    return bindparam(bulk.OURS + name)


_RESIZE = _named(units=_parameter("units"), bytes=_parameter("bytes"))
_SHUFFLE = _named(rank=_parameter("rank"))
_POSTPONE = _named(rank=_parameter("rank"), cycle=_group.cycle + literal_column("1"))
_VERIFY = _named(
    verified=_parameter("at"), cycle=_parameter("cycle"), rank=_parameter("rank"), damaged=false()
)
_MARK = _named(damaged=true())
