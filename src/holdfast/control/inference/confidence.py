"""How sure an owner can be of each holding, as inference has it: told at once, or kept in a table.

The table is for lists that can't wait. It is refreshed bit by bit: after an audit, and once a unit
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
from holdfast.inference.estimate import Estimate
from holdfast.inference.fit import Fitted, fit
from holdfast.policy.serving import serving
from holdfast.storage.database import transaction
from holdfast.storage.schema import confidences, fits, holdings

# Holdings of one size that are refreshed at once: with 100 audits of each, 250 MB.
MOST = 2000
# Where no fit is kept, one is made of so many holdings, and made anew after a day.
FEW = 256


@dataclass(frozen=True)
class HoldingSaid:
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
    holdings: tuple[HoldingSaid, ...]


def say_now(engine: Engine, settings: ControlSettings, now: int) -> ConfidenceReport:
    """Return what the whole log says, by the latest fit or by one made now."""
    known = read_episodes(engine, settings.rails.unit, now)
    works = efficacy(read_trials(engine))
    fitted = latest_fit(engine) or fit(known.log, settings.scenario)
    told = confidence(known.log, fitted, works=works)
    worst = (-told.at_most).argsort(kind="stable").tolist()
    return ConfidenceReport(
        now,
        told.miss_rate,
        declared_ceiling(engine, settings),
        told.detections,
        told.fleet_at_most,
        tuple(
            HoldingSaid(known.names[at], float(told.at_most[at]), float(told.damaged[at]))
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
        return serving(settings.policy, settings.scenario).rho
    return standing_ceiling(engine, Registry(engine).serving(champion))


class Confidences:
    """Keeps the table; whoever does so remembers the fit that it had to make."""

    def __init__(self, engine: Engine, settings: ControlSettings) -> None:
        self._engine, self._settings = engine, settings
        self._made: tuple[int, Fitted] | None = None

    def refresh(self, now: int) -> int:
        """Refresh holdings of one size, those that waited longest; return how many."""
        stale = self._stale(now)
        if not stale:
            return 0
        try:
            fitted = self._fitted(now)
        except InputError:  # no audit has taught anything yet
            return 0
        known = read_episodes(self._engine, self._settings.rails.unit, now, stale)
        told = damage(known.log, fitted, works=efficacy(read_trials(self._engine)))
        columns = (known.ids, known.numbers, told.at_most.tolist(), told.damaged.tolist())
        rows = [
            {"holding": id_, "at": now, "number": number, "at_most": most, "damaged": any_}
            for id_, number, most, any_ in zip(*columns, strict=True)
        ]
        with transaction(self._engine) as connection:
            connection.execute(delete(confidences).where(confidences.c.holding.in_(known.ids)))
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
            return list(connection.execute(same.limit(MOST)).scalars())

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
        kept = latest_fit(self._engine)
        if kept is not None:
            return kept
        if self._made is None or not self._made[0] <= now < self._made[0] + DAY:
            with transaction(self._engine) as connection:
                ids = connection.execute(select(holdings.c.id).order_by(holdings.c.id))
                every = list(ids.scalars())
            some = every[:: max(1, len(every) // FEW)]
            log = read_episodes(self._engine, self._settings.rails.unit, now, some).log
            self._made = now, fit(log, self._settings.scenario)
        return self._made[1]
