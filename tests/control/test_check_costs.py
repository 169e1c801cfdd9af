"""What checks cost in a month: as decided, as a promise takes, in the holding's own unit."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, update
from tests.support.checked_rows import add_checked, packs
from tests.support.simulated_fleet import START

from holdfast.control.planning.check_costs import CheckForecast, forecast_checks
from holdfast.control.planning.costs import MONTH
from holdfast.control.scheduling.coverage import CYCLE_SHARE
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.settings.models import ControlSettings, PriceSettings, read_control
from holdfast.durations import DAY
from holdfast.errors import InputError
from holdfast.storage.database import migrate, open_engine, transaction
from holdfast.storage.schema import holdings

SETTINGS = ControlSettings(rails=Rails(surprise=0.0))
PRICED = replace(SETTINGS, prices=PriceSettings(egress_gb=10.0, request=0.001))
NAMES = [group.name for group in packs(100)]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with open_engine(str(tmp_path / "holdfast.db")) as engine:
        migrate(engine)
        yield engine


def forecast(
    engine: Engine, settings: ControlSettings = SETTINGS, within: int | None = None
) -> CheckForecast:
    with transaction(engine) as connection:
        (only,) = forecast_checks(connection, settings, START + DAY, within)
    return only


def decide(engine: Engine, interval: int, ratio: float) -> None:
    with transaction(engine) as connection:
        connection.execute(update(holdings).values(interval=interval, ratio=ratio))


def test_a_month_as_decided_is_units_bytes_and_requests(engine: Engine) -> None:
    add_checked(engine, "attic", START)
    first = forecast(engine).as_decided
    interval, ratio = SETTINGS.rails.fail_safe
    assert first.units == pytest.approx(100 * ratio * MONTH / (interval * DAY))
    decide(engine, 5, 0.05)
    month = forecast(engine).as_decided
    assert month.units == pytest.approx(5 * MONTH / (5 * DAY))
    assert month.read_bytes == pytest.approx(1000 * month.units)
    assert month.requests == pytest.approx(month.units)
    assert month.money is None
    assert "30 packs, 29.7 KiB, 30 requests" in next(iter(forecast(engine).describe()))


def test_a_unit_costs_what_the_last_checks_read_for_one(engine: Engine) -> None:
    attic = add_checked(engine, "attic", START)
    attic.list_groups(packs(100), START)
    attic.check(START, NAMES[:10], read_bytes=50_000)
    decide(engine, 5, 0.05)
    month = forecast(engine, PRICED).as_decided
    assert month.read_bytes == pytest.approx(5000 * month.units)
    assert month.money == pytest.approx(month.read_bytes / 1e9 * 10 + month.requests / 1000)


def test_a_promise_is_priced_before_it_is_made_and_raises_the_cost_after(engine: Engine) -> None:
    add_checked(engine, "attic", START)
    decide(engine, 20, 0.01)
    supposed = forecast(engine, within=10 * DAY)
    assert supposed.to_keep is not None
    assert supposed.to_keep.units == pytest.approx(100 * MONTH / (CYCLE_SHARE * 10 * DAY))
    assert supposed.as_decided.units < 3
    assert list(supposed.describe())[1].startswith("  every pack within 10 days takes at least 456")


def test_what_a_promise_takes_is_what_checks_read_whatever_the_policy_chose(
    engine: Engine,
) -> None:
    add_checked(engine, "attic", START, verify_within=10 * DAY)
    decide(engine, 20, 0.01)
    kept = forecast(engine)
    assert kept.to_keep == kept.as_decided
    cheaper = forecast(engine, within=20 * DAY)
    assert cheaper.to_keep is not None
    assert cheaper.to_keep.units < cheaper.as_decided.units == kept.as_decided.units


def test_a_tool_that_chooses_reads_all_of_it_once_within_the_time(engine: Engine) -> None:
    attic = add_checked(engine, "attic", START, units=600, verify_within=30 * DAY)
    attic.list_whole(600, START)
    to_keep = forecast(engine).to_keep
    assert to_keep is not None
    assert to_keep.units == pytest.approx(600 * MONTH / (30 * DAY))


def test_prices_come_from_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text("[control.prices]\negress_gb = 0.09\nrequest = 0.0000004\n")
    prices = read_control(tmp_path).prices
    assert prices.money(2e9, 10**6) == pytest.approx(0.18 + 0.4)
    assert PriceSettings().money(1e9, 5) is None
    file.write_text("[control.prices]\negress_gb = -1.0\n")
    with pytest.raises(InputError, match=r"egress_gb in \[control.prices\] must be at least 0"):
        read_control(tmp_path)
    file.write_text("[control.prices]\negress = 1.0\n")
    with pytest.raises(InputError, match="did you mean 'egress_gb'"):
        read_control(tmp_path)
