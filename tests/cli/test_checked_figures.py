"""A home that has only storage that a tool checks: what each command says about it."""

import hashlib
from pathlib import Path

import pytest
from tests.support.command_line import Workplace
from tests.support.owner_env import PASSPHRASE, QUICK

from holdfast.cli.terminal import PASSPHRASE_VARIABLE
from holdfast.control.running_services import announce_service
from holdfast.owner import Home

pytestmark = pytest.mark.slow
OBJECTS = 20
PRICES = "[control.prices]\negress_gb = 90.0\nrequest = 0.01\n"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    for number in range(OBJECTS):
        content = number.to_bytes(2, "big") * 500
        (folder / hashlib.sha256(content).hexdigest()).write_bytes(content)
    return folder


@pytest.fixture
def shell(
    tmp_path: Path, store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Workplace:
    """Return a home with a store of objects named by their hashes, checked once."""
    folder = Home.create(tmp_path / "home", PASSPHRASE, QUICK).folder
    (folder / "holdfast.toml").write_text(PRICES)
    monkeypatch.setenv("HOLDFAST_HOME", str(folder))
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE.decode())
    place = Workplace(tmp_path, capsys)
    options = ("--names", "sha256", "--set", "deletions=never", "--verify-within", "30 days")
    added = place.run("holding", "add", "attic", store, *options)
    assert added.code == 0, added
    assert "in money a month" in added.stdout
    assert place.run("audit", "now", "attic").code == 0
    return place


def test_the_bound_is_in_objects_wherever_it_is_shown(shell: Workplace) -> None:
    known = f"none of {OBJECTS} objects is damaged: all were read within 30 days"
    for command in (["status"], ["confidence"], ["holding", "list"]):
        shown = shell.run(*command)
        assert shown.code == 0, shown
        assert known in shown.stdout, command
        assert "block" not in shown.stdout
    (facts,) = shell.run("confidence", "attic", "--json").data["checked"]
    assert (facts["unit"], facts["units"], facts["read"], facts["damaged_at_most"]) == (
        *("object", OBJECTS, OBJECTS, 0),
    )
    status = shell.run("status", "--json").data
    (coverage,) = status["coverage"]
    assert coverage["verified"] == {"1": 1.0, "7": 1.0, "30": 1.0}
    assert status["activity"]["periods"][0]["checks"]["read_bytes"] == 1000 * OBJECTS
    assert shell.run("confidence", "nobody").sentence().endswith("is not on the schedule")


def test_the_plan_prices_checks_and_promises(shell: Workplace) -> None:
    (forecast,) = shell.run("plan", "--json").data["checks"]
    assert forecast["to_keep"] == forecast["as_decided"]
    assert forecast["as_decided"]["money"] > 0
    (sooner,) = shell.run("plan", "--verify-within", "10 days", "--json").data["checks"]
    assert sooner["to_keep"]["units"] == pytest.approx(3 * forecast["to_keep"]["units"])
    assert (
        "every object within 10 days takes at least"
        in shell.run("plan", "--verify-within", "10 days").stdout
    )


def test_a_budget_in_money_needs_no_price_of_gas(shell: Workplace) -> None:
    dear = shell.run("plan", "--money-per-month", "1e-9")
    assert (dear.code, "ABOVE the budget of 1e-09" in dear.stdout) == (0, True), dear
    assert shell.run("plan", "--money-per-month", "1000", "--json").data["fits"] is True


def test_the_doctor_looks_at_the_storage_and_changes_nothing(shell: Workplace, store: Path) -> None:
    (found,) = (line for line in shell.run("doctor").stdout.splitlines() if "attic" in line)
    assert found.split()[:5] == ["ok", *f"storage of attic {OBJECTS}".split()]
    store.rename(store.with_name("elsewhere"))
    away = shell.run("doctor")
    assert away.code == 1
    assert "can't list" in away.stdout
    assert "see that the storage is mounted" in away.stdout


def test_status_says_whether_a_service_is_running(shell: Workplace) -> None:
    """Before, all was well though nothing would ever be audited."""
    idle = shell.run("status")
    assert (idle.code, "-> no service is running: start holdfast serve" in idle.stdout) == (0, True)
    with announce_service(shell.directory / "home", 0, join=False):
        assert "no service" not in shell.run("status").stdout
        assert shell.run("status", "--json").data["service_running"] is True


def test_a_promise_that_a_smaller_budget_can_not_keep_is_named(shell: Workplace) -> None:
    assert "were promised" not in shell.run("plan").stdout
    settings = shell.directory / "home" / "holdfast.toml"
    settings.write_text(f"{PRICES}[control.checks]\ndaily_bytes = 500\n")
    said = "at 500 bytes a day 19.5 KiB take 60 days, and 30 days were promised"
    for command in ("status", "doctor", "plan"):
        shown = shell.run(command)
        assert (shown.code, said in shown.stdout) == (0, True), shown
        assert "raise daily_bytes in [control.checks]" in shown.stdout


def test_a_lost_object_is_in_the_figures_and_in_a_restored_home(
    shell: Workplace, store: Path, tmp_path: Path
) -> None:
    backup = tmp_path / "home.tar"
    assert shell.run("backup", backup).code == 0
    next(iter(sorted(store.iterdir()))).unlink()
    assert shell.run("audit", "now", "attic").code == 1
    estimated = shell.run("confidence")
    assert (estimated.code, shell.run("confidence", "attic").code) == (1, 1)
    assert f"1 of {OBJECTS} objects is damaged" in estimated.stdout
    status = shell.run("status")
    assert status.code == 1
    assert "holdfast repair attic shows what is damaged" in status.stdout
    assert "from a replica" not in status.stdout
    # A home from before the loss remembers which objects there were.
    copy = tmp_path / "copy"
    assert shell.run("restore", backup, "--home", copy).code == 0
    again = shell.run("audit", "now", "attic", "--home", copy)
    assert again.code == 1
    assert "(missing)" in again.stdout
