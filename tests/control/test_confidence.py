"""What is kept of each holding's damage is what inference says, and is renewed when it is old."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, select
from tests.support.fits import fitted
from tests.support.simulated_operation import Operation, operation

from holdfast.control.inference.audit_log import read_episodes
from holdfast.control.inference.confidence import Confidences, declared_ceiling
from holdfast.control.inference.fits import save_fit
from holdfast.control.inference.refresh_lease import LEASE_SECONDS, RefreshLease
from holdfast.control.policies.aliases import Author, promote, read_aliases
from holdfast.control.policies.versions import Registry
from holdfast.control.queries.confidence import ConfidenceReport, read_confidence
from holdfast.control.settings.models import Conditions, ControlSettings
from holdfast.durations import DAY
from holdfast.inference.confidence import confidence
from holdfast.model.scenario import PAPER
from holdfast.storage.database import connect, migrate, transaction
from holdfast.storage.inference_schema import confidences, fleet_confidence
from holdfast.storage.schema import holdings

COUNT = 4
SETTINGS = ControlSettings(scenario=PAPER)


@pytest.fixture
def running(tmp_path: Path) -> Operation:
    made = operation(tmp_path, PAPER, COUNT)
    made.until(made.clock.now + 15 * DAY)
    save_fit(made.engine, fitted(0.1), made.clock.now)
    return made


def kept(running: Operation) -> dict[str, tuple[int, int, float, float]]:
    columns = (confidences.c[name] for name in ("at", "number", "at_most", "damaged"))
    query = select(holdings.c.name, *columns).join(
        confidences, confidences.c.holding == holdings.c.id
    )
    with transaction(running.engine) as connection:
        return {name: tuple(rest) for name, *rest in connection.execute(query)}


def published(engine: Engine) -> ConfidenceReport | None:
    with transaction(engine) as connection:
        return read_confidence(connection)


def resize(engine: Engine) -> None:
    """Give half of the holdings another size, so that there are two classes."""
    with transaction(engine) as connection:
        connection.execute(holdings.update().where(holdings.c.id <= 2).values(blocks=5000))


@pytest.mark.slow
def test_the_table_says_what_inference_says_of_the_whole_log(running: Operation) -> None:
    now = running.clock.now
    resize(running.engine)
    table = Confidences(running.engine, SETTINGS)
    assert [table.refresh(now), table.refresh(now), table.refresh(now)] == [2, 2, 0]
    episodes = read_episodes(running.engine, SETTINGS.rails.unit, now)
    whole = confidence(episodes.log, fitted(0.1))
    told = kept(running)
    for node, name in enumerate(episodes.names):
        assert told[name][2:] == (whole.at_most[node], whole.damaged[node])
    report = published(running.engine)
    assert report is not None
    assert report.waiting == ()
    bounds = [row.at_most for row in report.holdings]
    assert bounds == sorted(bounds, reverse=True)
    fleet = report.fleet
    assert (fleet.at, fleet.detections) == (now, whole.detections)
    assert fleet.fleet_at_most == pytest.approx(whole.fleet_at_most, rel=0.2)
    assert fleet.miss_rate.value == pytest.approx(whole.miss_rate.value, abs=0.05)
    assert fleet.miss_rate.low < fleet.miss_rate.value < fleet.miss_rate.high


@pytest.mark.slow
def test_only_what_is_out_of_date_is_worked_out_again(running: Operation) -> None:
    table, start = Confidences(running.engine, SETTINGS), running.clock.now
    table.refresh(start)
    assert table.refresh(start + 1) == 0
    before = kept(running)
    with transaction(running.engine) as connection:
        connection.execute(holdings.update().where(holdings.c.id == 2).values(number=99))
    assert table.refresh(start + 2) == 1, "it was audited"
    after = kept(running)
    assert [name for name in after if after[name] != before[name]] == ["holding-000001"]
    report = published(running.engine)
    assert report is not None
    assert report.fleet.at == start, "as of the oldest figure"
    assert table.refresh(start + DAY + 2) == COUNT, "damage may have grown"
    assert all(kept(running)[name][2] >= before[name][2] for name in before)
    save_fit(running.engine, fitted(0.2), start + DAY + 3)
    assert table.refresh(start + DAY + 4) == COUNT, "the world is another"


@pytest.mark.slow
def test_nobody_reads_half_of_a_refresh(running: Operation) -> None:
    resize(running.engine)
    table, start = Confidences(running.engine, SETTINGS), running.clock.now
    table.refresh(start)
    assert published(running.engine) is None, "half of the holdings have no figure yet"
    table.refresh(start)
    before, report = kept(running), published(running.engine)
    save_fit(running.engine, fitted(0.3), start + 1)
    assert table.refresh(start + 2) == 2
    assert (kept(running), published(running.engine)) == (before, report)
    # Another process resumes with the half that is missing.
    assert Confidences(running.engine, SETTINGS).refresh(start + 4) == 2
    told = kept(running)
    assert {row[0] for row in told.values()} == {start + 2, start + 4}
    assert all(told[name] != before[name] for name in before)


@pytest.mark.slow
def test_everything_is_inferred_anew_on_demand(running: Operation) -> None:
    resize(running.engine)
    table, start = Confidences(running.engine, SETTINGS), running.clock.now
    seen: list[tuple[int, int]] = []
    assert table.refresh_all(start, lambda *far: seen.append(far))
    assert seen == [(0, COUNT), (2, COUNT), (4, COUNT)]
    before = kept(running)

    def interrupt(done: int, _total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.refresh_all(start + 5, interrupt)
    assert kept(running) == before, "an interrupted one changes nothing"
    assert table.refresh_all(start + 9, lambda *_: None)
    assert {row[0] for row in kept(running).values()} == {start + 9}


@pytest.mark.slow
def test_one_process_refreshes_at_a_time(running: Operation) -> None:
    now = running.clock.now
    with RefreshLease(running.engine).hold(now) as renew:
        assert renew is not None
        table = Confidences(running.engine, SETTINGS)
        assert table.refresh(now + 1) == 0
        assert not table.refresh_all(now + 1, lambda *_: None)
    assert table.refresh(now + 2) == COUNT


def test_the_lease_of_a_killed_process_ends(tmp_path: Path) -> None:
    engine = connect(str(tmp_path / "holdfast.db"))
    migrate(engine)
    held = RefreshLease(engine).hold(1000)
    assert held.__enter__() is not None  # and it never leaves
    with RefreshLease(engine).hold(2000) as other:
        assert other is None
    with RefreshLease(engine).hold(1000 + int(1000 * LEASE_SECONDS)) as other:
        assert other is not None
    with RefreshLease(engine).hold(2000) as other:
        assert other is not None, "it was released"
    engine.dispose()


@pytest.mark.slow
def test_where_no_audit_has_taught_anything_nothing_is_said(tmp_path: Path) -> None:
    fresh = operation(tmp_path, PAPER, 2)
    assert Confidences(fresh.engine, SETTINGS).refresh(fresh.clock.now) == 0
    assert kept(fresh) == {}
    assert published(fresh.engine) is None


@pytest.mark.slow
def test_without_a_fit_one_is_made_and_kept_for_a_day(tmp_path: Path) -> None:
    made = operation(tmp_path, PAPER, 2)
    made.until(made.clock.now + 15 * DAY)
    now = made.clock.now
    fitted_at: list[int] = []
    for later in (0, 1, DAY):
        Confidences(made.engine, SETTINGS).refresh(now + later)
        with transaction(made.engine) as connection:
            fitted_at += connection.execute(select(fleet_confidence.c.fitted)).scalars()
    assert fitted_at == [now, now, now + DAY]
    assert {row[0] for row in kept(made).values()} == {now + DAY}


@pytest.mark.slow
def test_the_declared_ceiling_is_the_settings_or_that_of_who_decides(tmp_path: Path) -> None:
    engine = connect(str(tmp_path / "holdfast.db"))
    migrate(engine)
    settings = replace(SETTINGS, policy="belief:rho=0.2")
    assert declared_ceiling(engine, settings) == 0.2, "before the first decision"
    for name, ceiling in (("drqn-cmdp-plus:rho=0.1", 0.1), ("fixed-high", None)):
        version = Registry(engine).register(name, PAPER, 1).version
        with transaction(engine) as connection:
            before = read_aliases(connection)
        promote(engine, before, version, Author("a test", 1))
        assert declared_ceiling(engine, settings) == ceiling
    strict = replace(settings, promotion=Conditions(ceiling=0.03))
    assert declared_ceiling(engine, strict) == 0.03
    engine.dispose()
