"""Storage that is checked gets another name, or is removed; its past stays."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.support import scripted_checker
from tests.support.checked_site import CheckedSite, checked_site
from tests.support.owner_env import PASSPHRASE

import holdfast
from holdfast.control import checked_commands
from holdfast.control.policies.aliases import Author
from holdfast.control.policies.promotion import NOTHING_TO_COMPARE, judge
from holdfast.control.policies.versions import Registry
from holdfast.control.settings.models import Conditions
from holdfast.durations import DAY
from holdfast.errors import ConflictError, InputError
from holdfast.evidence import leaf
from holdfast.model.scenario import PAPER
from holdfast.owner.checked import CheckedRecord, find_checked
from holdfast.storage.database import open_engine, transaction
from holdfast.storage.home_schema import checked_holdings
from holdfast.storage.schema import check_groups, holdings

pytestmark = pytest.mark.slow


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckedSite:
    scripted_checker.install(monkeypatch)
    return checked_site(tmp_path)


def record_of(site: CheckedSite, name: str) -> CheckedRecord:
    with site.home.catalogue() as catalogue, catalogue.transaction() as connection:
        record = find_checked(connection, name)
    assert record is not None
    return record


def rename(site: CheckedSite, old: str, new: str) -> None:
    with site.home.catalogue() as catalogue:
        author = Author("olga", site.times.wall(), "moved")
        checked_commands.rename(catalogue, record_of(site, old), new, author)


def remove(site: CheckedSite, name: str) -> None:
    with site.home.catalogue() as catalogue:
        author = Author("olga", site.times.wall(), "")
        checked_commands.remove(catalogue, site.home.folder, record_of(site, name), author)


def count(site: CheckedSite, table: Any) -> int:
    with open_engine(site.address) as engine, transaction(engine) as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def test_a_renamed_holding_keeps_its_memory_and_its_past(site: CheckedSite) -> None:
    script = site.add("attic")
    script.away = "gone"
    with site.service() as service:
        site.run(service)
        rename(site, "attic", "loft")
        (alert,) = site.alerts()
        assert (alert.kind, alert.subject) == ("storage-not-checked", "loft")
        script.away = ""
        (result,) = site.run(service)
    assert (result.name, result.outcome) == ("loft", "passed")
    assert not site.alerts()
    assert [check.holding.name for check in site.checks()] == ["attic", "loft"]
    assert not site.verified().findings


def test_a_name_that_is_taken_is_refused(site: CheckedSite) -> None:
    site.add("attic")
    site.add("cellar")
    with pytest.raises(ConflictError, match="there is a holding 'cellar' already"):
        rename(site, "attic", "cellar")


def test_a_removed_holding_leaves_its_evidence_and_nothing_else(
    site: CheckedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.control.audits.check_steps.WATCH", 0)
    script = site.add("attic")
    with site.service() as service:
        site.run(service)
        script.running = True
        before = len(script.samples)
        while len(script.samples) == before:
            site.run(service, days=1.01)
        script.cancelled.clear()
        remove(site, "attic")
        assert script.cancelled == script.samples[-1:], "the check under way was stopped"
        site.run(service, days=3)
    for table in (checked_holdings, check_groups, holdings):
        assert count(site, table) == 0
    assert not any((site.home.folder / "holdings").iterdir())
    *_, removed, order = site.leaves()
    assert isinstance(removed, leaf.CheckResponse)
    assert (removed.step, removed.detail) == (
        leaf.Step.REMOVED,
        "olga removed the holding during audit 2",
    )
    assert isinstance(order, leaf.Instruction)
    assert order.subject == "attic, checked by scripted at script://attic"
    assert not site.verified().findings


def test_a_holding_that_was_never_audited_is_removed(site: CheckedSite) -> None:
    site.add("attic")
    remove(site, "attic")
    site.add("attic")
    with site.service() as service:
        (result,) = site.run(service)
    assert result.outcome == "passed"


def test_a_program_removes_a_holding_through_the_public_interface(site: CheckedSite) -> None:
    site.add("backup")
    home = holdfast.open_home(site.home.folder, PASSPHRASE)
    assert home.remove("backup", reason="moved away") is None
    assert count(site, checked_holdings) == 0
    with pytest.raises(InputError, match="backup"):
        home.remove("backup")


def test_a_promotion_says_why_nothing_is_compared_where_tools_check_everything(
    site: CheckedSite,
) -> None:
    site.add("backup")
    conditions = Conditions(ceiling=0.1, episodes=2)
    with site.service() as service:
        registry = Registry(service.schedule.engine)
        champion, challenger = (
            registry.register(name, PAPER, site.times.wall()).version
            for name in ("fixed-high", "fixed-low")
        )
        verdict = judge(
            service.schedule.engine, challenger, champion, PAPER, conditions, unit=DAY, seed=1
        )
    (shadow,) = [check for check in verdict.checks if check.name == "shadow"]
    assert (shadow.passed, shadow.detail) == (False, NOTHING_TO_COMPARE)
