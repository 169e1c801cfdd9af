"""What follows a check that failed: names, commands, a repair if allowed, and another look."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from tests.support import scripted_checker
from tests.support.checked_site import CheckedSite, checked_site
from tests.support.scripted_checker import PLAIN_KIND, ScriptedChecker

from holdfast.checkers.interface import Damage, Report
from holdfast.control.incidents.types import Step
from holdfast.control.service import Service
from holdfast.control.settings.models import Responses, ToolRepair
from holdfast.durations import DAY, HOUR
from holdfast.evidence import leaf
from holdfast.evidence.leaf import Outcome
from holdfast.storage.database import transaction
from holdfast.storage.schema import audits, holdings, responses

pytestmark = pytest.mark.slow


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckedSite:
    scripted_checker.install(monkeypatch)
    return checked_site(tmp_path)


def steps(service: Service) -> dict[str, tuple[str, str]]:
    """Return the state and the detail of every step of the last case, by its name."""
    with transaction(service.schedule.engine) as connection:
        rows = connection.execute(select(responses).order_by(responses.c.id))
        return {row.step: (row.state, row.detail) for row in rows}


def is_over(service: Service) -> bool:
    states = {state for state, _ in steps(service).values()}
    return bool(states) and states <= {"done", "dropped"}


def outcomes(service: Service) -> list[str]:
    with transaction(service.schedule.engine) as connection:
        query = select(audits.c.outcome).order_by(audits.c.id)
        return list(connection.execute(query).scalars())


def recorded(site: CheckedSite) -> list[tuple[str, tuple[str, ...]]]:
    entries = [entry for entry in site.leaves() if isinstance(entry, leaf.CheckResponse)]
    return [(str(entry.step), entry.units) for entry in entries]


def test_damage_is_named_and_shown_and_the_holding_quarantined(site: CheckedSite) -> None:
    script = site.add("attic", {"g1": 1, "g2": 1}, damaged={"g2"})
    site.settings = replace(site.settings, policy="constant:1,0.20")
    with site.service() as service:
        while Outcome.FAILED not in outcomes(service):
            site.run(service)
        site.respond(service, lambda: is_over(service))
        took = steps(service)
        with transaction(service.schedule.engine) as connection:
            assert connection.execute(select(holdings.c.quarantined)).scalar_one()
            assert connection.execute(select(audits.c.found)).scalars().all()[-1] == 1
    assert script.repaired == []
    state, detail = took[Step.REPAIR]
    assert state == "dropped"
    assert detail == "Holdfast has not repaired it; to repair it: tool repair g2-unit"
    assert recorded(site) == [
        ("follow-up", ()),
        ("localised", ("g2-unit",)),
        ("quarantined", ()),
        ("alerted", ()),
    ]
    kinds = {alert.kind: alert for alert in site.alerts()}
    assert kinds.keys() == {"holding-damaged", "holding-quarantined"}
    damage = kinds["holding-damaged"].detail
    assert "1 pack damaged: g2-unit (changed)" in damage
    assert "files: home/letter.txt" in damage
    assert "to repair it: tool repair g2-unit" in damage
    assert "script://attic" in damage
    files = [entry for entry in site.leaves() if "letter" in str(entry)]
    assert not files, "names of files stay out of the evidence"
    assert not site.verified().findings


def test_the_first_alert_names_what_is_damaged(site: CheckedSite) -> None:
    site.add("attic", {"g1": 1}, damaged={"g1"})
    with site.service() as service:
        site.run(service)
        service.responder.tick()
    (alert,) = site.alerts()
    assert alert.kind == "holding-damaged"
    assert alert.detail.startswith("audit 1: 1 pack is damaged: g1-unit (changed)")


def test_a_follow_up_looks_at_exactly_what_was_damaged(site: CheckedSite) -> None:
    script = site.add("attic", {f"g{n}": 1 for n in range(10)}, damaged={"g3", "g7"})
    site.settings = replace(site.settings, policy="constant:1,0.20")
    with site.service() as service:
        while Outcome.FAILED not in outcomes(service):
            site.run(service)
        found = {unit.group for unit in damaged_in(service)}
        before = len(script.samples)
        script.damaged.clear()
        site.respond(service, lambda: is_over(service))
    assert {*script.samples[before].groups} == found
    assert len(script.samples) == before + 1
    assert not site.alerts(), "it is intact again"
    (check,) = site.checks()[-1:]
    assert check.outcome is Outcome.PASSED
    assert [step.rail for step in check.decision.overrides] == ["follow-up"]


def damaged_in(service: Service) -> Any:
    with transaction(service.schedule.engine) as connection:
        id_ = connection.execute(select(holdings.c.id)).scalar_one()
    report = service.checked.last_report(id_)
    assert report is not None
    return report.damaged


def test_a_tool_repairs_if_the_settings_allow_it(site: CheckedSite) -> None:
    script = site.add("attic", {"g1": 1}, damaged={"g1"})
    allowed = Responses(tool_repair=ToolRepair.RUN)
    site.settings = replace(site.settings, responses=allowed)
    with site.service() as service:
        site.run(service)
        site.respond(service, lambda: is_over(service))
        assert outcomes(service) == ["failed", "failed", "passed"]
    assert [[unit.name for unit in damage.units] for damage in script.repaired] == [["g1-unit"]]
    assert ("repaired", ("g1-unit",)) in recorded(site)
    assert not site.alerts()
    assert not site.verified().findings


def test_a_repair_that_gives_up_data_is_only_shown(
    site: CheckedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locate(_self: ScriptedChecker, report: Report) -> Damage:
        return Damage(report.damaged, commands=(("borg", "check", "--repair"),), loses_data=True)

    monkeypatch.setattr(ScriptedChecker, "locate", locate)
    script = site.add("attic", {"g1": 1}, damaged={"g1"})
    site.settings = replace(site.settings, responses=Responses(tool_repair=ToolRepair.RUN))
    with site.service() as service:
        site.run(service)
        site.respond(service, lambda: is_over(service))
        _, detail = steps(service)[Step.REPAIR]
    assert script.repaired == []
    assert "to repair it (data in it is lost): borg check --repair" in detail


def test_a_checker_that_can_say_no_more_still_names_the_units(site: CheckedSite) -> None:
    site.add("attic", {"g1": 1}, kind=PLAIN_KIND, damaged={"g1"})
    with site.service() as service:
        site.run(service)
        site.respond(service, lambda: is_over(service))
        _, detail = steps(service)[Step.REPAIR]
    assert detail == "Holdfast has not repaired it"
    assert ("localised", ("g1-unit",)) in recorded(site)


def test_a_step_that_a_checker_breaks_is_tried_again_and_given_up(
    site: CheckedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locate(_self: ScriptedChecker, _report: Report) -> Damage:
        raise RuntimeError("no such index")

    monkeypatch.setattr(ScriptedChecker, "locate", locate)
    site.settings = replace(site.settings, responses=Responses(patience=2 * HOUR, pause=HOUR))
    site.add("attic", {"g1": 1}, damaged={"g1"})
    with site.service() as service:
        site.run(service)

        def given_up() -> bool:
            with transaction(service.schedule.engine) as connection:
                taken = select(responses.c.id).where(responses.c.lease > site.times.now)
                if connection.execute(taken).first() is None:  # nobody works on a step
                    site.times.now += HOUR
            return is_over(service)

        site.respond(service, given_up)
        state, detail = steps(service)[Step.LOCALISE]
    assert (state, detail) == (
        "dropped",
        "localise was given up: RuntimeError: no such index",
    )


def test_an_unknown_outcome_opens_no_case(site: CheckedSite) -> None:
    script = site.add("attic")
    script.outage = "locked by a backup"
    with site.service() as service:
        site.run(service)
        service.responder.tick()
        assert not steps(service)


def test_a_unit_older_than_promised_raises_an_alert(site: CheckedSite) -> None:
    script = site.add("attic", verify_within=4 * DAY)
    script.away = "gone for a week"
    with site.service() as service:
        site.run(service, 6)
        service.check_health(site.times.wall())
        service.monitor.on_success()
        behind = [alert for alert in site.alerts() if alert.kind == "coverage-behind"]
        assert [alert.subject for alert in behind] == ["attic"]
        script.away = ""
        site.run(service, 4)
        service.check_health(site.times.wall())
        service.monitor.on_success()
    assert not site.alerts()
