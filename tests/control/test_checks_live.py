"""`holdfast serve` and real checks in processes of their own, also when the service is killed."""

import hashlib
import os
import signal
import sys
from pathlib import Path
from subprocess import DEVNULL

import pytest
from sqlalchemy import select
from tests.control.live_serve import count, wait_for
from tests.support.checks import kill_jobs
from tests.support.checks import wait_for as wait_until
from tests.support.command_line import Shell

from holdfast.control.service import milliseconds
from holdfast.evidence.leaf import StorageCheck, decode
from holdfast.storage.database import open_engine, transaction
from holdfast.storage.schema import leaves

pytestmark = pytest.mark.slow
SETTINGS = """
[control]
policy = "constant:1,0.10"
[control.rails]
unit = "1 second"
longest = 3
[control.patience]
deadline = "2 seconds"
first_pause = "1 second"
[control.pace]
lease = "5 seconds"
[control.upkeep]
enrol = "1 second"
[control.web]
listen = "off"
"""
# It notes that it began, and ends when it may.
PROGRAM = """
import json, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
with (folder / "began").open("a") as file:
    file.write("x")
while not (folder / "may-end").exists():
    time.sleep(0.05)
print(json.dumps({"checked": 10, "of": 100, "damaged": [], "bytes": 1000}))
"""
PASSED = "SELECT count(*) FROM audits WHERE outcome = 'passed'"


@pytest.fixture
def home(shell: Shell) -> Path:
    assert shell.run("init").code == 0
    folder = shell.directory / "home"
    (folder / "holdfast.toml").write_text(SETTINGS)
    return folder


def first_check(home: Path) -> StorageCheck:
    with open_engine(str(home / "holdfast.db")) as engine, transaction(engine) as connection:
        bodies = connection.execute(select(leaves.c.body).order_by(leaves.c.id)).scalars()
        entries = [decode(bytes(body)) for body in bodies]
    return next(entry for entry in entries if isinstance(entry, StorageCheck))


@pytest.mark.slow(seconds=20)
def test_a_check_survives_the_kill_of_the_service(shell: Shell, home: Path) -> None:
    folder = shell.directory / "tape"
    folder.mkdir()
    program = shell.directory / "check-tape"
    program.write_text(PROGRAM)
    command = f"{sys.executable} {program} {folder}"
    added = shell.run("holding", "add", "tape", "robot:7", "--command", command)
    assert added.code == 0, added
    try:
        with shell.start("serve", stdout=DEVNULL, stderr=DEVNULL) as process:
            wait_until((folder / "began").exists)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        killed, token = milliseconds(), count(home, "SELECT token FROM holdings")
        assert count(home) == 0
        with shell.start("serve", stdout=DEVNULL, stderr=DEVNULL):
            claimed = f"SELECT token != {token} FROM holdings"  # noqa: S608 - a number
            wait_for("another claim", home, claimed, 1)
            assert (folder / "began").read_text() == "x", "the check goes on"
            (folder / "may-end").touch()
            wait_for("the end of the check", home, PASSED, 1)
        check = first_check(home)
        assert (check.number, check.outcome, check.checked) == (1, "passed", 10)
        assert check.began_at < killed < check.ended_at
    finally:
        for place in (home / "holdings").iterdir():
            kill_jobs(place)


@pytest.mark.slow(seconds=30)
def test_damage_on_disk_is_found_named_and_alerted(shell: Shell, home: Path) -> None:
    store = shell.directory / "store" / "objects"
    store.mkdir(parents=True)
    names = []
    for number in range(30):
        content = bytes([number]) * 1000
        names.append(hashlib.sha256(content).hexdigest())
        (store / names[-1]).write_bytes(content)
    assert shell.run("holding", "add", "lfs", store.parent, "--names", "sha256").code == 0
    with shell.start("serve", stdout=DEVNULL, stderr=DEVNULL):
        wait_for("a first check", home, PASSED, 1)
        (store / names[7]).write_bytes(b"something else")
        failed = "SELECT count(*) FROM audits WHERE outcome = 'failed'"
        wait_for("the damage", home, failed, 1)
        wait_for("an alert", home, "SELECT count(*) FROM alerts WHERE kind = 'holding-damaged'", 1)
    status = shell.run("status", "--json")
    assert status.code == 1
    details = [alert["detail"] for alert in status.data["alerts"]]
    assert any(names[7] in detail for detail in details), details
    key = shell.run("evidence", "key", "--json").data["key"]
    verified = shell.run("evidence", "verify", "--key", key, "--json")
    assert verified.data["findings"] == []
    assert verified.data["checks"] >= 2
    listed = shell.run("holding", "list", "--json").data["holdings"]
    assert [(one["kind"], one["unit"], one["units"]) for one in listed] == [("names", "object", 30)]
    assert listed[0]["coverage"]["verified_within_days"]["1"] > 0
