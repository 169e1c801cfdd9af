"""Canaries: damage that the owner plants in a holding, so that misses can be observed.

Until it is lifted, failed audits of that holding are no incidents, and inference ignores its
audits. The evidence records planting and lifting.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import ColumnElement, Connection, Engine, and_, insert, select, update

from holdfast.control.incidents.store import record_response
from holdfast.control.incidents.types import ResponseRecord
from holdfast.control.scheduling.telemetry import LOSSES
from holdfast.errors import InputError
from holdfast.evidence import leaf
from holdfast.evidence.leaf import Outcome
from holdfast.inference.efficacy import Trials
from holdfast.model.detection import detection_probability
from holdfast.pdp.spans import Spans
from holdfast.storage.database import transaction
from holdfast.storage.inference_schema import canaries
from holdfast.storage.schema import NEVER, audits, holdings

Flip = Callable[[Sequence[int]], None]  # does the damage, and undoes it


@dataclass(frozen=True)
class Canary:
    holding: str
    blocks: int
    planted: int
    found: int | None
    lifted: int | None


def plant(engine: Engine, name: str, blocks: Sequence[int], flip: Flip, now: int) -> None:
    """Damage the blocks and record it; if either fails, neither has happened."""
    with transaction(engine) as connection:
        holding, number = _holding(connection, name)
        if connection.execute(select(canaries.c.id).where(*_is_planted(holding))).first():
            raise InputError(f"holding {name!r} has a canary already: lift it first")
        row = {"holding": holding, "damaged": json.dumps(list(blocks)), "planted": now}
        connection.execute(insert(canaries).values(row))
        _record(connection, holding, number, leaf.Step.PLANTED, blocks, now)
        flip(blocks)


def lift(engine: Engine, name: str, flip: Flip, now: int) -> None:
    """Put the blocks of a canary back."""
    with transaction(engine) as connection:
        holding, number = _holding(connection, name)
        damaged = update(canaries).where(*_is_planted(holding)).values(lifted=now)
        text = connection.execute(damaged.returning(canaries.c.damaged)).scalar()
        if text is None:
            raise InputError(f"holding {name!r} has no canary")
        blocks = json.loads(text)
        _record(connection, holding, number, leaf.Step.LIFTED, blocks, now)
        flip(blocks)


def listing(engine: Engine) -> list[Canary]:
    query = select(canaries, holdings.c.name).join(holdings, holdings.c.id == canaries.c.holding)
    with transaction(engine) as connection:
        rows = connection.execute(query.order_by(canaries.c.id)).all()
    return [
        Canary(
            row.name,
            len(json.loads(row.damaged)),
            row.planted,
            None if row.found == NEVER else row.found,
            None if row.lifted == NEVER else row.lifted,
        )
        for row in rows
    ]


def read_trials(engine: Engine) -> Trials:
    """Return the audits that met planted damage, per canary up to the first that detected it."""
    during = and_(
        audits.c.holding == canaries.c.holding,
        audits.c.ended > canaries.c.planted,
        audits.c.ended <= canaries.c.lifted,
        audits.c.outcome.in_([Outcome.PASSED, *LOSSES]),
    )
    query = (
        select(canaries.c.id, canaries.c.damaged, audits.c.samples, audits.c.outcome)
        .add_columns(holdings.c.blocks)
        .join(audits, during)
        .join(holdings, holdings.c.id == canaries.c.holding)
        .order_by(canaries.c.id, audits.c.number)
    )
    detected_canaries: set[int] = set()
    expected, detected = [], []
    with transaction(engine) as connection:
        for row in connection.execute(query):
            if row.id not in detected_canaries:
                damaged = len(json.loads(row.damaged))
                expected.append(float(detection_probability(damaged, row.samples, row.blocks)))
                detected.append(row.outcome in LOSSES)
                detected_canaries |= {row.id} if detected[-1] else set()
    return Trials(np.array(expected, np.float64), np.array(detected, np.bool_))


def _holding(connection: Connection, name: str) -> tuple[int, int]:
    query = select(holdings.c.id, holdings.c.number).where(holdings.c.name == name)
    row = connection.execute(query).first()
    if row is None:
        raise InputError(f"holding {name!r} is not on the schedule")
    if not row.number:
        raise InputError(f"holding {name!r} was never audited: wait for its first audit")
    return row.id, row.number


def _is_planted(holding: int) -> tuple[ColumnElement[bool], ...]:
    return canaries.c.holding == holding, canaries.c.lifted == NEVER


def _record(
    connection: Connection,
    holding: int,
    number: int,
    step: leaf.Step,
    blocks: Sequence[int],
    now: int,
) -> None:
    spans = tuple(leaf.Span(*span) for span in Spans.of_blocks(sorted(blocks)))
    detail = f"a canary of {len(blocks)} damaged blocks"
    record_response(connection, holding, number, ResponseRecord(step, detail, spans), now)
