"""Keeps what is inferred of each holding's damage and of the fleet in tables, and refreshes it.

Every reader takes the figures from there. A holding is refreshed after an audit and once per unit
of time, as damage may grow. Results are collected as parts. They are published in one transaction
once every holding has a part of the same basis, so nobody ever reads half of a refresh, and a
refresh that was interrupted resumes.
"""

import hashlib
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import ColumnElement, Connection, Engine, and_, delete, func, insert, or_, select
from sqlalchemy import update as update_table

from holdfast.control.inference.audit_log import Episodes, read_episodes
from holdfast.control.inference.canaries import read_trials
from holdfast.control.inference.fits import latest_fit
from holdfast.control.inference.refresh_lease import RefreshLease, Renew
from holdfast.control.policies.aliases import read_aliases
from holdfast.control.policies.promotion import standing_ceiling
from holdfast.control.policies.versions import Registry
from holdfast.control.settings.models import ControlSettings
from holdfast.durations import DAY
from holdfast.errors import InputError
from holdfast.inference.confidence import SAMPLES, NodeDamage, infer_nodes, summarise
from holdfast.inference.efficacy import Efficacy, efficacy
from holdfast.inference.fit import Fitted, fit
from holdfast.inference.size_classes import size_classes
from holdfast.model.arrays import IntArray
from holdfast.policy.serving import load_serving
from holdfast.storage.database import transaction
from holdfast.storage.inference_schema import confidence_parts as parts
from holdfast.storage.inference_schema import confidences, fleet_confidence
from holdfast.storage.schema import has_proofs, holdings

MAX_HOLDINGS = 256  # refreshed at once; they belong to one size class
# Without a stored fit, one is made from this many holdings, and again after a day.
FIT_HOLDINGS = 256

_SHOWN = ("holding", "at", "number", "at_most", "damaged")
OnProgress = Callable[[int, int], None]  # how many holdings are done, and of how many


@dataclass(frozen=True, eq=False)
class Basis:
    """What figures are inferred from beside the log. Only parts of one basis can be summed."""

    fitted: Fitted
    efficacy: Efficacy
    id: str


def declared_ceiling(engine: Engine, settings: ControlSettings) -> float | None:
    """Return the miss rate to stay below: the settings', or else the one the champion is for."""
    if settings.promotion.ceiling is not None:
        return settings.promotion.ceiling
    with transaction(engine) as connection:
        champion = read_aliases(connection).champion
    if champion is None:
        return load_serving(settings.policy, settings.scenario).rho
    return standing_ceiling(engine, Registry(engine).serving(champion))


class Confidences:
    """Keeps the tables of one home. Only one process of a home refreshes them at a time."""

    def __init__(self, engine: Engine, settings: ControlSettings) -> None:
        self._engine, self._settings = engine, settings
        self._lease = RefreshLease(engine)

    def refresh(self, now: int) -> int:
        """Refresh stale holdings of one size class, those that waited longest; return how many."""
        with self._lease.hold(now) as renew:
            if renew is None:  # another process refreshes
                return 0
            try:
                basis = self._basis(now, renew)
            except InputError:  # no audit has taught anything yet
                return 0
            return self._refresh_class(basis, now, renew)

    def refresh_all(self, now: int, on_progress: OnProgress) -> bool:
        """Infer everything anew; return whether it was done. Another process may be at it."""
        with self._lease.hold(now) as renew:
            if renew is None:
                return False
            with transaction(self._engine) as connection:
                connection.execute(delete(parts))
                count = select(func.count()).select_from(holdings).where(has_proofs)
                total = connection.execute(count).scalar_one()
            on_progress(0, total)
            basis, done = self._basis(now, renew, refit=True), 0
            while refreshed := self._refresh_class(basis, now, renew, missing_only=True):
                done += refreshed
                on_progress(done, max(done, total))
            return True

    def _refresh_class(
        self,
        basis: Basis,
        now: int,
        renew: Renew,
        *,
        missing_only: bool = False,
    ) -> int:
        """Refresh holdings of one size class; only those without a part, if asked to."""
        class_of, stale = self._stale(basis.id, None if missing_only else now)
        if not stale:
            return 0
        episodes = read_episodes(self._engine, self._settings.rails.unit, now, stale)
        if not episodes.ids:  # removed meanwhile
            return 0
        inferred = infer_nodes(
            episodes.log,
            basis.fitted,
            np.array([class_of.get(size, size) for size in episodes.log.blocks.tolist()]),
            efficacy=basis.efficacy,
            stream=episodes.ids[0],
            on_world=renew,
        )
        rows = _part_rows(basis.id, now, episodes, inferred)
        with transaction(self._engine) as connection:
            connection.execute(delete(parts).where(parts.c.holding.in_(episodes.ids)))
            connection.execute(insert(parts), rows)
            _publish(connection, basis.id)
        return len(rows)

    def _stale(self, basis: str, now: int | None) -> tuple[dict[int, int], list[int]]:
        """Return the class of each size, and stale holdings of the class that waited longest.

        Without a time, only holdings without a part are stale.
        """
        outdated = [parts.c.holding.is_(None), parts.c.basis != basis]
        if now is not None:
            outdated += [
                parts.c.number != holdings.c.number,
                parts.c.at <= now - self._settings.rails.unit,
                parts.c.at > now,  # by a clock that was set back since
            ]
        joined = holdings.outerjoin(parts, parts.c.holding == holdings.c.id)
        query = select(holdings.c.id, holdings.c.blocks).select_from(joined)
        query = query.where(has_proofs, or_(*outdated))
        distinct = select(holdings.c.blocks).where(has_proofs).distinct()
        with transaction(self._engine) as connection:
            order = func.coalesce(parts.c.at, 0), holdings.c.id
            stale = connection.execute(query.order_by(*order)).all()
            sizes = connection.execute(distinct).scalars().all()
        if not stale:
            return {}, []
        known = np.maximum(np.array(sizes, np.int64), 1)
        class_of = dict(zip(known.tolist(), size_classes(known).tolist(), strict=True))
        first = class_of[max(stale[0].blocks, 1)]
        same = [row.id for row in stale if class_of[max(row.blocks, 1)] == first]
        return class_of, sorted(same[:MAX_HOLDINGS])

    def _basis(self, now: int, renew: Renew, *, refit: bool = False) -> Basis:
        stored, trials = latest_fit(self._engine), read_trials(self._engine)
        fitted = stored or self._own_fit(now, renew, refit=refit)
        digest = hashlib.sha256(json.dumps(fitted.document(), sort_keys=True).encode())
        digest.update(trials.expected.tobytes() + trials.detected.tobytes())
        return Basis(fitted, efficacy(trials), digest.hexdigest()[:32])

    def _own_fit(self, now: int, renew: Renew, *, refit: bool) -> Fitted:
        """Return the fit that was made where none is stored; after a day, make another."""
        kept = fleet_confidence.c
        with transaction(self._engine) as connection:
            made, text = connection.execute(select(kept.fitted, kept.fit)).one()
            listed = select(holdings.c.id).where(has_proofs).order_by(holdings.c.id)
            ids = connection.execute(listed).scalars().all()
        last = Fitted.of_document(json.loads(text)) if text and not refit else None
        if last is not None and made <= now < made + DAY:
            return last
        some = ids[:: max(1, len(ids) // FIT_HOLDINGS)]
        log = read_episodes(self._engine, self._settings.rails.unit, now, some).log
        fitted = fit(log, self._settings.scenario, start=last, on_round=renew)
        with transaction(self._engine) as connection:
            values = {"fit": json.dumps(fitted.document()), "fitted": now}
            connection.execute(update_table(fleet_confidence).values(values))
        return fitted


def _part_rows(
    basis: str, now: int, episodes: Episodes, inferred: NodeDamage
) -> list[dict[str, object]]:
    log = episodes.log
    detections = np.bincount(log.node[log.failed], minlength=log.nodes)
    samples = np.stack([inferred.misses, inferred.lost], axis=1).astype("<i8")
    return [
        {
            "holding": holding,
            "basis": basis,
            "at": now,
            "number": episodes.numbers[node],
            "at_most": float(inferred.at_most[node]),
            "damaged": float(inferred.damaged[node]),
            "detections": int(detections[node]),
            "samples": zlib.compress(samples[node].tobytes(), 1),
        }
        for node, holding in enumerate(episodes.ids)
    ]


def _publish(connection: Connection, basis: str) -> None:
    """Replace what readers see, if every holding has a part of this basis."""
    proven = select(holdings.c.id).where(has_proofs)
    connection.execute(delete(parts).where(parts.c.holding.not_in(proven)))
    joined = holdings.outerjoin(parts, _is_part_of(basis))
    columns = (parts.c.holding, parts.c.at, parts.c.detections, parts.c.samples, holdings.c.blocks)
    rows = connection.execute(select(*columns).select_from(joined).where(has_proofs)).all()
    if any(row.holding is None for row in rows):
        return
    misses, lost = _sums([row.samples for row in rows])
    fleet = summarise(
        misses,
        lost,
        detections=sum(row.detections for row in rows),
        blocks=sum(row.blocks for row in rows),
    )
    rate = fleet.miss_rate
    values = {
        "basis": basis,
        "at": min(row.at for row in rows),
        "miss_rate": rate.value,
        "miss_rate_low": rate.low,
        "miss_rate_high": rate.high,
        "detections": fleet.detections,
        "at_most": fleet.fleet_at_most,
    }
    connection.execute(update_table(fleet_confidence).values(values))
    same = and_(*(confidences.c[name] == parts.c[name] for name in _SHOWN))
    connection.execute(delete(confidences).where(~select(parts.c.holding).where(same).exists()))
    kept = select(confidences.c.holding).where(confidences.c.holding == parts.c.holding)
    changed = select(*(parts.c[name] for name in _SHOWN)).where(~kept.exists())
    connection.execute(insert(confidences).from_select(list(_SHOWN), changed))


def _is_part_of(basis: str) -> ColumnElement[bool]:
    return and_(parts.c.holding == holdings.c.id, parts.c.basis == basis)


def _sums(samples: Sequence[bytes]) -> tuple[IntArray, IntArray]:
    """Return the fleet's misses and lost blocks in every history."""
    total = np.zeros(2 * SAMPLES, np.int64)
    for packed in samples:
        total += np.frombuffer(zlib.decompress(packed), "<i8")
    misses, lost = total.reshape(2, SAMPLES)
    return misses, lost
