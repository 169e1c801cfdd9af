"""What checks by tools cost in a month: units, bytes, requests and money, each holding by itself.

Bytes and requests per unit are those of the last checks, or else the size of the storage.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, select

from holdfast.control.planning.costs import MONTH
from holdfast.control.scheduling.coverage import CYCLE_SHARE, WHOLE
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.settings.models import ControlSettings, PriceSettings
from holdfast.durations import DAY, format_duration
from holdfast.model.detection import samples
from holdfast.storage.home_schema import checked_holdings
from holdfast.storage.schema import audits, check_groups, holdings
from holdfast.words import plural, size

MEASURED_WITHIN = 90 * DAY  # for which checks that ended say what a unit costs


@dataclass(frozen=True)
class MonthlyCost:
    """What a month costs, in the holding's own unit."""

    units: float
    read_bytes: float
    requests: float
    money: float | None  # none without prices

    def describe(self, unit: str) -> str:
        money = "" if self.money is None else f", {self.money:,.2f} in money"
        parts = f"{plural(round(self.units), unit)}, {size(self.read_bytes)}"
        return f"{parts}, {plural(round(self.requests), 'request')}{money}"


@dataclass(frozen=True)
class CheckForecast:
    """What checks of a holding cost in a month as they are decided now, and to keep a promise."""

    holding: str
    kind: str
    unit: str
    units: int
    bytes: int
    as_decided: MonthlyCost
    verify_within: int | None  # milliseconds, as the owner asked for or the plan supposes
    to_keep: MonthlyCost | None  # what that takes, at least

    def describe(self) -> Iterator[str]:
        yield f"{self.holding} ({self.kind}): a month of checks reads " + self.as_decided.describe(
            self.unit
        )
        if self.to_keep is not None and self.verify_within is not None:
            promise = f"every {self.unit} within {format_duration(self.verify_within)}"
            yield f"  {promise} takes at least {self.to_keep.describe(self.unit)}"


def forecast_checks(
    connection: Connection, settings: ControlSettings, now: int, verify_within: int | None = None
) -> list[CheckForecast]:
    """Return the forecasts by name; `verify_within` supposes a promise for all of them."""
    since = (audits.c.checked, audits.c.ended > now - MEASURED_WITHIN, audits.c.samples > 0)
    measured = (
        select(
            audits.c.holding,
            func.sum(audits.c.samples).label("read"),
            func.sum(audits.c.read_bytes).label("read_bytes"),
            func.sum(audits.c.requests).label("requests"),
        )
        .where(*since)
        .group_by(audits.c.holding)
        .subquery()
    )
    whole = select(check_groups.c.holding).where(check_groups.c.name == WHOLE.encode()).subquery()
    record = checked_holdings.c
    query = (
        select(record.name, record.kind, record.unit, record.units, record.bytes)
        .add_columns(record.verify_within, holdings.c.interval, holdings.c.ratio)
        .add_columns(measured.c.read, measured.c.read_bytes, measured.c.requests)
        .add_columns(whole.c.holding.label("whole"))
        .outerjoin(holdings, holdings.c.id == record.scheduled)
        .outerjoin(measured, measured.c.holding == record.scheduled)
        .outerjoin(whole, whole.c.holding == record.scheduled)
        .order_by(record.name)
    )
    rows = connection.execute(query)
    return [_forecast(row, settings, verify_within or row.verify_within) for row in rows]


def promised_units(units: int, within: int, *, whole: bool) -> float:
    """Return how many units a month are read to keep a promise; a whole tool reads all at once."""
    return units * MONTH / (within if whole else CYCLE_SHARE * within)


def _forecast(row: Row[Any], settings: ControlSettings, within: int | None) -> CheckForecast:
    rails = settings.rails
    to_keep = None
    if within is not None:
        promised = promised_units(row.units, within, whole=row.whole is not None)
        to_keep = _cost(row, promised, settings.prices)
    decided = _cost(row, _decided_units(row, rails), settings.prices)
    if to_keep is not None and within == row.verify_within and to_keep.units > decided.units:
        decided = to_keep  # the rail reads that much, whatever the policy chooses
    return CheckForecast(
        row.name, row.kind, row.unit, row.units, row.bytes, decided, within, to_keep
    )


def _decided_units(row: Row[Any], rails: Rails) -> float:
    """Return how many units a month the decision in force reads; at first, the fail-safe's."""
    interval, ratio = (row.interval, row.ratio) if row.interval else rails.fail_safe
    checks = MONTH / (interval * rails.unit) * rails.audits_per_interval
    return float(samples(ratio, max(row.units, 1), max(row.units, 1)) * checks)


def _cost(row: Row[Any], units: float, prices: PriceSettings) -> MonthlyCost:
    per_unit, requests = row.bytes / max(row.units, 1), 1.0
    if row.read:
        per_unit, requests = float(row.read_bytes / row.read), float(row.requests / row.read)
    read_bytes, asked = units * per_unit, units * requests
    return MonthlyCost(units, read_bytes, asked, prices.money(read_bytes, asked))
