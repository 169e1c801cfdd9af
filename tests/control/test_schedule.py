"""The schedule, on SQLite and on PostgreSQL: claims are exclusive, and conclusions whole."""

from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, insert, select, text
from tests.support import parts

from holdfast.bench.postgres import Server
from holdfast.control.scheduling.claims import Claim, Conclusion, LeaseLostError
from holdfast.control.scheduling.schedule import Schedule
from holdfast.durations import HOUR, MINUTE, SECOND
from holdfast.errors import InputError
from holdfast.pdp import SecretKey
from holdfast.storage.database import HEAD, MIGRATIONS, connect, migrate, transaction
from holdfast.storage.home_schema import metadata
from holdfast.storage.inference_schema import fits
from holdfast.storage.schema import NEVER, audits, holdings, leaves

NOW = 1_800_000_000_000
LEASE = 1000
KEY = SecretKey.generate(1).public


@pytest.fixture
def schedule(engine: Engine) -> Schedule:
    schedule = Schedule(engine)
    schedule.add([(f"holding {k}", 100, KEY) for k in range(6)], NOW)
    return schedule


def conclusion(claim: Claim, due: int, **changes: Any) -> Conclusion:
    row = {
        name: getattr(claim, name)
        for name in ("id", "history", "observed", "news", "version", "memory", "observation")
    }
    decision = {"chosen": 3, "interval": 1, "ratio": 0.1, "overrides": 0, "decided": NOW}
    number = {
        "number": claim.number + 1,
        "audited": NOW,
        "outcome": "passed",
        "blocks": 100,
        "due": due,
    }
    audit = {
        "holding": claim.id,
        "number": claim.number + 1,
        "due": claim.due,
        "ended": NOW,
        "outcome": "passed",
        "interval": 1,
        "ratio": 0.1,
        "samples": 10,
        "overrides": 0,
        "latency": 0.1,
        "gas": 1.0,
        "observation": b"",
    }
    leaf = {"holding": claim.id, "body": b"leaf %d" % claim.id, "proof": None}
    return Conclusion(lease(claim) | row | decision | number | changes, audit, leaf)


def lease(claim: Claim) -> dict[str, Any]:
    return {"id": claim.id, "token": claim.token}


def saved(claim: Claim, overrides: int = 0) -> dict[str, Any]:
    row = {"due": claim.due, "ratio": 0.1, "overrides": overrides, "flight": b"seed"}
    return lease(claim) | row


def count(schedule: Schedule, table: Any) -> int:
    with transaction(schedule.engine) as connection:
        return len(connection.execute(select(table)).all())


def test_no_holding_is_claimed_twice(schedule: Schedule) -> None:
    first = schedule.claim(NOW, LEASE, 4)
    second = schedule.claim(NOW, LEASE, 4)
    assert len(first) == 4
    assert len(second) == 2
    assert not {claim.id for claim in first} & {claim.id for claim in second}
    assert schedule.claim(NOW, LEASE, 4) == []


@pytest.mark.slow
def test_the_one_due_first_is_claimed_first(schedule: Schedule) -> None:
    with transaction(schedule.engine) as connection:
        connection.execute(holdings.update().values(due=NOW - holdings.c.id))
    claims = schedule.claim(NOW, LEASE, 3)
    assert [claim.due for claim in claims] == sorted(claim.due for claim in claims)
    assert claims[0].name == "holding 5"
    assert schedule.claim(NOW - 100, LEASE, 3) == []


@pytest.mark.slow
def test_a_lease_that_ended_brings_the_holding_back_with_its_audit(schedule: Schedule) -> None:
    claims = schedule.claim(NOW, LEASE, 1)
    schedule.save_audits([saved(claims[0], 4)])
    assert all(claim.flight is None for claim in schedule.claim(NOW, LEASE, 6))
    again = schedule.claim(NOW + LEASE, LEASE, 6)
    assert [c.flight for c in again if c.id == claims[0].id] == [b"seed"]
    assert [c.overrides for c in again if c.id == claims[0].id] == [4]


@pytest.mark.slow
def test_whoever_lost_the_lease_can_neither_depart_nor_conclude(schedule: Schedule) -> None:
    claims = schedule.claim(NOW, LEASE, 6)
    again = schedule.claim(NOW + LEASE, LEASE, 2)
    ids = {claim.id for claim in again}
    with pytest.raises(LeaseLostError):
        schedule.save_audits([saved(claim) for claim in claims])
    done = schedule.conclude([conclusion(claim, NOW + 9) for claim in claims])
    assert set(done) == {claim.id for claim in claims} - ids
    assert count(schedule, leaves) == count(schedule, audits) == 4
    assert set(schedule.conclude([conclusion(c, NOW + 9) for c in again])) == ids
    assert count(schedule, leaves) == count(schedule, audits) == 6


@pytest.mark.slow
def test_a_conclusion_is_written_whole_or_not_at_all(schedule: Schedule) -> None:
    claims = schedule.claim(NOW, LEASE, 2)
    with transaction(schedule.engine) as connection:  # so that the second audit can't be entered
        connection.execute(insert(audits), [conclusion(claims[1], NOW).audit])
    with pytest.raises(Exception, match=r"(?i)unique"):
        schedule.conclude([conclusion(claim, NOW + 9) for claim in claims])
    assert count(schedule, leaves) == 0
    assert [claim.number for claim in schedule.claim(NOW + LEASE, LEASE, 6)] == [0] * 6


@pytest.mark.slow
def test_a_lease_can_be_extended_while_it_is_ours(schedule: Schedule) -> None:
    claims = schedule.claim(NOW, LEASE, 6)
    schedule.extend(claims, NOW + 2 * LEASE)
    assert schedule.claim(NOW + LEASE, LEASE, 6) == []
    others = schedule.claim(NOW + 2 * LEASE, LEASE, 4)
    schedule.extend(claims, NOW + 4 * LEASE)
    free = schedule.claim(NOW + 3 * LEASE, LEASE, 6)
    assert {claim.id for claim in free} == {claim.id for claim in others}


@pytest.mark.slow
def test_what_is_postponed_keeps_its_audit_and_adds_a_reason(schedule: Schedule) -> None:
    claims = schedule.claim(NOW, LEASE, 1)
    schedule.save_audits([saved(claims[0], 1)])
    schedule.postpone([lease(claims[0]) | {"due": NOW + 50, "overrides": 2}])
    assert claims[0].id not in [claim.id for claim in schedule.claim(NOW + 49, 1, 6)]
    (back,) = [c for c in schedule.claim(NOW + 50, LEASE, 6) if c.id == claims[0].id]
    assert (back.flight, back.overrides) == (b"seed", 3)


@pytest.mark.slow
def test_an_audit_under_way_goes_on_while_others_wait_to_be_gathered(schedule: Schedule) -> None:
    """Before: with `gather` a node that was away was not asked again before its deadline."""
    (claim,) = schedule.claim(NOW, LEASE, 1)
    schedule.save_audits([saved(claim)])
    schedule.suspend([lease(claim) | {"due": NOW + 5, "flight": b"flight"}])
    assert not schedule.has_batch(NOW + 5, HOUR, 6), "five are due to begin, and one is under way"
    assert schedule.has_batch(NOW + 5, HOUR, 5)
    again = schedule.claim(NOW + 5, LEASE, 6, under_way=True)
    assert [other.id for other in again] == [claim.id]


@pytest.mark.slow
def test_the_lag_counts_what_nobody_works_on(schedule: Schedule) -> None:
    schedule.claim(NOW, LEASE, 2)
    lag = schedule.lag(NOW + 500)
    assert (lag.overdue, lag.longest, lag.working) == (4, 500, 2)
    assert schedule.next_due() == NOW


@pytest.mark.slow
def test_a_holding_is_entered_once(schedule: Schedule) -> None:
    with pytest.raises(InputError, match="already"):
        schedule.add([("new", 5, KEY), ("holding 1", 5, KEY)], NOW)
    assert count(schedule, holdings) == 6


@pytest.mark.slow
def test_migrations_lead_to_the_schema_that_the_code_has(engine: Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": False})
        assert fits.metadata is metadata, "the tables of inference are among them"
        assert compare_metadata(context, metadata) == []
    migrate(engine)  # once more changes nothing


def test_the_newest_migration_is_the_one_that_is_looked_for() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == HEAD


@pytest.mark.slow
def test_a_database_of_a_newer_version_is_refused(engine: Engine) -> None:
    with transaction(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(InputError, match="newer Holdfast"):
        migrate(engine)


def test_an_address_that_is_none_is_refused_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no database") as caught:
        connect("mysql://user:secret@host/name")
    assert "secret" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_server_that_restarts_is_found_again(postgres: Server) -> None:
    with parts.database(postgres, "restarted") as address:
        engine = connect(address)
        migrate(engine)
        schedule = Schedule(engine)
        schedule.add([("a", 1, KEY)], NOW)
        postgres.stop()
        try:
            with pytest.raises(Exception, match="the database can't be used"):
                schedule.claim(NOW, LEASE, 1)
        finally:
            postgres.start()
        assert len(schedule.claim(NOW, LEASE, 1)) == 1
        engine.dispose()


def test_an_audit_that_a_node_keeps_waiting_is_overdue_though_a_worker_has_it(
    schedule: Schedule,
) -> None:
    claims = schedule.claim(NOW, HOUR, 2)
    assert schedule.lag(NOW + SECOND).overdue == 4, "the others are nobody's"
    schedule.claim(NOW, HOUR, 4)
    assert schedule.lag(NOW + SECOND).overdue == 0
    lag = schedule.lag(NOW + MINUTE)
    assert (lag.overdue, lag.working) == (6, 6)
    assert lag.longest == NOW + MINUTE - claims[0].due


def test_a_stricter_setting_holds_for_what_was_planned_before(schedule: Schedule) -> None:
    """Before: with a shorter unit nothing was audited until what was planned came due."""
    with transaction(schedule.engine) as connection:
        connection.execute(holdings.update().values(decided=NOW, due=NOW + 9 * HOUR))
        connection.execute(
            holdings.update().where(holdings.c.name == "holding 3").values(due=NOW + MINUTE)
        )
        connection.execute(
            holdings.update().where(holdings.c.name == "holding 4").values(due=NEVER)
        )
    schedule.enforce_longest(2 * HOUR)
    with transaction(schedule.engine) as connection:
        rows = connection.execute(select(holdings.c.name, holdings.c.due))
        due = {row.name: row.due for row in rows}
    assert due.pop("holding 3") == NOW + MINUTE
    assert due.pop("holding 4") == NEVER, "it is in quarantine"
    assert set(due.values()) == {NOW + 2 * HOUR}


def test_a_clock_that_was_set_back_stops_no_audit_for_longer_than_the_longest_interval(
    schedule: Schedule,
) -> None:
    """Before: nothing was audited until the clock had caught up."""
    with transaction(schedule.engine) as connection:
        connection.execute(holdings.update().values(decided=NOW, due=NOW + HOUR))
    earlier = NOW - 1000 * HOUR
    schedule.enforce_longest(2 * HOUR, earlier)
    assert schedule.next_due() == earlier + 2 * HOUR
    schedule.enforce_longest(2 * HOUR, NOW)
    assert schedule.next_due() == earlier + 2 * HOUR, "nothing is put off"
