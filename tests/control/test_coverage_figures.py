"""What is said of storage that tools check: in its own unit, by what was read, as of when."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.support.checked_rows import CheckedRows, add_checked, packs
from tests.support.simulated_fleet import START

from holdfast.checkers.interface import Group
from holdfast.control.queries.coverage import Coverage, read_coverage
from holdfast.control.queries.coverage_words import (
    describe_bound,
    describe_coverage,
    describe_promise,
    percent_down,
    percent_up,
)
from holdfast.control.queries.daily import CheckCosts, read_days
from holdfast.durations import DAY, HOUR
from holdfast.model.damage_bound import most_damaged
from holdfast.storage.database import connect, migrate, transaction

NAMES = [group.name for group in packs(100)]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = connect(str(tmp_path / "holdfast.db"))
    migrate(engine)
    yield engine
    engine.dispose()


def listed(engine: Engine, **options: int | None) -> CheckedRows:
    attic = add_checked(engine, "attic", START, **options)  # type: ignore[arg-type]
    attic.list_groups(packs(100), START)
    return attic


def covered(engine: Engine, now: int) -> Coverage:
    with transaction(engine) as connection:
        coverage = read_coverage(connection, now, "attic")
    assert coverage is not None
    return coverage


def test_a_bound_is_in_packs_and_says_how_many_were_read_and_when(engine: Engine) -> None:
    attic = listed(engine)
    attic.check(START + DAY, NAMES[:30])
    attic.check(START + 2 * DAY, NAMES[30:60])
    coverage = covered(engine, START + 3 * DAY)
    bound = coverage.bound
    assert (bound.read, bound.damaged, bound.at_most) == (60, 0, most_damaged(100, 60, 0))
    assert (coverage.unit, bound.within, bound.since) == ("pack", 30 * DAY, START + DAY)
    assert describe_bound(coverage, START + 3 * DAY) == (
        f"at most {bound.at_most} % of the packs are damaged, at 95 %: 60 of 100 were read within "
        "30 days, the first 2 d ago"
    )
    assert coverage.verified == {1: 0.0, 7: 0.6, 30: 0.6}
    assert describe_coverage(coverage) == (
        "verified: 0 % within 1 day, 60 % within 7 days, 60 % within 30 days; 40 never, the oldest "
        "pack waits 3 d"
    )
    assert describe_promise(coverage) is None


def test_what_was_read_long_ago_does_not_count(engine: Engine) -> None:
    attic = listed(engine)
    attic.check(START + DAY, NAMES)
    now = START + DAY + 30 * DAY
    assert covered(engine, now - 1).bound.at_most == 0
    late = covered(engine, now)
    assert (late.bound.read, late.bound.at_most) == (0, 100)
    assert describe_bound(late, now) == "no bound: no pack was read within 30 days"


def test_a_promise_sets_the_time_and_is_said_to_be_kept_or_not(engine: Engine) -> None:
    attic = listed(engine, verify_within=10 * DAY)
    attic.check(START + DAY, NAMES)
    now = START + 11 * DAY
    kept = covered(engine, now)
    assert describe_bound(kept, now - HOUR).startswith("no bound")
    assert (kept.behind, describe_promise(kept)) == (False, "every pack within 10 days: kept")
    late = covered(engine, now + HOUR)
    assert (late.behind, describe_promise(late)) == (
        True,
        "every pack within 10 days: NOT kept, late by 1 h",
    )
    assert late.bound.within == 10 * DAY


def test_where_all_was_read_the_damage_is_known(engine: Engine) -> None:
    attic = listed(engine)
    attic.check(START + DAY, NAMES)
    now = START + DAY + HOUR
    assert describe_bound(covered(engine, now), now) == (
        "none of 100 packs is damaged: all were read within 30 days, the first 1 h ago"
    )
    attic.check(now, NAMES[2:], NAMES[:2])
    found = covered(engine, now)
    assert (found.bound.read, found.bound.damaged, found.bound.at_most) == (100, 2, 2)
    assert describe_bound(found, now).startswith("2 of 100 packs are damaged: all were read")


def test_damage_in_a_part_raises_the_bound_for_the_rest(engine: Engine) -> None:
    attic = listed(engine)
    attic.check(START + DAY, NAMES[1:50], NAMES[:1])
    coverage = covered(engine, START + DAY)
    assert coverage.bound.at_most == most_damaged(100, 50, 1)
    assert describe_bound(coverage, START + DAY) == (
        f"1 pack is damaged, and at most {coverage.bound.at_most} % of the packs are damaged, at "
        "95 %: 50 of 100 were read within 30 days, the first just now"
    )


def test_a_unit_that_is_gone_counts_as_damaged_until_a_check_passes(engine: Engine) -> None:
    attic = listed(engine)
    attic.check(START + DAY, NAMES)
    attic.list_groups(packs(99), START + DAY)
    attic.check(START + DAY, NAMES[:9], NAMES[99:])
    missing = covered(engine, START + DAY)
    assert (missing.units, missing.bound.damaged, missing.bound.at_most) == (100, 1, 1)
    attic.check(START + 2 * DAY, NAMES[:9])
    assert covered(engine, START + 2 * DAY).bound.at_most == 0


def test_groups_of_several_units_count_by_their_units(engine: Engine) -> None:
    attic = add_checked(engine, "attic", START)
    attic.list_groups([Group("00", 40), Group("01", 60)], START)
    attic.check(START + DAY, ["01"], read=60)
    coverage = covered(engine, START + DAY)
    assert (coverage.units, coverage.bound.read) == (100, 60)
    assert coverage.bound.at_most == most_damaged(100, 60, 0)
    attic.check(START + 2 * DAY, ["01"], ["00"], read=100)
    found = covered(engine, START + 2 * DAY)
    assert found.bound.damaged == 1, "what else is in that group is not known to be intact"
    assert found.bound.at_most == most_damaged(100, 61, 1)


def test_a_tool_that_chooses_itself_gets_no_bound_unless_it_read_all(engine: Engine) -> None:
    attic = add_checked(engine, "attic", START, units=600, unit="segment", kind="borg")
    attic.list_whole(600, START)
    now = START + DAY
    nothing = covered(engine, now)
    assert nothing.chosen_by_tool
    assert describe_bound(nothing, now) == (
        "no bound: borg chooses what it reads; no check has read anything yet"
    )
    attic.check(now, [], read=120)
    assert describe_bound(covered(engine, now + HOUR), now + HOUR) == (
        "no bound: borg chooses what it reads; the last check read 120 of 600 segments, 1 h ago"
    )
    attic.check(now + HOUR, [""], read=600)
    assert covered(engine, now + HOUR).bound.at_most == 0


def test_bounds_are_rounded_up_and_coverage_down() -> None:
    assert [percent_up(share) for share in (0.0, 0.0183, 0.018, 0.00081, 0.999, 1.0)] == [
        *("0 %", "1.9 %", "1.8 %", "0.081 %", "100 %", "100 %")
    ]
    assert [percent_down(share) for share in (0.0, 0.0187, 0.5, 0.9999, 1.0)] == [
        *("0 %", "1.8 %", "50 %", "99 %", "100 %")
    ]


def test_checks_cost_bytes_requests_and_time_and_no_gas(engine: Engine) -> None:
    attic = listed(engine)
    attic.check(START + HOUR, NAMES[:30], read_bytes=30_000, lasted=5000)
    attic.check(START + 2 * HOUR, NAMES[30:40], read_bytes=10_000, lasted=1000)
    with transaction(engine) as connection:
        days = read_days(connection, [START, START + DAY])
    assert days[START].checks == CheckCosts(2, 40_000, 40, 6000)
    assert (days[START].audits, days[START].modelled_gas) == (2, 0.0)
    assert days[START + DAY].checks == CheckCosts()
