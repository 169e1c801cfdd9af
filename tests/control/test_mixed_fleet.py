"""What is inferred of blocks, and compared in gas, leaves out storage that tools check."""

from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine, select, update
from tests.support.checked_rows import add_checked, packs
from tests.support.fits import fitted
from tests.support.simulated_fleet import START
from tests.support.simulated_operation import Operation, operation

from holdfast.control.inference.audit_log import read_episodes
from holdfast.control.inference.confidence import Confidences
from holdfast.control.inference.fits import last_taught, save_fit
from holdfast.control.policies.aliases import Author, challenge, read_aliases
from holdfast.control.policies.versions import Registry
from holdfast.control.queries.confidence import ConfidenceReport, count_proven, read_confidence
from holdfast.control.queries.fleet import read_activity, read_status
from holdfast.control.settings.models import ControlSettings
from holdfast.durations import DAY, HOUR
from holdfast.model.scenario import PAPER
from holdfast.storage.database import migrate, open_engine, transaction
from holdfast.storage.schema import holdings, shadow_sums

COUNT = 3
SETTINGS = ControlSettings(scenario=PAPER)
NAMES = [group.name for group in packs(100)]


@pytest.fixture
def running(tmp_path: Path) -> Operation:
    made = operation(tmp_path, PAPER, COUNT)
    made.until(made.clock.now + 8 * DAY)
    save_fit(made.engine, fitted(0.1), made.clock.now)
    return made


def add_attic(engine: Engine, now: int) -> None:
    """Add storage with checks, the last of which found damage."""
    attic = add_checked(engine, "attic", now - 5 * DAY)
    attic.list_groups(packs(100), now - 5 * DAY)
    attic.check(now - 4 * DAY, NAMES[:50], read_bytes=50_000)
    attic.check(now - HOUR, NAMES[51:], NAMES[:1], read_bytes=50_000)


def inferred(running: Operation) -> ConfidenceReport:
    assert Confidences(running.engine, SETTINGS).refresh_all(running.clock.now, lambda *_: None)
    with transaction(running.engine) as connection:
        report = read_confidence(connection)
    assert report is not None
    return report


@pytest.mark.slow
def test_checks_change_nothing_of_what_is_inferred_from_proofs(running: Operation) -> None:
    now = running.clock.now
    before, report = read_episodes(running.engine, DAY, now), inferred(running)
    add_attic(running.engine, running.clock.now)
    after = read_episodes(running.engine, DAY, now)
    assert after.names == before.names
    assert np.array_equal(after.log.sampled, before.log.sampled)
    assert inferred(running) == report
    assert "attic" not in {*report.waiting, *(row.holding for row in report.holdings)}
    assert Confidences(running.engine, SETTINGS).refresh(now) == 0, "nothing waits to be inferred"
    with transaction(running.engine) as connection:
        assert count_proven(connection) == COUNT


def test_only_checks_teach_nothing(tmp_path: Path) -> None:
    with open_engine(str(tmp_path / "holdfast.db")) as engine:
        migrate(engine)
        add_attic(engine, START)
        assert last_taught(engine) is None
        assert Confidences(engine, SETTINGS).refresh(START) == 0
        with transaction(engine) as connection:
            assert read_confidence(connection) is None


@pytest.mark.slow
def test_the_status_counts_each_holding_in_its_own_unit(running: Operation) -> None:
    add_attic(running.engine, running.clock.now)
    with transaction(running.engine) as connection:
        status = read_status(connection, running.clock.now, grace=0, limit=9)
        activity = read_activity(connection, running.clock.now, limit=2)
    units = {row.holding: (row.kind, row.unit) for row in status.worst}
    assert units.pop("attic") == ("restic", "pack")
    assert set(units.values()) == {(None, "block")}
    assert [coverage.holding for coverage in status.coverage] == ["attic"]
    assert {(row.holding == "attic", row.unit) for row in activity.last} <= {
        (True, "pack"),
        (False, "block"),
    }
    assert [period.checks.checks for period in activity.periods] == [1, 2]
    assert activity.periods[1].checks.read_bytes == 100_000


@pytest.mark.slow
def test_a_shadow_is_compared_on_blocks_alone(tmp_path: Path) -> None:
    running = operation(tmp_path, PAPER, COUNT)
    version = Registry(running.engine).register("fixed-low", PAPER, running.clock.now).version
    with transaction(running.engine) as connection:
        aliases = read_aliases(connection)
        connection.execute(update(holdings).where(holdings.c.id == 2).values(checked=True))
    challenge(running.engine, aliases, version, Author("tester", running.clock.now, "a test"))
    running.until(running.clock.now + 20 * DAY)
    with transaction(running.engine) as connection:
        compared = set(connection.execute(select(shadow_sums.c.holding)).scalars())
    assert compared == {1, 3}
