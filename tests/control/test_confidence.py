"""What is kept of each holding's damage is what inference says, and is renewed when it is old."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select
from tests.support.fits import fitted
from tests.support.simulated_operation import Operation, operation

from holdfast.control.inference.confidence import Confidences, declared_ceiling, infer_confidence
from holdfast.control.inference.fits import save_fit
from holdfast.control.policies.aliases import Author, promote, read_aliases
from holdfast.control.policies.versions import Registry
from holdfast.control.scheduling.guardrails import DAY
from holdfast.control.settings.models import Conditions, ControlSettings
from holdfast.model.scenario import PAPER
from holdfast.storage.database import connect, migrate, transaction
from holdfast.storage.schema import confidences, holdings

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


@pytest.mark.slow
def test_the_table_says_of_a_part_what_is_said_of_the_whole(running: Operation) -> None:
    now = running.clock.now
    assert Confidences(running.engine, SETTINGS).refresh(now) == COUNT
    said = infer_confidence(running.engine, SETTINGS, now)
    assert {name: told[2:] for name, told in kept(running).items()} == {
        each.holding: (each.at_most, each.damaged) for each in said.holdings
    }
    bounds = [each.at_most for each in said.holdings]
    assert bounds == sorted(bounds, reverse=True)


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
    assert table.refresh(start + DAY + 2) == COUNT, "damage may have grown"
    assert all(kept(running)[name][2] >= before[name][2] for name in before)
    save_fit(running.engine, fitted(0.2), start + DAY + 3)
    assert table.refresh(start + DAY + 4) == COUNT, "the world is another"


def test_where_no_audit_has_taught_anything_nothing_is_said(tmp_path: Path) -> None:
    fresh = operation(tmp_path, PAPER, 2)
    assert Confidences(fresh.engine, SETTINGS).refresh(fresh.clock.now) == 0
    assert kept(fresh) == {}


@pytest.mark.slow
def test_without_a_fit_one_is_made(tmp_path: Path) -> None:
    made = operation(tmp_path, PAPER, 2)
    made.until(made.clock.now + 15 * DAY)
    assert Confidences(made.engine, SETTINGS).refresh(made.clock.now) == 2


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
