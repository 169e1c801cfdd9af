"""What a version in shadow would cost: figures that can be reckoned by hand."""

from typing import Any

import pytest
from sqlalchemy import Engine, insert

from holdfast.control.comparison import compare
from holdfast.control.database import transaction
from holdfast.control.rails import DAY, HOUR, Override
from holdfast.control.schema import shadow_decisions

START = 1_800_000_000_000


def row(holding: int, number: int, **changes: Any) -> dict[str, Any]:
    """Return a decision: the champion takes 10 days and 0.4 gas, the challenger 5 and 0.1."""
    plain = {
        "holding": holding,
        "number": number,
        "at": START + number * DAY,
        "version": "new",
        "chosen": 1,
        "interval": 5,
        "ratio": 0.05,
        "overrides": 0,
        "gas": 0.1,
        "champion": "old",
        "champion_chosen": 2,
        "champion_interval": 10,
        "champion_ratio": 0.20,
        "champion_overrides": 0,
        "champion_gas": 0.4,
    }
    return plain | changes


def write(engine: Engine, *rows: dict[str, Any]) -> None:
    with transaction(engine) as connection:
        connection.execute(insert(shadow_decisions), list(rows))


def test_decisions_count_for_as_long_as_they_are_in_force(engine: Engine) -> None:
    short = {"champion_interval": 1, "champion_gas": 0.4, "interval": 1, "gas": 0.4, "chosen": 2}
    write(engine, row(1, 1), row(1, 2, **short), row(2, 1), row(2, 4))
    found = compare(engine, "new", "old", unit=DAY)
    assert found is not None
    assert (found.decisions, found.holdings, found.span) == (4, 2, 3 * DAY)
    assert found.agreement.value == 0.25
    assert (found.interval.champion, found.interval.challenger) == (31 / 4, 16 / 4)
    assert found.gas_per_audit.champion == pytest.approx(0.4)
    assert found.gas_per_audit.challenger == pytest.approx(0.7 / 4)
    # Of 31 days, 30 at 0.04 a day or 0.02, and one at 0.4.
    assert found.gas_per_month.champion == pytest.approx(30 * 1.6 / 31)
    assert found.gas_per_month.challenger == pytest.approx(30 * (30 * 0.02 + 0.4) / 31)
    assert found.gas_change.value == pytest.approx(1.0 / 1.6 - 1)
    assert found.gas_change.low < found.gas_change.value < found.gas_change.high
    hourly = compare(engine, "new", "old", unit=HOUR)
    assert hourly is not None
    assert hourly.gas_per_month.champion == pytest.approx(24 * found.gas_per_month.champion)


def test_rails_are_counted_and_states_that_begin_are_left_out(engine: Engine) -> None:
    write(
        engine,
        row(1, 1, overrides=int(Override.STATE)),
        row(2, 1, champion_overrides=int(Override.STATE | Override.ENVELOPE)),
        row(3, 1, overrides=int(Override.ENVELOPE)),
        row(4, 1, overrides=int(Override.LONGEST), champion_overrides=int(Override.TELEMETRY)),
        row(5, 1, overrides=int(Override.QUIET)),
        row(6, 1),
    )
    found = compare(engine, "new", "old", unit=DAY)
    assert found is not None
    assert found.decisions == 4
    assert (found.rails.champion, found.rails.challenger) == (0.25, 0.5)
    assert (found.outside.champion, found.outside.challenger) == (0, 0.25)


def test_only_what_was_beside_this_champion_counts(engine: Engine) -> None:
    write(engine, row(1, 1), row(1, 2, champion="older"), row(1, 3, version="other"))
    found = compare(engine, "new", "old", unit=DAY)
    assert found is not None
    assert found.decisions == 1
    assert compare(engine, "newest", "old", unit=DAY) is None
