"""`holdfast serve` with its API, and commands meanwhile."""

import getpass
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.control.live_serve import children
from tests.support.command_line import QuickShell, Shell

from holdfast.control.settings.models import WebSettings, read_control
from holdfast.errors import InputError


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    made = QuickShell(tmp_path)
    made.make_home()
    (tmp_path / "home" / "holdfast.toml").write_text('[control.web]\nlisten = "127.0.0.1:0"\n')
    return made


def answered(url: str) -> Any:
    for _ in range(300):
        try:
            return httpx.get(f"{url}/api/v1/fleet").raise_for_status().json()
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError("nobody answers")


def said_at_the_start(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    said = ""
    while not said.endswith("\n}\n"):
        said += process.stdout.readline()
    return json.loads(said)


@pytest.mark.slow(seconds=20)
def test_serve_tells_its_address_and_goes_on_when_its_api_is_killed(shell: Shell) -> None:
    with shell.start("serve", "--json") as process:
        url = said_at_the_start(process)["web"]
        assert answered(url)["holdings"] == 0
        assert httpx.get(f"{url}/api/v1/status").json()["fine"]
        assert shell.run("status").code == 0
        token = shell.run("token", "create", "ada", "--role", "admin", "--json").data["token"]
        bearer = {"authorization": f"Bearer {token}"}
        assert httpx.get(f"{url}/api/v1/fleet", headers=bearer).status_code == 200
        assert shell.run("token", "revoke", "ada").code == 0
        assert httpx.get(f"{url}/api/v1/fleet", headers=bearer).status_code == 401
        assert "ada: admin" in shell.run("token", "list").stdout
        give_up = time.monotonic() + 60
        while f"ordered by {getpass.getuser()}" not in shell.run("evidence", "show").stdout:
            assert time.monotonic() < give_up, "the order does not come into the evidence"
            time.sleep(0.1)
        os.kill(children(process.pid)[1], signal.SIGKILL)  # after the tracker of resources
        time.sleep(0.5)
        assert answered(url)["holdings"] == 0
        process.terminate()
        _, errors = process.communicate(timeout=60)
        assert "Traceback" not in errors
    assert shell.run("status").code == 0, "without the service"


@pytest.mark.slow(seconds=20)
def test_a_second_serve_is_told_of_the_first_and_leaves_it_alone(shell: Shell) -> None:
    with shell.start("serve", "--json") as first:
        url = said_at_the_start(first)["web"]
        assert answered(url)["holdings"] == 0
        sentence = shell.run("serve").sentence()
        assert f"process {first.pid} on {socket.gethostname()}" in sentence
        assert "--join" in sentence
        with shell.start("serve", "--join", "--json") as second:
            start = said_at_the_start(second)
            assert start["web"] is None, "the first one has the dashboard"
            assert [other["process"] for other in start["joined"]] == [first.pid]
            second.terminate()
            _, errors = second.communicate(timeout=60)
            assert "Traceback" not in errors
        assert answered(url)["holdings"] == 0
        assert first.poll() is None
        first.terminate()
        first.communicate(timeout=60)
    with shell.start("serve", "--json") as next_one:
        assert said_at_the_start(next_one)["joined"] == []
        next_one.terminate()
        next_one.communicate(timeout=60)


@pytest.mark.slow
def test_serve_leaves_no_process_behind_if_it_is_stopped_at_once(shell: Shell) -> None:
    with shell.start("serve", "--json") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        process.communicate(timeout=60)  # until everybody who could write has ended


@pytest.mark.slow
def test_settings_of_the_api_are_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.toml"
    path.write_text(
        '[control.web]\nlisten = "[::1]:0"\nhosts = ["Audits.example.org"]\n'
        'trust_loopback = false\norigin = "https://Watch.example.org:8443"'
    )
    assert read_control(tmp_path).web == WebSettings(
        ("::1", 0), ("audits.example.org",), False, "https://watch.example.org:8443"
    )
    path.write_text('[control.web]\nlisten = "off"')
    assert read_control(tmp_path).web.listen is None
    for text, message in (
        ('listen = "9471"', "a host and a port"),
        ("listen = 9471", "must be a text"),
        ('hosts = "a"', "must be a list"),
        ('hosts = ["a b"]', "a list of names"),
        ("trust_loopback = 1", "true or false"),
        ('origin = "audits.example.org"', "must be an origin"),
        ('origin = "https://audits.example.org/"', "must be an origin"),
        ('origin = "null"', "must be an origin"),
    ):
        path.write_text(f"[control.web]\n{text}")
        with pytest.raises(InputError, match=message):
            read_control(tmp_path)
