"""`holdfast serve` as its operator runs it: a real node, real files, two workers, one killed."""

import os
import signal
import socket
import time
from pathlib import Path

import httpx
import pytest
from tests.control.live_serve import SETTINGS, children, count, wait_for
from tests.support.command_line import Shell
from tests.support.live_service import site
from tests.support.owner_env import PASSPHRASE, QUICK

from holdfast.cli.app import run
from holdfast.control.evidence.reader import DatabaseLog
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.leaf import Audit, decode
from holdfast.evidence.note import Verifier
from holdfast.evidence.verification import verify
from holdfast.owner import Home
from holdfast.storage.database import connect


@pytest.mark.slow(seconds=20)
def test_audits_run_by_themselves_and_go_on_when_a_worker_is_killed(shell: Shell) -> None:
    home = shell.directory / "home"
    with site(shell.directory) as place:
        (home / "holdfast.toml").write_text(SETTINGS)
        for name in ("alpha", "beta", "gamma"):
            place.holding(name, os.urandom(20_000))
        with shell.start("serve", "--workers", "2") as process:
            wait_for("work", home, "SELECT count(*) FROM audits WHERE outcome = 'passed'", 3)
            os.kill(children(process.pid)[-1], signal.SIGKILL)
            wait_for("more work", home, "SELECT count(*) FROM audits", count(home) + 6)
            wait_for("confidence", home, "SELECT count(*) FROM confidences", 3)
            wait_for("an anchor", home, "SELECT count(*) FROM checkpoints WHERE anchored", 1)
            process.terminate()
            _, said = process.communicate(timeout=60)
            assert process.returncode in {0, 130}, said
    assert "Traceback" not in said

    engine = connect(str(home / "holdfast.db"))
    with engine.connect() as connection:
        row = connection.exec_driver_sql("SELECT note FROM checkpoints").first()
    assert row is not None
    key = shell.run("evidence", "key", "--json").data["key"]
    log = DatabaseLog(engine, Verifier.decode(key))
    write_bundle(log, shell.directory / "bundle")
    report = verify(Bundle.open(shell.directory / "bundle"), Verifier.decode(key))
    assert report.findings == ()
    assert report.anchors >= 1
    audits = [decode(entry.leaf) for entry in log.entries()]
    told = [(each.holding.id, each.number) for each in audits if isinstance(each, Audit)]
    assert len(told) == len(set(told)) == count(home, "SELECT count(*) FROM audits")
    silent = [each.reason for each in audits if isinstance(each, Audit) and each.reason]
    assert {each.outcome for each in audits if isinstance(each, Audit)} == {"passed"}, silent
    engine.dispose()


@pytest.mark.slow
def test_a_node_that_hangs_does_not_keep_the_service_from_stopping(shell: Shell) -> None:
    """Before, a step that waited for the node was waited for, up to a minute."""
    home, limit = shell.directory / "home", 30
    with site(shell.directory) as place:
        responses = '[control.responses]\ntimed_out = ["localise"]\n'
        (home / "holdfast.toml").write_text(SETTINGS + responses)
        place.holding("alpha", os.urandom(20_000))
        with shell.start("serve") as process:
            wait_for("work", home, "SELECT count(*) FROM audits WHERE outcome = 'passed'", 1)
            os.kill(place.node.process.pid, signal.SIGSTOP)
            try:
                wait_for("a step", home, "SELECT count(*) FROM responses WHERE lease > 0", 1)
                process.terminate()
                _, said = process.communicate(timeout=limit)
            finally:
                os.kill(place.node.process.pid, signal.SIGCONT)
    assert process.returncode in {0, 130}, said
    assert "Traceback" not in said
    given_up = "SELECT count(*) FROM responses WHERE lease = 0 AND state = 'ready'"
    assert count(home, given_up) == 1  # for the next service to take at once


@pytest.mark.slow
def test_a_database_of_a_newer_version_is_refused_before_anything_listens(shell: Shell) -> None:
    shell.make_home()
    assert shell.run("holding", "list").code == 0
    engine = connect(str(shell.directory / "home" / "holdfast.db"))
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    assert "newer Holdfast" in shell.run("serve").sentence()


@pytest.mark.slow
def test_a_service_that_was_killed_leaves_its_port_to_the_next(shell: Shell) -> None:
    """Before, its web server kept the port while it shut down, and the next start failed."""
    shell.make_home()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home = shell.directory / "home"
    (home / "holdfast.toml").write_text(f'[control.web]\nlisten = "127.0.0.1:{port}"\n')
    for _ in range(2):
        with shell.start("serve", "--json") as process:
            url = f"http://127.0.0.1:{port}"
            assert process.stdout is not None
            said = "".join(iter(process.stdout.readline, "}\n"))
            assert f'"web": "{url}"' in said, process.communicate()
            assert httpx.get(f"{url}/api/v1/openapi.json", timeout=60).status_code < 500
            process.kill()


@pytest.mark.slow(seconds=10)
def test_workers_do_not_outlive_who_started_them(shell: Shell) -> None:
    shell.make_home()
    with shell.start("serve", "--workers", "2", "--json") as process:
        assert process.stdout is not None
        process.stdout.readline()
        for _ in range(300):
            # The API, the refresher of confidences, and the tracker of resources are among them.
            if len(workers := children(process.pid)) == 5:
                break
            time.sleep(0.1)
        wait_for("a database", shell.directory / "home", "SELECT count(*) + 1 FROM holdings", 1)
        process.kill()
        process.communicate()
        for _ in range(300):
            if not any(Path(f"/proc/{worker}").exists() for worker in workers):
                return
            time.sleep(0.1)
    raise AssertionError("a worker lives on")


def test_settings_that_make_no_sense_are_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home.create(tmp_path / "home", PASSPHRASE, QUICK).folder
    monkeypatch.setenv("HOLDFAST_PASSPHRASE", PASSPHRASE.decode())
    for text, told in (
        ("[control]\npolicy = 'nobody'", "there is no policy"),
        ("[control.rails]\nunit = 5", "such as"),
        ("[control.rails]\nshortest = 9\nlongest = 3", "must not be above longest"),
        ("[control]\ndatabase = 'mysql://u:secret@h/n'", "must be a file or an address"),
        ("[control.patience]\ndeadline = '20 days'", "must be below longest in"),
        ("[control]\nworkers = 3", "unknown key 'workers'"),
        ("[control.metrics]\nlisten = '127.0.0.1:9471'", "choose another port"),
        ("[control", "not TOML"),
    ):
        (home / "holdfast.toml").write_text(text)
        assert run(["serve", "--home", str(home)]) == 2, text
        said = capsys.readouterr()
        assert told in said.err
        assert len(said.err.splitlines()) == 1
        assert "secret" not in said.err
