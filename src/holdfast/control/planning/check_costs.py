"""What checks by tools cost in a month: units, bytes, requests and money, each holding by itself.

Bytes and requests per unit are those of the last checks, or else the size of the storage.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection

from holdfast.control.planning.costs import MONTH
from holdfast.control.queries.check_loads import CheckLoad, list_loads
from holdfast.control.scheduling.coverage import CYCLE_SHARE
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.settings.models import ControlSettings, PriceSettings
from holdfast.durations import DAY, format_duration
from holdfast.model.detection import samples
from holdfast.words import money, plural, size

RAISE_BYTES = "raise daily_bytes in [control.checks]"


@dataclass(frozen=True)
class MonthlyCost:
    """What a month costs, in the holding's own unit."""

    units: float
    read_bytes: float
    requests: float
    money: float | None  # none without prices

    def describe(self, unit: str) -> str:
        costs = "" if self.money is None else f", {money(self.money)} in money"
        parts = f"{plural(round(self.units), unit)}, {size(self.read_bytes)}"
        return f"{parts}, {plural(round(self.requests), 'request')}{costs}"


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
    shortfall: str | None = None  # why the promise can't be kept

    def describe(self) -> Iterator[str]:
        yield f"{self.holding} ({self.kind}): a month of checks reads " + self.as_decided.describe(
            self.unit
        )
        if self.to_keep is not None and self.verify_within is not None:
            promise = f"every {self.unit} within {format_duration(self.verify_within)}"
            yield f"  {promise} takes at least {self.to_keep.describe(self.unit)}"
        if self.shortfall is not None:
            yield f"  {self.shortfall}: {RAISE_BYTES}"


def forecast_checks(
    connection: Connection, settings: ControlSettings, now: int, verify_within: int | None = None
) -> list[CheckForecast]:
    """Return the forecasts by name; `verify_within` supposes a promise for all of them."""
    rows = list_loads(connection, now)
    return [_forecast(load, settings, verify_within or load.verify_within) for load in rows]


def describe_shortfall(
    length: int, within: int | None, settings: ControlSettings, *, whole: bool
) -> str | None:
    """Say that the bytes of a day can't keep a promise about so many bytes; None if they can."""
    daily = settings.checks.daily_bytes
    if daily is None or within is None:
        return None
    takes = length * DAY / daily / (1 if whole else CYCLE_SHARE)
    if takes <= within:
        return None
    days, promised = plural(math.ceil(takes / DAY), "day"), format_duration(within)
    return f"at {size(daily)} a day {size(length)} take {days}, and {promised} were promised"


def promised_units(units: int, within: int, *, whole: bool) -> float:
    """Return how many units a month are read to keep a promise; a whole tool reads all at once."""
    return units * MONTH / (within if whole else CYCLE_SHARE * within)


def _forecast(load: CheckLoad, settings: ControlSettings, within: int | None) -> CheckForecast:
    rails = settings.rails
    to_keep = None
    if within is not None:
        promised = promised_units(load.units, within, whole=load.whole)
        to_keep = _cost(load, promised, settings.prices)
    units = _decided_units(load, rails)
    if load.verify_within is not None:  # the rail reads that much, whatever the policy chooses
        units = max(units, promised_units(load.units, load.verify_within, whole=load.whole))
    decided = _cost(load, units, settings.prices)
    return CheckForecast(
        holding=load.name,
        kind=load.kind,
        unit=load.unit,
        units=load.units,
        bytes=load.bytes,
        as_decided=decided,
        verify_within=within,
        to_keep=to_keep,
        shortfall=describe_shortfall(load.bytes, within, settings, whole=load.whole),
    )


def _decided_units(load: CheckLoad, rails: Rails) -> float:
    """Return how many units a month the decision in force reads; at first, the fail-safe's."""
    interval, ratio = (load.interval, load.ratio) if load.interval else rails.fail_safe
    checks = MONTH / (interval * rails.unit) * rails.audits_per_interval
    return float(samples(ratio, max(load.units, 1), max(load.units, 1)) * checks)


def _cost(load: CheckLoad, units: float, prices: PriceSettings) -> MonthlyCost:
    per_unit, requests = load.bytes / max(load.units, 1), 1.0
    if load.read and load.read_bytes:
        per_unit, requests = load.read_bytes / load.read, load.requests / load.read
    read_bytes, asked = units * per_unit, units * requests
    return MonthlyCost(units, read_bytes, asked, prices.money(read_bytes, asked))
