"""The log of audits as inference reads it: what each audit taught about the data it sampled.

Audits that taught nothing are left out, and the time before them counts for the next: audits of
nodes that were not reached, and audits that failed on our side. So are failures and admissions
after which no damaged block was counted, and time-outs that the next audit cleared by passing. Any
other time-out counts as a failure. Otherwise a node that does not answer challenges it can't pass
would look healthy. Audits of damage that the owner planted are left out, too: see `canaries`.
So are checks by tools, whose units are no blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Engine, and_, exists, select

from holdfast.control.scheduling.guardrails import Override
from holdfast.control.scheduling.telemetry import LOSSES, TEACHING
from holdfast.evidence.leaf import Outcome
from holdfast.inference.log import Log
from holdfast.model.action import GRID
from holdfast.model.arrays import BoolArray, Float32Array, IntArray
from holdfast.model.observation import OBSERVATION
from holdfast.storage.database import transaction
from holdfast.storage.inference_schema import canaries
from holdfast.storage.schema import audits, has_proofs, holdings

NOT_COUNTED = -1

_COLUMNS = (
    *("holding", "ended", "outcome", "interval", "ratio"),
    *("samples", "overrides", "latency", "observation", "found"),
)
_ALL = (*_COLUMNS, "planted")


@dataclass(frozen=True, eq=False)
class Episodes:
    """The log, and the holdings that are its nodes: ids, names, and numbers of their audits."""

    ids: tuple[int, ...]
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    log: Log


def read_log(engine: Engine, unit: int, now: int) -> Log:
    """Return what audits have taught up to now; a time unit has `unit` milliseconds."""
    return read_episodes(engine, unit, now).log


def read_episodes(
    engine: Engine, unit: int, now: int, only: Sequence[int] | None = None
) -> Episodes:
    """Return the log and its holdings; only those with the given ids, if there are any."""
    columns = ("id", "name", "number", "blocks", "added")
    chosen = select(*(holdings.c[name] for name in columns)).where(has_proofs)
    during = and_(
        canaries.c.holding == audits.c.holding,
        audits.c.ended > canaries.c.planted,
        audits.c.ended <= canaries.c.lifted,
    )
    # Audits of removed holdings say nothing about those that are left.
    carried_out = (
        select(*[audits.c[name] for name in _COLUMNS], exists().where(during))
        .join(holdings, holdings.c.id == audits.c.holding)
        .where(has_proofs)
    )
    if only is not None:
        chosen = chosen.where(holdings.c.id.in_(only))
        carried_out = carried_out.where(audits.c.holding.in_(only))
    with transaction(engine) as connection:
        listed = connection.execute(chosen.order_by(holdings.c.id)).all()
        rows = connection.execute(carried_out.order_by(audits.c.holding, audits.c.number)).all()
    ids, names, numbers, blocks, moments = zip(*listed, strict=True) if listed else ((),) * 5
    columns_of = dict(zip(_ALL, zip(*rows, strict=True), strict=True)) if rows else {}
    added = np.array(moments, np.int64)
    sizes = np.maximum(np.array(blocks, np.int64), 1)  # an empty holding has nothing to lose
    log = _log(np.array(ids, np.int64), sizes, added, columns_of, unit, now)
    return Episodes(ids, names, numbers, log)


def _log(
    ids: IntArray,
    blocks: IntArray,
    added: IntArray,
    columns: Mapping[str, Sequence[Any]],
    unit: int,
    now: int,
) -> Log:
    def whole(name: str) -> IntArray:
        return np.array(columns.get(name, ()), np.int64)

    node = np.searchsorted(ids, whole("holding"))
    outcome = np.array(columns.get("outcome", ()), np.str_)
    counted = columns.get("found", ())
    found = np.array([NOT_COUNTED if count is None else count for count in counted], np.int64)
    rows = _is_row(node, outcome, found, whole("overrides"))
    kept = np.flatnonzero(rows & (whole("planted") == 0))

    # Rounding the time since the beginning, not each interval, lets no error add up.
    age = np.rint((whole("ended") - added[node]) / unit).astype(np.int64)[kept]
    node, latency = node[kept], np.array(columns.get("latency", ()), np.float64)[kept]
    new = np.diff(node, prepend=-1) > 0
    interval = np.where(new, age, np.diff(age, prepend=0))
    last = np.zeros(len(ids), np.int64)
    last[node] = age  # of equal nodes the last one stays
    ratio = np.array(columns.get("ratio", ()), np.float64)[kept].tolist()
    planned = whole("interval")[kept].tolist()
    return Log(
        blocks=blocks,
        elapsed=np.maximum(np.rint((now - added) / unit).astype(np.int64) - last, 0),
        node=node,
        interval=np.maximum(interval, 0),
        sampled=np.minimum(whole("samples")[kept], blocks[node]),
        failed=outcome[kept] != Outcome.PASSED,
        latency=np.where(latency > 0, latency, np.nan),
        damaged=np.minimum(found[kept], blocks[node]),
        action=np.array(
            [GRID.nearest(*action) for action in zip(planned, ratio, strict=True)], int
        ),
        observation=_observations([columns["observation"][row] for row in kept.tolist()]),
    )


def _is_row(node: IntArray, outcome: Any, found: IntArray, overrides: IntArray) -> BoolArray:
    """Return which audits are rows of the log.

    A time-out is cleared by the next audit that taught something, if that passed or not one damaged
    block was counted after it. A follow-up that fails like the audit before it met the same damage,
    which is known already.
    """
    teaching = np.flatnonzero(np.isin(outcome, [str(kind) for kind in TEACHING]))
    fine = (outcome == Outcome.PASSED) | (found == 0)
    cleared = found == 0
    before, after = teaching[:-1], teaching[1:]
    cleared[before] |= (node[before] == node[after]) & fine[after]
    silent = (outcome == Outcome.TIMED_OUT) & ((found > 0) | ~cleared)
    lost = np.isin(outcome, [str(kind) for kind in LOSSES]) & (found != 0)
    failed = lost | silent
    again = np.zeros(len(node), np.bool_)
    again[1:] = (node[1:] == node[:-1]) & failed[:-1]
    again &= (overrides & Override.FOLLOW_UP) > 0
    return np.asarray((outcome == Outcome.PASSED) | (failed & ~again), np.bool_)


def _observations(stored: Sequence[bytes]) -> Float32Array:
    whole = 4 * len(OBSERVATION)
    rows = [row if len(row) == whole else bytes(whole) for row in stored]
    return np.frombuffer(b"".join(rows), np.float32).reshape(-1, len(OBSERVATION))
