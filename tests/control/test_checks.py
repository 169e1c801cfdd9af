"""Checks of storage that no node stores: what they come to, and that they hold up nobody."""

import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.support import scripted_checker
from tests.support.checked_site import CheckedSite, checked_site
from tests.support.scripted_checker import Script, blank

from holdfast.checkers.interface import Finding, Report, Sample
from holdfast.control.audits.check_steps import GRACE, SLOT_TIME
from holdfast.control.audits.types import AuditResult, CheckDetail
from holdfast.control.operator_commands import audit_now
from holdfast.control.policies.aliases import Author
from holdfast.control.queries.fleet import Health, read_figures
from holdfast.control.scheduling.guardrails import FAIL_SAFE
from holdfast.control.service import Service
from holdfast.control.settings.models import CheckSettings, Timeouts
from holdfast.durations import DAY, HOUR
from holdfast.errors import InputError
from holdfast.evidence import leaf
from holdfast.evidence.leaf import Outcome
from holdfast.storage.database import transaction
from holdfast.storage.schema import audits

pytestmark = pytest.mark.slow


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckedSite:
    scripted_checker.install(monkeypatch)
    return checked_site(tmp_path)


def detail(result: AuditResult) -> CheckDetail:
    assert isinstance(result.detail, CheckDetail)
    return result.detail


def last_row(service: Service) -> Any:
    with transaction(service.schedule.engine) as connection:
        return connection.execute(audits.select().order_by(audits.c.id.desc()).limit(1)).one()


def test_a_check_that_reads_intact_units_passes_and_is_recorded(site: CheckedSite) -> None:
    script = site.add("attic")
    with site.service() as service:
        (result,) = site.run(service)
        row = last_row(service)
    assert (result.outcome, result.units, result.checked) == (Outcome.PASSED, 20, 2)
    assert (row.samples, row.read_bytes, row.requests, row.latency) == (2, 2000, 2, 0.0)
    (check,) = site.checks()
    assert check.holding == leaf.CheckedHolding(1, "attic", "scripted", "script://attic")
    assert (check.outcome, check.drawn, check.checked, check.units) == (Outcome.PASSED, 2, 2, 20)
    assert (check.unit, check.tool, check.words) == ("pack", "script 1.0", r"all read\n")
    assert script.samples[0].seed == check.seed
    assert len(script.samples[0].groups) == 2
    report = site.verified()
    assert (report.findings, report.checks, report.audits) == ((), 1, 0)
    assert site.coverage("attic").verified == {1: 0.1, 7: 0.1, 30: 0.1}


def test_adding_storage_is_an_instruction_in_the_evidence(site: CheckedSite) -> None:
    site.add("attic")
    (order,) = [entry for entry in site.leaves() if isinstance(entry, leaf.Instruction)]
    assert (order.order, order.by) == (leaf.Order.ADD, "olga")
    assert order.subject == "attic, checked by scripted at script://attic"
    assert order.holdings == {"attic"}


def test_what_a_check_left_is_deleted_once_its_result_is_saved(site: CheckedSite) -> None:
    script = site.add("attic")
    with site.service() as service:
        site.run(service)
        wait_for(lambda: script.cancelled)
    assert script.cancelled == script.samples


def wait_for(condition: Any) -> None:
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up, "what the test waits for does not come"
        time.sleep(0.01)


def test_damage_is_looked_at_twice_and_named(site: CheckedSite) -> None:
    script = site.add("attic", {"g1": 1}, damaged={"g1"})
    with site.service() as service:
        (result,) = site.run(service)
    assert result.outcome is Outcome.FAILED
    assert result.reason == "damaged, at the second look too: g1-unit (changed)"
    first, second = script.samples
    assert second.groups == ("g1",)
    assert first.seed == second.seed
    (check,) = site.checks()
    assert [(unit.name, unit.defect) for unit in check.damaged] == [("g1-unit", "changed")]
    assert check.damaged_units == 1
    assert check.read_bytes == 2000, "both looks"
    assert not site.verified().findings


def test_damage_that_the_second_look_does_not_find_is_unknown(site: CheckedSite) -> None:
    script = site.add("attic", {"g1": 1}, damaged={"g1"})

    def see_once(sample: Sample) -> Report:
        script.look = None
        report = script.report(sample)
        script.damaged.clear()
        return report

    script.look = see_once
    with site.service() as service:
        (result,) = site.run(service)
    assert result.outcome is Outcome.UNKNOWN
    assert result.reason == "damaged at the first look, intact at the second: g1-unit (changed)"
    assert result.damaged == 0
    assert site.coverage("attic").verified[1] == 1.0, "the second look has read it"


def test_damage_without_a_second_look_is_unknown(site: CheckedSite) -> None:
    script = site.add("attic", {"g1": 1}, damaged={"g1"})

    def see_once(sample: Sample) -> Report:
        script.look = None
        report = script.report(sample)
        script.error = InputError("wrong password")
        return report

    script.look = see_once
    with site.service() as service:
        (result,) = site.run(service)
    assert result.outcome is Outcome.UNKNOWN
    first = "damaged at the first look (g1-unit (changed)), without a second one"
    assert result.reason == f"{first}: wrong password"


@pytest.mark.parametrize(
    ("report", "outcome", "reason"),
    [
        (blank(Finding.INTACT), Outcome.UNKNOWN, "nothing was read"),
        (
            blank(Finding.DAMAGED, reason="bad", checked=3),
            Outcome.UNKNOWN,
            "the auditor calls it damaged, but names no damaged unit",
        ),
        (blank(Finding.UNKNOWN, reason="no JSON"), Outcome.UNKNOWN, "no JSON"),
    ],
)
def test_a_report_that_says_nothing_about_data_is_unknown(
    site: CheckedSite, report: Report, outcome: Outcome, reason: str
) -> None:
    script = site.add("attic")
    script.look = lambda _sample: report
    with site.service() as service:
        (result,) = site.run(service)
    assert (result.outcome, result.reason) == (outcome, reason)
    assert not site.verified().findings


@pytest.mark.parametrize("during", ["listing", "check"])
def test_an_outage_is_waited_for_and_then_offline_never_damage(
    site: CheckedSite, during: str
) -> None:
    script = site.add("attic")
    if during == "listing":
        script.away = "nobody listens"
    else:
        script.outage = "nobody listens"
    with site.service() as service:
        before = site.times.now
        (result,) = site.run(service)
        assert (result.outcome, result.reason) == (Outcome.OFFLINE, "nobody listens")
        assert site.times.now - before >= Timeouts().deadline
        assert script.listings > 3, "it was tried again and again"
        (alert,) = site.alerts()
        assert (alert.kind, alert.subject) == ("storage-not-checked", "attic")
        script.away = script.outage = ""
        (result,) = site.run(service)
    assert result.outcome is Outcome.PASSED
    assert not site.alerts()
    assert not site.verified().findings


def test_an_outage_that_ends_in_time_leaves_no_trace(site: CheckedSite) -> None:
    script = site.add("attic")
    script.away = "rebooting"
    with site.service() as service:
        site.run(service, days=1.01)
        script.away = ""
        (result,) = site.run(service)
    assert result.outcome is Outcome.PASSED


def test_what_was_read_before_an_outage_counts(site: CheckedSite) -> None:
    script = site.add("attic")
    read = blank(Finding.UNREACHABLE, reason="it went away", checked=1)
    script.look = lambda sample: replace(read, verified=sample.groups[:1])
    with site.service() as service:
        (result,) = site.run(service)
    assert result.outcome is Outcome.OFFLINE
    assert site.coverage("attic").verified[1] == 0.05


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (InputError("the password is wrong"), "the password is wrong"),
        (ValueError("surprise"), "the auditor 'scripted' failed: ValueError: surprise"),
    ],
)
def test_a_checker_that_raises_is_unknown_and_harms_no_other(
    site: CheckedSite, error: Exception, reason: str
) -> None:
    script = site.add("attic")
    site.add("cellar")
    script.error = error
    with site.service() as service:
        results = {result.name: result for result in site.run(service, 2)}
    assert (results["attic"].outcome, results["attic"].reason) == (Outcome.UNKNOWN, reason)
    assert results["cellar"].outcome is Outcome.PASSED
    (alert,) = site.alerts()
    assert (alert.subject, alert.detail) == ("attic", f"unknown: {reason}")
    assert not site.verified().findings


def test_a_storage_that_hangs_delays_nobody_and_costs_one_thread(site: CheckedSite) -> None:
    hanging = site.add("attic")
    site.add("cellar")
    hanging.hanging = Event()
    listed = hanging.listings
    try:
        with site.service() as service:
            (result,) = site.run(service)
            assert (result.name, result.outcome) == ("cellar", Outcome.PASSED)
            site.times.now += CheckSettings().listing + 1
            results = site.run(service, 2)
        hung = next(result for result in results if result.name == "attic")
        assert hung.outcome is Outcome.OFFLINE
        assert hung.reason == "the storage gave no answer within 10 min"
        assert hanging.listings == listed + 1
    finally:
        hanging.hanging.set()


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no step wait for the end of a check, and look at it every hour."""
    monkeypatch.setattr("holdfast.control.audits.check_steps.WATCH", 0)
    monkeypatch.setattr("holdfast.control.audits.check_steps.LONGEST_PAUSE", HOUR)


def set_checks(site: CheckedSite, **changes: Any) -> None:
    site.settings = replace(site.settings, checks=CheckSettings(**changes))


@pytest.mark.usefixtures("unwatched")
def test_no_lease_is_held_for_the_length_of_a_check(site: CheckedSite) -> None:
    set_checks(site, deadline=10 * DAY)
    long = site.add("attic")
    site.add("cellar")
    long.running = True
    with site.service() as service:
        results = site.run(service, 3)
        assert [result.name for result in results] == ["cellar"] * 3
        row: Any = site.row("attic")
        assert row.flight is not None
        assert row.lease == 0
        assert row.due <= site.times.now + HOUR
        long.running = False
        ended = next(result for result in site.run(service, 2) if result.name == "attic")
        assert ended.outcome is Outcome.PASSED
        row = site.row("attic")
    assert len(long.samples) == 1
    assert not row.overrides & FAIL_SAFE, "its length is no response time"
    assert ended.latency == 0.0


@pytest.mark.usefixtures("unwatched")
def test_a_check_that_does_not_end_in_time_is_unknown_and_the_next_one_is_smaller(
    site: CheckedSite,
) -> None:
    script = site.add("attic", {f"g{n}": 1 for n in range(100)})
    script.running = True
    with site.service() as service:
        before = site.times.now
        (result,) = site.run(service)
        assert (result.outcome, result.reason) == (
            Outcome.UNKNOWN,
            "the check did not end in time",
        )
        assert site.times.now - before >= CheckSettings().deadline + GRACE
        script.running = False
        (result,) = site.run(service)
        assert result.outcome is Outcome.PASSED
        drawn = [len(sample.groups) for sample in script.samples]
        assert drawn == [10, 5]
        (result,) = site.run(service)
    assert len(script.samples[-1].groups) == 10, "it ended quickly, so the limit is lifted"
    row: Any = site.row("attic")
    assert not row.overrides & FAIL_SAFE


@pytest.mark.usefixtures("unwatched")
def test_a_check_is_resumed_by_another_service(site: CheckedSite) -> None:
    script = site.add("attic")
    script.running = True
    with site.service() as service:
        while not script.samples:
            site.run(service, days=1.01)
    script.running = False
    with site.service() as service:
        (result,) = site.run(service)
    assert result.outcome is Outcome.PASSED
    assert len(script.samples) == 1
    assert script.samples[0].seed == detail(result).seed


@pytest.mark.usefixtures("unwatched")
def test_only_so_many_checks_run_side_by_side(site: CheckedSite) -> None:
    set_checks(site, at_once=1)
    scripts = [site.add(name, running=True) for name in ("attic", "cellar", "shed")]
    polled: Counter[str] = Counter()

    def get_further(name: str, script: Script) -> None:
        polled.update([name])
        script.done += 1

    for name, script in zip(("attic", "cellar", "shed"), scripts, strict=True):
        script.polled = partial(get_further, name, script)
    with site.service() as service:
        site.run(service, days=1.02)
        assert all(script.samples for script in scripts)
        assert len(polled) == 1, "the others wait"
        for script in scripts:
            script.running = False
        results = site.run(service, 3)
    assert {result.outcome for result in results} == {Outcome.PASSED}


@pytest.mark.usefixtures("unwatched")
def test_a_check_that_waits_for_others_for_long_is_overdue(site: CheckedSite) -> None:
    set_checks(site, at_once=1)
    scripts = {name: site.add(name, running=True) for name in ("attic", "cellar")}
    for script in scripts.values():
        script.polled = partial(get_further, script)
    with site.service() as service:
        site.run(service, days=1.02)
        assert health(service)[Health.OVERDUE] == 0, "not for long yet"
        site.run(service, days=0.05)
        assert health(service)[Health.OVERDUE] == 1
        for script in scripts.values():
            script.running = False
        assert len(site.run(service, 2)) == 2
        assert health(service)[Health.OVERDUE] == 0


def get_further(script: Script) -> None:
    script.done += 1


def health(service: Service) -> dict[Health, int]:
    with transaction(service.schedule.engine) as connection:
        return read_figures(connection, service.worker._clock(), grace=HOUR).health


@pytest.mark.usefixtures("unwatched")
def test_checks_that_get_no_further_leave_their_places_to_others(site: CheckedSite) -> None:
    set_checks(site, at_once=2, deadline=10 * DAY)
    for name in ("attic", "barn", "cellar"):
        site.add(name, running=True)
    site.add("shed")
    with site.service() as service:
        results = site.run(service, 3)
    assert {(result.name, result.outcome) for result in results} == {("shed", Outcome.PASSED)}


def test_storage_that_is_away_keeps_no_other_waiting(site: CheckedSite) -> None:
    set_checks(site, at_once=1)
    for name in ("attic", "barn"):
        site.add(name, outage="nobody listens")
    site.add("shed")
    with site.service() as service:
        begin = site.times.now
        (result,) = site.run(service)
    assert (result.name, result.outcome) == ("shed", Outcome.PASSED)
    assert site.times.now - begin < DAY + SLOT_TIME


def test_how_many_units_there_are_is_known_after_the_first_check(site: CheckedSite) -> None:
    """A tool that chooses by itself may say only then how many there are."""
    script = site.add("attic", whole=True)
    report = replace(blank(Finding.INTACT, checked=1), units=1)
    script.look = lambda _sample: report
    with site.service() as service:
        (result,) = site.run(service)
    assert (result.outcome, result.checked, result.units) == (Outcome.PASSED, 1, 1)
    coverage = site.coverage("attic")
    assert (coverage.units, coverage.verified[1]) == (1, 1.0)
    assert not site.verified().findings


def test_units_that_vanished_are_looked_for(site: CheckedSite) -> None:
    script = site.add("attic")
    script.vanished = ("g20",)
    with site.service() as service:
        (result,) = site.run(service)
    assert result.outcome is Outcome.FAILED
    assert [unit.defect for unit in detail(result).damaged] == ["missing"]
    assert "g20" in script.samples[0].groups
    assert not site.verified().findings


def test_a_tool_that_chooses_by_itself_is_told_how_many(site: CheckedSite) -> None:
    script = site.add("attic", whole=True)
    with site.service() as service:
        (result,) = site.run(service)
        assert (result.outcome, result.checked) == (Outcome.PASSED, 2)
        assert (script.samples[0].groups, script.samples[0].units) == ((), 2)
        assert site.coverage("attic").verified[1] == 0.0, "nobody knows which"


def test_a_tool_that_chooses_by_itself_reads_all_to_keep_a_promise(site: CheckedSite) -> None:
    script = site.add("attic", whole=True, verify_within=4 * DAY)
    with site.service() as service:
        results = site.run(service, 8)
        assert not site.coverage("attic").behind
    assert {result.outcome for result in results} == {Outcome.PASSED}
    assert {sample.units for sample in script.samples} == {2, 20}


def test_a_promise_enlarges_samples_and_the_evidence_says_so(site: CheckedSite) -> None:
    site.settings = replace(site.settings, policy="constant:14,0.01")
    script = site.add("attic", {f"g{n}": 1 for n in range(100)}, verify_within=8 * DAY)
    with site.service() as service:
        site.run(service, 12)
        assert not site.coverage("attic").behind
    rails = [
        {step.rail: step.action for step in check.decision.overrides} for check in site.checks()
    ]
    assert all("verify-within" in each for each in rails)
    assert all(each["verify-within"].interval == 2 for each in rails)
    assert max(len(sample.groups) for sample in script.samples) < 60, "not all at once"
    assert not site.verified().findings


def test_an_operator_asks_for_a_check(site: CheckedSite) -> None:
    site.add("attic")
    with site.service() as service:
        site.run(service, days=0.001)
        audit_now(service.schedule.engine, "attic", Author("olga", site.times.wall(), ""))
        (result,) = site.run(service, days=0.01)
    assert result.outcome is Outcome.PASSED
    (check,) = site.checks()
    assert [step.rail for step in check.decision.overrides] == ["asked"]


def test_a_plug_in_that_is_gone_is_unknown(
    site: CheckedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add("attic")
    monkeypatch.setattr("holdfast.checkers.registry.BUILT_IN", {})
    with site.service() as service:
        (result,) = site.run(service)
    assert result.outcome is Outcome.UNKNOWN
    assert result.reason.startswith("there is no auditor 'scripted'")


def test_a_group_that_breaks_every_check_does_not_block_the_others(site: CheckedSite) -> None:
    """The tool dies of it. Smaller and smaller samples leave it out sooner or later."""
    script = site.add("attic", {f"g{n}": 1 for n in range(32)}, verify_within=10 * DAY)

    def die(sample: Sample) -> Report:
        if "g7" in sample.groups:
            return blank(Finding.UNKNOWN, reason="the tool died")
        return Script.report(replace_look(script), sample)

    script.look = die
    with site.service() as service:
        results = site.run(service, 40, days=60)
    assert Counter(result.outcome for result in results)[Outcome.PASSED] >= 10
    coverage = site.coverage("attic")
    assert coverage.behind
    assert coverage.verified[30] >= 0.9


def replace_look(script: Script) -> Script:
    return replace(script, look=None)
