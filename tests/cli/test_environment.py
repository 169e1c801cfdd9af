"""A passphrase that was given by the environment is in no environment once a command runs."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from tests.support.command_line import PASSPHRASE, Shell
from tests.support.processes import process_tree

from holdfast import secret_variables
from holdfast.control.inference.retraining import Retraining
from holdfast.control.settings.models import RetrainingSettings
from holdfast.demo.nodes import StorageNode
from holdfast.durations import DAY
from holdfast.node.identity import RequestKey
from holdfast.secret_variables import KEYSTORE_PASSPHRASE, accept, secret, withdraw_secrets

KEYSTORE = "another passphrase"
LINUX = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="/proc is Linux's")


def shows(process: int) -> list[str]:
    """Return which passphrases are in what the system shows of a process."""
    place = Path(f"/proc/{process}")
    shown = (place / "environ").read_bytes() + (place / "cmdline").read_bytes()
    return [text for text in (PASSPHRASE, KEYSTORE) if text.encode() in shown]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(KEYSTORE_PASSPHRASE, KEYSTORE)
    return Shell(tmp_path)


@contextmanager
def serving(shell: Shell, *options: str) -> Iterator[int]:
    with shell.start("serve", "--json", *options) as process:
        assert process.stdout is not None
        while "}" not in process.stdout.readline():
            assert process.poll() is None
        yield process.pid


@LINUX
@pytest.mark.slow
def test_no_process_of_a_running_service_shows_a_passphrase(shell: Shell) -> None:
    """Before: all six did: the service, the tracker, the API, its helper, and two workers."""
    shell.make_home()
    with serving(shell, "--workers", "2") as service:
        for _ in range(300):
            if len(processes := process_tree(service)) == 6:
                break
            time.sleep(0.1)
        assert len(processes) == 6
        assert [shows(process) for process in processes] == [[]] * 6


@pytest.mark.slow
@LINUX
def test_processes_that_tag_a_file_show_no_passphrase(shell: Shell) -> None:
    assert shell.run("pdp", "keygen", "--out", "key", "--sectors", "2").code == 0
    (shell.directory / "file").write_bytes(bytes(20 << 20))
    seen: list[list[str]] = []
    with shell.start("pdp", "tag", "file", "--key", "key", "--processes", "2") as process:
        while process.poll() is None:
            try:
                seen += [shows(one) for one in process_tree(process.pid)[1:]]
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
    assert process.returncode == 0
    assert seen
    assert not any(seen)


WRITE_ENVIRONMENT = "import os, sys; open(sys.argv[-2] + '/env', 'w').write(repr(os.environb))"


def test_a_retraining_gets_no_passphrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(secret_variables.PASSPHRASE, PASSPHRASE)
    command = (sys.executable, "-c", WRITE_ENVIRONMENT)
    with withdraw_secrets():
        retraining = Retraining(tmp_path, RetrainingSettings(every=1), lambda: 0, command)
        assert retraining.look(DAY) is None
        for _ in range(300):
            if retraining.look(DAY) is not None:
                break
            time.sleep(0.02)
    assert PASSPHRASE not in (tmp_path / "env").read_text()


@pytest.mark.slow
@LINUX
def test_a_node_of_the_demo_is_given_its_passphrase_by_a_pipe(tmp_path: Path) -> None:
    node = StorageNode("one", tmp_path, RequestKey.generate().owner)
    node.start()
    try:
        assert node._process is not None
        environment = Path(f"/proc/{node._process.pid}/environ").read_bytes()
        node.wait_until_ready()
    finally:
        node.kill()
    assert node._passphrase.encode() not in environment


def answer(sender: Connection, given: bytes) -> None:
    accept({KEYSTORE_PASSPHRASE: given})
    sender.send((secret(KEYSTORE_PASSPHRASE), KEYSTORE_PASSPHRASE in os.environ))


@pytest.mark.slow
def test_a_child_has_what_is_handed_to_it_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYSTORE_PASSPHRASE, KEYSTORE)
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    with withdraw_secrets():
        assert secret(KEYSTORE_PASSPHRASE) == KEYSTORE.encode()
        listed = subprocess.run(["/usr/bin/env"], capture_output=True, check=True).stdout
        assert KEYSTORE.encode() not in listed
        child = context.Process(target=answer, args=(sender, secret(KEYSTORE_PASSPHRASE)))
        child.start()
        assert receiver.recv() == (KEYSTORE.encode(), False)
        child.join()
    assert os.environ[KEYSTORE_PASSPHRASE] == KEYSTORE, "it is back for whoever called us"
