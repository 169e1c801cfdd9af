"""What a version in shadow would cost: figures that can be reckoned by hand."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from holdfast.control.policies.active import ActivePolicies
from holdfast.control.policies.comparison import Comparison, compare
from holdfast.control.policies.shadow import DecisionContext, run_shadows
from holdfast.control.policies.shadow_states import ShadowRecord, record_shadows
from holdfast.control.scheduling.decisions import Decisions
from holdfast.control.scheduling.guardrails import Override, Plan
from holdfast.durations import DAY, HOUR
from holdfast.storage.database import transaction

START = 1_800_000_000_000
SIDES = ("", "champion_")


def row(holding: int, number: int, **changes: Any) -> dict[str, Any]:
    """Return a decision: the champion takes 10 days and 0.4 gas, the challenger 5 and 0.1."""
    plain: dict[str, Any] = {
        "version": "new",
        "champion": "old",
        "holding": holding,
        "at": START + number * DAY,
        "agreed": 0,
        "interval": 5,
        "gas": 0.1,
        "champion_interval": 10,
        "champion_gas": 0.4,
    }
    given = plain | changes
    at, time = given.pop("at"), given["champion_interval"]
    sums = {"first": at, "last": at, "decisions": 1, "time": time}
    for side in SIDES:
        sums |= {f"{side}{name}": 0.0 for name in ("ratio", "rails", "outside")}
        sums[f"{side}spent"] = given[f"{side}gas"] / given[f"{side}interval"] * time
    return given | sums


def write(engine: Engine, *rows: dict[str, Any]) -> None:
    with transaction(engine) as connection:
        for each in rows:
            state = {"holding": each["holding"], "version": each["version"]}
            state |= {"number": 1, "memory": b"", "chosen": 1}
            record_shadows(connection, [ShadowRecord(state, each, new=False)])


def compared_in(engine: Engine, version: str, champion: str, *, unit: int) -> Comparison | None:
    with transaction(engine) as connection:
        return compare(connection, version, champion, unit=unit)


@pytest.mark.slow
def test_decisions_count_for_as_long_as_they_are_in_force(engine: Engine) -> None:
    short = {"champion_interval": 1, "champion_gas": 0.4, "interval": 1, "gas": 0.4, "agreed": 1}
    write(engine, row(1, 1), row(1, 2, **short), row(2, 1), row(2, 4))
    found = compared_in(engine, "new", "old", unit=DAY)
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
    hourly = compared_in(engine, "new", "old", unit=HOUR)
    assert hourly is not None
    assert hourly.gas_per_month.champion == pytest.approx(24 * found.gas_per_month.champion)


def decided(overrides: list[int]) -> Decisions:
    """Return decisions of which each has its overrides."""
    count = len(overrides)
    ones = np.ones(count, np.int64)
    plan = Plan(ones, ones, np.full(count, 0.1), ones, np.array(overrides))
    nothing = np.zeros((count, 0))
    return Decisions(nothing.astype(np.float32), ones, plan, nothing.astype(np.uint8))


@pytest.mark.slow
def test_rails_are_counted_and_states_that_begin_are_left_out(engine: Engine) -> None:
    both = [
        (Override.STATE, 0),
        (0, Override.STATE | Override.ENVELOPE),
        (Override.ENVELOPE, 0),
        (Override.LONGEST, Override.TELEMETRY),
        (Override.QUIET, 0),
        (0, 0),
    ]
    ours, theirs = ([int(flags) for flags in side] for side in zip(*both, strict=True))
    claims: Any = [
        SimpleNamespace(id=at, version="", memory=b"", checked=False) for at in range(len(both))
    ]
    course = DecisionContext(claims, [0] * len(both), np.full(len(both), 100), 100, START)
    policies: list[Any] = [SimpleNamespace(version=name, name=name) for name in ("old", "new")]
    duty = ActivePolicies(policies[0], (policies[1],), "new")
    found = run_shadows(course, duty, decided(theirs), {}, lambda *_: decided(ours))
    with transaction(engine) as connection:
        record_shadows(connection, [record for some in found.records for record in some])
    compared = compared_in(engine, "new", "old", unit=DAY)
    assert compared is not None
    assert compared.decisions == 4
    assert (compared.rails.champion, compared.rails.challenger) == (0.25, 0.5)
    assert (compared.outside.champion, compared.outside.challenger) == (0, 0.25)


@pytest.mark.slow
def test_only_what_was_beside_this_champion_counts(engine: Engine) -> None:
    write(engine, row(1, 1), row(1, 2, champion="older"), row(1, 3, version="other"))
    found = compared_in(engine, "new", "old", unit=DAY)
    assert found is not None
    assert found.decisions == 1
    assert compared_in(engine, "newest", "old", unit=DAY) is None
