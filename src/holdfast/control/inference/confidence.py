"""How much of each holding may be damaged: inferred at once for the fleet, or kept in a table.

The table is for lists that can't wait. It is refreshed in parts: after an audit, and once per unit
of time, as damage may grow.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Engine, delete, func, insert, or_, select

from holdfast.control.inference.audit_log import read_episodes
from holdfast.control.inference.canaries import read_trials
from holdfast.control.inference.fits import latest_fit
from holdfast.control.policies.aliases import read_aliases
from holdfast.control.policies.promotion import standing_ceiling
from holdfast.control.policies.versions import Registry
from holdfast.control.scheduling.guardrails import DAY
from holdfast.control.settings.models import ControlSettings
from holdfast.errors import InputError
from holdfast.inference.confidence import confidence, damage
from holdfast.inference.efficacy import efficacy
from holdfast.inference.fit import Fitted, fit
from holdfast.model.estimate import Estimate
from holdfast.policy.serving import load_serving
from holdfast.storage.database import transaction
from holdfast.storage.schema import confidences, fits, holdings

# Holdings of one size that are refreshed at once: with 100 audits of each, 250 MB.
MAX_HOLDINGS = 2000
# Without a stored fit, one is made from this many holdings, and again after a day.
FIT_HOLDINGS = 256


@dataclass(frozen=True)
class HoldingConfidence:
    holding: str
    at_most: float  # share of its blocks damaged, at 95 %
    damaged: float  # probability that any block is


@dataclass(frozen=True)
class ConfidenceReport:
    """What was inferred as of a moment; the worst holding first."""

    at: int
    miss_rate: Estimate
    ceiling: float | None  # that is declared for it
    detections: int
    fleet_at_most: float
    holdings: tuple[HoldingConfidence, ...]


def infer_confidence(engine: Engine, settings: ControlSettings, now: int) -> ConfidenceReport:
    """Infer misses and damage from the whole log, with the latest fit or one made now."""
    episodes = read_episodes(engine, settings.rails.unit, now)
    works = efficacy(read_trials(engine))
    fitted = latest_fit(engine) or fit(episodes.log, settings.scenario)
    inferred = confidence(episodes.log, fitted, efficacy=works)
    at_most, damaged = inferred.at_most, inferred.damaged
    worst = (-at_most).argsort(kind="stable").tolist()
    return ConfidenceReport(
        now,
        inferred.miss_rate,
        declared_ceiling(engine, settings),
        inferred.detections,
        inferred.fleet_at_most,
        tuple(
            HoldingConfidence(episodes.names[at], float(at_most[at]), float(damaged[at]))
            for at in worst
        ),
    )


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
    """Keeps the table; remembers a fit that it had to make itself."""

    def __init__(self, engine: Engine, settings: ControlSettings) -> None:
        self._engine, self._settings = engine, settings
        self._own_fit: tuple[int, Fitted] | None = None

    def refresh(self, now: int) -> int:
        """Refresh holdings of one size, those that waited longest; return how many."""
        stale = self._stale(now)
        if not stale:
            return 0
        try:
            fitted = self._fitted(now)
        except InputError:  # no audit has taught anything yet
            return 0
        episodes = read_episodes(self._engine, self._settings.rails.unit, now, stale)
        inferred = damage(episodes.log, fitted, efficacy=efficacy(read_trials(self._engine)))
        shares = (inferred.at_most.tolist(), inferred.damaged.tolist())
        columns = (episodes.ids, episodes.numbers, *shares)
        rows = [
            {"holding": id_, "at": now, "number": number, "at_most": most, "damaged": any_}
            for id_, number, most, any_ in zip(*columns, strict=True)
        ]
        with transaction(self._engine) as connection:
            connection.execute(delete(confidences).where(confidences.c.holding.in_(episodes.ids)))
            connection.execute(insert(confidences), rows)
        return len(rows)

    def _stale(self, now: int) -> list[int]:
        """Return holdings of the size that has waited longest."""
        joined = holdings.outerjoin(confidences, confidences.c.holding == holdings.c.id)
        since = func.coalesce(confidences.c.at, 0)
        query = select(holdings.c.blocks).select_from(joined).where(self._waiting(now))
        same = select(holdings.c.id).select_from(joined).where(self._waiting(now))
        with transaction(self._engine) as connection:
            size = connection.execute(query.order_by(since, holdings.c.id).limit(1)).scalar()
            if size is None:
                return []
            same = same.where(holdings.c.blocks == size).order_by(since, holdings.c.id)
            return list(connection.execute(same.limit(MAX_HOLDINGS)).scalars())

    def _waiting(self, now: int) -> ColumnElement[bool]:
        at = confidences.c
        return or_(
            at.holding.is_(None),
            at.number != holdings.c.number,
            at.at <= now - self._settings.rails.unit,
            at.at > now,  # by a clock that was set back since
            at.at < select(func.coalesce(func.max(fits.c.at), 0)).scalar_subquery(),
        )

    def _fitted(self, now: int) -> Fitted:
        stored = latest_fit(self._engine)
        if stored is not None:
            return stored
        if self._own_fit is None or not self._own_fit[0] <= now < self._own_fit[0] + DAY:
            with transaction(self._engine) as connection:
                query = select(holdings.c.id).order_by(holdings.c.id)
                ids = list(connection.execute(query).scalars())
            some = ids[:: max(1, len(ids) // FIT_HOLDINGS)]
            log = read_episodes(self._engine, self._settings.rails.unit, now, some).log
            self._own_fit = now, fit(log, self._settings.scenario)
        return self._own_fit[1]
