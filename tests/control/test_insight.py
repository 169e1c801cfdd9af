"""What can be seen from outside: metrics, logs, status and the evidence of a live home."""

import json
import random
import re
import socket
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from sqlalchemy import update
from tests.support.command_line import Workplace
from tests.support.live_operation import move_node
from tests.support.live_service import Site, site
from tests.support.owner_env import flip
from tests.support.simulated_fleet import Clock
from tests.support.webhook import listening

from holdfast.cli.terminal import PASSPHRASE_VARIABLE
from holdfast.control.incidents.types import Step
from holdfast.control.logging import configure_logs
from holdfast.control.queries.holdings import AsOf, HoldingFilter, list_holdings
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.service import Service, milliseconds
from holdfast.control.settings.models import (
    AlertSettings,
    ControlSettings,
    MetricsSettings,
    Responses,
    read_control,
)
from holdfast.durations import DAY, HOUR, MINUTE, SECOND
from holdfast.errors import InputError
from holdfast.storage.database import connect, migrate, transaction
from holdfast.storage.schema import holdings, versions

CONTENT = random.Random(1).randbytes(20_000)
LEAVES = 9  # a champion, the settings, two registrations, two audits, three responses


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@pytest.fixture
def place(tmp_path: Path, port: int) -> Iterator[Site]:
    settings = ControlSettings(
        policy="fixed-high",
        rails=Rails(jitter=0.0, surprise=0.0, first=0.0, recovery=14, sample_cap=100),
        responses=Responses(failed=(Step.LOCALISE, Step.QUARANTINE, Step.ALERT)),
        metrics=MetricsSettings(("127.0.0.1", port)),
    )
    with site(tmp_path, settings) as made:
        for name in ("attic", "cellar"):
            made.holding(name, CONTENT)
        yield made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def desk(
    place: Site, clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Workplace:
    """Return a place to run commands at, in the time of the clock, without the passphrase."""
    monkeypatch.setattr("holdfast.cli.control.milliseconds", lambda: clock.now)
    monkeypatch.setenv("HOLDFAST_HOME", str(place.home.folder))
    monkeypatch.delenv(PASSPHRASE_VARIABLE, raising=False)
    return Workplace(place.folder, capsys)


def damage(place: Site, name: str) -> None:
    with place.home.holding(name) as holding:
        for path in place.node.stored(holding, "data"):
            flip(path, *range(0, path.stat().st_size, 100))


def settle(service: Service) -> None:
    """Do all that is due now."""
    while service.step() or service.responder.tick():
        pass


def scraped(port: int) -> dict[str, float]:
    """Return what Prometheus would read."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


@pytest.mark.slow
def test_metrics_tell_what_was_done_and_how_the_database_stands(
    place: Site, clock: Clock, port: int
) -> None:
    with place.service(clock, clock) as service:
        settle(service)
        damage(place, "attic")
        clock.now += DAY
        settle(service)
        clock.now += DAY + HOUR
        found = scraped(port)
        assert found['holdfast_audits_total{outcome="passed"}'] == 1
        assert found['holdfast_audits_total{outcome="failed"}'] == 1
        assert found["holdfast_holdings"] == 2
        assert found["holdfast_overdue_holdings"] == 1
        assert found["holdfast_due_lag_seconds"] == 3600
        assert found["holdfast_quarantined_holdings"] == 1
        assert found["holdfast_working_holdings"] == 0
        assert found["holdfast_evidence_leaves"] == LEAVES
        assert found["holdfast_evidence_unsequenced_leaves"] == 0
        assert found["holdfast_damaged_holdings"] == 0, "it is quarantined"
        assert found["holdfast_silent_holdings"] == 0
        assert found["holdfast_open_alerts"] == 2
        assert found["holdfast_open_cases"] == 0
        assert found["holdfast_decision_seconds_count"] == 2
        assert found["holdfast_tick_seconds_count"] == 2
        assert any("fixed-high" in name for name in found if name.startswith("holdfast_policy"))
        assert not any("attic" in name or "cellar" in name for name in found)


@pytest.mark.slow
def test_who_decides_and_who_is_in_shadow_is_told(
    place: Site, clock: Clock, port: int, desk: Workplace
) -> None:
    def gauges() -> set[str]:
        return {name.split("{")[1] for name in scraped(port) if name.startswith("holdfast_policy")}

    with place.service(clock, clock) as service:
        settle(service)
        assert desk.run("policy", "add", "heuristic", "--challenger").code == 0
        clock.now += DAY
        settle(service)
        found = scraped(port)
        assert found["holdfast_shadow_decisions_total"] == 2
        assert 0 <= found["holdfast_shadow_agreements_total"] <= 2
        assert sorted(each.split('"')[1] for each in gauges()) == ["challenger", "champion"]
        assert "champion: fixed-high" in desk.run("status").stdout
        with transaction(service.schedule.engine) as connection:
            named = update(versions).where(versions.c.name == "heuristic")
            connection.execute(named.values(name="fixed-low"))
    with place.service(clock, clock) as service:
        clock.now += DAY
        settle(service)
        assert "ALERT shadow-unusable: policies: version" in desk.run("status").stdout
        assert desk.run("policy", "withdraw").code == 0
        clock.now += DAY
        settle(service)
        assert desk.run("status").code == 0


@pytest.mark.slow
def test_another_champion_than_the_settings_policy_is_told_at_the_start(
    place: Site, clock: Clock, desk: Workplace
) -> None:
    with place.service(clock, clock) as service:
        settle(service)
    other = replace(place, settings=replace(place.settings, policy="heuristic"))
    with structlog.testing.capture_logs() as logs, other.service(clock, clock):
        assert "champion: fixed-high" in desk.run("status").stdout
    assert [each["champion"] for each in logs if "registry's champion" in each["event"]] == [
        "fixed-high"
    ]


@pytest.mark.slow
def test_metrics_of_a_database_that_is_gone_say_so(place: Site, clock: Clock, port: int) -> None:
    with place.service(clock, clock):
        (place.home.folder / "holdfast.db").rename(place.folder / "elsewhere.db")
        for left in place.home.folder.glob("holdfast.db-*"):
            left.unlink()
        found = scraped(port)
        assert found["holdfast_database_up"] == 0
        assert "holdfast_overdue_holdings" not in found


@pytest.mark.slow
def test_a_port_that_is_taken_is_told(place: Site, clock: Clock) -> None:
    with (
        place.service(clock, clock),
        pytest.raises(InputError, match="can't be served"),
        place.service(clock, clock),
    ):
        pass


@pytest.mark.slow
def test_a_running_service_answers_a_failure_by_itself(place: Site) -> None:
    quick = replace(
        place.settings,
        rails=Rails(unit=SECOND, jitter=0.0, surprise=0.0, first=0.0, recovery=14, sample_cap=100),
        metrics=MetricsSettings(),
    )
    damage(place, "attic")
    running = replace(place, settings=quick)
    with running.service(milliseconds, milliseconds) as service:
        service.run(lambda: bool(service.schedule.lag(milliseconds()).quarantined))
    assert running.verified().findings == ()


def test_logs_are_json_unless_someone_reads_along(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    try:
        log = structlog.get_logger()
        log.warning("it stands still", reason="no postgresql://me:secret@host/name", count=2)
    finally:
        structlog.reset_defaults()
    line = json.loads(capsys.readouterr().err)
    assert line.pop("timestamp")
    assert line == {
        "event": "it stands still",
        "level": "warning",
        "reason": "no postgresql://***@host/name",
        "count": 2,
    }


@pytest.mark.slow
def test_the_first_confirmed_loss_alerts_and_status_says_so_until_it_is_repaired(
    place: Site, clock: Clock, desk: Workplace
) -> None:
    """A real node loses blocks, and a replica has them.

    Before, no alert was raised, and `status` exited with 0 and "all is well" all along.
    """
    with listening() as receiver:
        alerting = AlertSettings(webhook=f"http://127.0.0.1:{receiver.server_port}/")
        settings = replace(place.settings, responses=Responses(), alerts=alerting)
        with replace(place, settings=settings).service(clock, clock) as service:
            settle(service)
            clock.now += DAY
            settle(service)
            assert desk.run("status").stdout.startswith("2 holdings: all is well")

            damage(place, "cellar")
            clock.now += DAY
            service.step()
            assert_status(desk, "1 damaged, 1 under repair, 1 alert", damaged=1, cases=1)
            service.responder.tick()
            service.step()
            assert_status(desk, "1 damaged, 1 under repair, 1 alert", damaged=1, cases=1)
            (raised,) = receiver.bodies
            assert (raised["state"], raised["kind"]) == ("raised", "holding-damaged")
            assert raised["subject"] == "cellar"
            assert re.match(
                "audit 2: the node signed a wrong proof; node 0x[0-9a-f]{40}$", raised["detail"]
            )

            move_node(place.home, "http://127.0.0.1:9", "attic")  # which has the same file
            settle(service)
            assert_status(desk, "1 damaged, 1 under repair, 1 alert", damaged=1, cases=1)
            changed = receiver.bodies[-1]
            assert (changed["state"], changed["id"]) == ("changed", raised["id"])
            assert re.match("[0-9]+ blocks damaged: cellar, bytes .*; node 0x", changed["detail"])

            move_node(place.home, place.node.url, "attic")
            clock.now += HOUR
            settle(service)
            service.step()
            ended = receiver.bodies[-1]
            assert (ended["state"], ended["id"]) == ("ended", raised["id"])
            assert ended["detail"] == f"{changed['detail']}; repaired, audit 4 passed"
            assert [each["state"] for each in receiver.bodies] == ["raised", "changed", "ended"]
            finished = desk.run("status", "--json")
            assert (finished.code, finished.data["fine"], finished.data["alerts"]) == (0, True, [])
            (loss,) = finished.data["past_losses"]
            assert (loss["subject"], loss["detail"]) == ("cellar", ended["detail"])
            verdict, told, *_ = desk.run("status").stdout.splitlines()
            assert verdict == "2 holdings: all is well, after 1 loss in 30 days"
            assert told == f"past loss: cellar: {ended['detail']} (just now)"
            clock.now += 31 * DAY
            settle(service)
            assert desk.run("status").stdout.startswith("2 holdings: all is well\n")
    (past,) = place.alerts()
    assert past.ended is not None, "what was repaired stays visible"


@pytest.mark.slow
def test_status_is_not_fine_while_a_node_is_silent_or_admits_a_loss(
    place: Site, clock: Clock, desk: Workplace
) -> None:
    """Before, a holding whose last audit was offline or timed out left `status` at 0."""
    with place.service(clock, clock) as service:
        settle(service)
        for outcome in ("timed-out", "offline", "unknown"):
            ended = update(holdings).where(holdings.c.name == "attic").values(outcome=outcome)
            with transaction(service.schedule.engine) as connection:
                connection.execute(ended)
            assert_status(desk, "1 silent", silent=1)
        for outcome in ("failed", "admitted"):
            ended = update(holdings).where(holdings.c.name == "attic").values(outcome=outcome)
            with transaction(service.schedule.engine) as connection:
                connection.execute(ended)
            assert_status(desk, "1 damaged", damaged=1)


@pytest.mark.slow
def test_a_node_that_is_away_for_too_long_raises_an_alert_between_its_audits(
    place: Site, clock: Clock, desk: Workplace
) -> None:
    """Before, a node could be away for weeks until its next audit."""
    with place.service(clock, clock) as service:
        settle(service)
        service.contacts.record_probe(place.node.address, clock.now, present=True)
        clock.now += HOUR
        service.contacts.record_probe(place.node.address, clock.now, present=False)
        clock.now += 4 * HOUR
        service.step()
        assert desk.run("status").code == 0, "six hours are allowed"
        clock.now += 2 * HOUR
        service.step()
        (alert,) = desk.run("status", "--json").data["alerts"]
        assert alert["subject"] == f"0x{place.node.address.hex()}"
        said = "it has not been reached for 7 h; it stores attic, cellar"
        assert (alert["kind"], alert["detail"]) == ("node-offline", said)
        assert_status(desk, "1 alert")
        service.contacts.record_probe(place.node.address, clock.now, present=True)
        clock.now += MINUTE
        service.step()
        assert desk.run("status").code == 0


@pytest.mark.slow
def test_the_hours_in_which_a_node_was_reachable_are_in_status_and_metrics(
    place: Site, clock: Clock, desk: Workplace, port: int
) -> None:
    def pass_hours(count: int) -> tuple[float, float]:
        """Let hours pass with their probes; return how many the node was reachable, observed."""
        for _ in range(4 * count):
            for probe in service.prober.tick():
                probe.result(timeout=60)
            clock.now += HOUR // 4
        (node,) = desk.run("status", "--json").data["nodes"]
        found = scraped(port)
        for name in ("reachable_hours", "observed_hours"):
            label = f'holdfast_node_{name}{{node="{node["address"]}"}}'
            assert found[label] == pytest.approx(node[name])
        assert node["url"] == url
        return node["reachable_hours"], node["observed_hours"]

    url = place.node.url
    with place.service(clock, clock) as service:
        settle(service)
        reachable, observed = pass_hours(20)
        assert reachable == observed > 0
        url = "http://127.0.0.1:9"
        for name in ("attic", "cellar"):
            move_node(place.home, url, name)
        after, longer = pass_hours(20)
        assert longer > observed
        assert after - reachable < longer - observed


def assert_status(desk: Workplace, words: str, **counts: int) -> None:
    """Look at the command's exit code, words and data."""
    told, shown = desk.run("status", "--json"), desk.run("status")
    assert (told.code, shown.code, told.data["fine"]) == (1, 1, False)
    assert {name: told.data[name] for name in counts} == counts
    assert shown.stdout.splitlines()[0] == f"2 holdings: {words}"


@pytest.mark.slow
def test_status_tells_what_needs_a_look_first(place: Site, clock: Clock, desk: Workplace) -> None:
    with place.service(clock, clock) as service:
        settle(service)
        assert desk.run("status").code == 0
        assert re.search(r"^attic +new ", desk.run("status").stdout, re.MULTILINE)
        clock.now += DAY
        settle(service)
        clock.now += HOUR
        finished = desk.run("status")
        assert (finished.code, finished.stderr) == (0, "")
        verdict, idle, empty, titles, _rule, attic, cellar = finished.stdout.splitlines()[:7]
        assert (verdict, empty) == ("2 holdings: all is well", "")
        assert idle == "-> no service is running: start holdfast serve"
        assert titles.split() == ["holding", "health", "last", "audit", "next", "audits", "size"]
        for line, name in ((attic, "attic"), (cellar, "cellar")):
            assert " ".join(line.split()) == f"{name} sound passed 1 h ago in 23 h 1 162 blocks"
        assert re.search(r"1 h ago +audit 1 of cellar, \d+ blocks: passed", finished.stdout)
        assert re.search(r"last day +2 passed; 0 gas", finished.stdout)
        damage(place, "cellar")
        clock.now += 23 * HOUR
        settle(service)
        clock.now += HOUR
    found = desk.run("status", "--json")
    assert found.code == 1
    assert (found.data["fine"], found.data["quarantined"], found.data["overdue"]) == (False, 1, 0)
    assert [each["health"] for each in found.data["worst"]] == ["quarantined", "sound"]
    assert found.data["evidence"] == found.data["checkpoint"]["leaves"]
    shown = desk.run("status").stdout.splitlines()
    assert shown[0] == "2 holdings: 1 quarantined, 2 alerts"
    kinds = "holding-quarantined, holding-damaged"
    assert re.match(rf"ALERT {kinds}: cellar: \d+ blocks damaged: cellar, bytes ", shown[1])
    assert "-> restore damaged blocks from a replica: holdfast repair cellar" in shown
    assert "-> when a quarantined holding is whole again: holdfast audit release cellar" in shown
    assert desk.run("audit", "release", "cellar").code == 0
    clock.now += 2 * HOUR
    finished = desk.run("status", "--limit", "1")
    assert finished.code == 1, "nobody serves, so it is overdue"
    assert finished.stdout.startswith("2 holdings: 1 overdue")
    assert re.search(r"^cellar +overdue ", finished.stdout, re.MULTILINE)
    assert "and 1 more holding\n" in finished.stdout
    assert "is not quarantined" in desk.run("audit", "release", "cellar").sentence()


@pytest.mark.slow
def test_status_changes_nothing(place: Site, clock: Clock, desk: Workplace) -> None:
    with place.service(clock, clock) as service:
        settle(service)
    database = place.home.folder / "holdfast.db"
    before = database.read_bytes()
    desk.run("status")
    assert database.read_bytes() == before
    engine = connect(str(database), read_only=True)
    with pytest.raises(Exception, match="readonly"), transaction(engine) as connection:
        connection.execute(update(holdings).values(due=0))
    engine.dispose()


@pytest.mark.slow
def test_a_new_holding_is_scheduled_by_the_next_step_and_shown_with_its_node(
    place: Site, clock: Clock
) -> None:
    with place.service(clock, clock) as service:
        settle(service)
        place.holding("late", b"content")
        service.step()
        assert "late" in service.schedule.names()
        with transaction(service.schedule.engine) as connection:
            page = list_holdings(
                connection, AsOf(clock.now, HOUR), HoldingFilter(), page=1, limit=9
            )
    nodes = {holding.name: holding.node for holding in page.holdings}
    assert nodes["late"] is not None
    assert nodes["late"].url == place.node.url


@pytest.mark.slow
def test_before_the_first_start_commands_say_what_to_do(desk: Workplace, place: Site) -> None:
    assert (place.home.folder / "holdfast.db").exists(), "it has holdings"
    for command in (("status",), ("evidence", "show"), ("audit", "release", "attic")):
        assert "start `holdfast serve`" in desk.run(*command).sentence()
    engine = connect(str(place.home.folder / "holdfast.db"))
    migrate(engine)
    with transaction(engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    assert "newer Holdfast (schema 9999)" in desk.run("status").sentence()


@pytest.mark.slow
def test_the_evidence_of_a_live_home_is_shown_exported_and_verified(
    place: Site, clock: Clock, desk: Workplace
) -> None:
    with place.service(clock, clock) as service:
        settle(service)
        damage(place, "attic")
        clock.now += DAY
        settle(service)
        shown = desk.run("evidence", "show", str(place.home.folder), "--json").data["leaves"]
        assert len(shown) == LEAVES
        assert "quarantined" in desk.run("evidence", "show").stdout
        exported = desk.run("evidence", "export", "--out", str(place.folder / "b"), "--json").data
        assert exported["leaves"] == LEAVES
        for source in ((), (str(place.folder / "b"),)):
            verified = desk.run("evidence", "verify", *source, "--key", exported["key"], "--json")
            assert verified.data["fine"]
            assert verified.data["leaves"] == LEAVES


def test_settings_of_responses_and_metrics_are_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.toml"
    path.write_text(
        '[control.responses]\nfailed = ["follow-up", "alert"]\ndelay = "at once"\nratio = 0.5\n'
        '[control.metrics]\nlisten = "[::1]:9470"\n'
    )
    found = read_control(tmp_path)
    assert found.responses == Responses(failed=(Step.FOLLOW_UP, Step.ALERT), ratio=0.5)
    assert found.metrics.listen == ("::1", 9470)
    for text, said in (
        ('[control.responses]\nfailed = ["shout"]', "must be 'follow-up', 'localise'"),
        ('[control.responses]\nfailed = ["repair"]', "after localise"),
        ('[control.metrics]\nlisten = "9470"', "a host and a port"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=said):
            read_control(tmp_path)
