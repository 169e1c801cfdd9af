"""The quickstarts for storage that is there already, run as they are written, on real storage.

Then the storage is damaged on disk: the next audit finds it and names it, and the evidence says so.
"""

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.docs.blocks import blocks_of
from tests.support import borg_repositories, parts
from tests.support.checks import kill_jobs
from tests.support.object_store import object_store
from tests.support.processes import end_with_tests, running
from tests.support.restic_repositories import flip, make_repository

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "existing.md"
MAX_COMMANDS = 6
PATIENCE_SECONDS = 240.0
READY = "auditing the holdings"
# A port of its own, and not the dashboard's usual one, which another test may have.
SETTINGS = '[control.web]\nlisten = "127.0.0.1:0"\n'
INSTALL, SERVE = "pip install", "holdfast serve"
QUICKSTARTS = ("restic", "borg", "bucket", "folder")
RECIPES = ("kopia", "proxmox", "zfs", "ceph", "git-annex")


def commands(kind: str) -> list[str]:
    """Return the commands of a quickstart."""
    return [
        line
        for block in blocks_of(PAGE)
        if (block.language, block.words) == ("sh", (kind,))
        for line in block.text.splitlines()
    ]


@dataclass(frozen=True)
class Machine:
    """One machine: its folders stand for `/srv` and `/etc`."""

    root: Path
    processes: ExitStack

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def log(self) -> Path:
        return self.root / "serve.log"

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._shell(command),
            cwd=self.root,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )

    def data(self, command: str, code: int = 0) -> Any:
        """Return what a command prints with `--json`."""
        ended = self.run(f"{command} --json")
        assert ended.returncode == code, ended
        return json.loads(ended.stdout)

    def serve(self, command: str) -> None:
        """Start a command that stays, and wait until it says that it is ready."""
        with self.log.open("wb") as out:
            process = self.processes.enter_context(
                running(
                    self._shell(f"exec {command}"),
                    cwd=self.root,
                    env=self._environment(),
                    stdout=out,
                    stderr=out,
                )
            )

        def is_ready() -> bool:
            assert process.poll() is None, self.log.read_text()
            return READY in self.log.read_text()

        wait_for(is_ready)

    def follow(self, kind: str) -> str:
        """Run a quickstart to its end; return what it printed before it serves."""
        printed = []
        for command in commands(kind):
            if command.startswith(INSTALL):
                continue  # it is installed
            if command == SERVE:
                self.serve(command)
                continue
            ended = self.run(command)
            assert ended.returncode == 0, (command, ended.stdout, ended.stderr)
            printed.append(ended.stdout)
            if command == "holdfast init":
                (self.home / "holdfast.toml").write_text(SETTINGS)
        return "".join(printed)

    def has_followed_up(self) -> bool:
        """Return whether the service, too, has found what is damaged."""
        lines = self.log.read_text().splitlines()
        return any('"event": "audited"' in line and '"failed"' in line for line in lines)

    def alert(self, kind: str) -> str:
        """Return what the alert of that kind says, or "" if there is none yet."""
        alerts = self.data("holdfast status", code=1)["alerts"]
        return next((alert["detail"] for alert in alerts if alert["kind"] == kind), "")

    def key(self) -> str:
        """Return the key by which anyone verifies the evidence."""
        return (self.home / "evidence.pub").read_text().strip()

    def _shell(self, command: str) -> list[str]:
        for folder in ("/srv/", "/etc/"):
            command = command.replace(f" {folder}", f" {self.root}{folder}")
        return ["bash", "-euo", "pipefail", "-c", command]

    def _environment(self) -> dict[str, str]:
        variables = {
            "PATH": os.pathsep.join([f"{sys.prefix}/bin", os.environ["PATH"]]),
            "HOME": str(self.root),
            "HOLDFAST_HOME": str(self.home),
            "HOLDFAST_PASSPHRASE": "correct horse battery staple",
        }
        return {**os.environ, **variables}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    for name in ("srv", "etc"):
        (tmp_path / name).mkdir()
    release = end_with_tests(folder=tmp_path)
    with ExitStack() as processes:
        yield Machine(tmp_path, processes)
    for folder in (tmp_path / "home" / "holdings").glob("*"):
        kill_jobs(folder)
    release()


def wait_for(is_done: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not is_done():
        assert time.monotonic() < give_up, "what the page promises does not come"
        time.sleep(0.3)


@pytest.mark.parametrize("kind", QUICKSTARTS)
def test_a_quickstart_has_at_most_six_commands_and_states_its_confidence(kind: str) -> None:
    lines = commands(kind)
    assert lines[0].startswith(INSTALL), "it begins on a machine without us"
    assert len(lines) <= MAX_COMMANDS
    assert "holdfast confidence" in lines
    assert lines[-1] == SERVE


@pytest.mark.parametrize("kind", RECIPES)
def test_a_recipe_is_a_script_that_a_shell_can_read(kind: str) -> None:
    (script,) = [block.text for block in blocks_of(PAGE) if block.words == (kind,)]
    assert script.startswith("#!/bin/sh\n# holdfast holding add ")
    ended = subprocess.run(
        ["/bin/sh", "-n"], input=script, text=True, capture_output=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow(seconds=30)
@pytest.mark.timeout(900)
def test_the_quickstart_for_restic_finds_a_flipped_byte(machine: Machine) -> None:
    made = make_repository(machine.root / "made")
    made.path.rename(machine.path("/srv/restic"))
    machine.path("/etc/restic").mkdir()
    made.password_file.rename(machine.path("/etc/restic/password"))
    packs = sorted(
        machine.path("/srv/restic/data").glob("*/*"), key=lambda path: path.stat().st_size
    )
    expect_damage_named(machine, "restic", "backup", packs[-1], packs[-1].name, "pack")


@pytest.mark.slow(seconds=20)
@pytest.mark.timeout(900)
def test_the_quickstart_for_borg_finds_a_flipped_byte(machine: Machine) -> None:
    made = borg_repositories.make_repository(machine.root / "made")
    made.path.rename(machine.path("/srv/borg"))
    moved = replace(made, path=machine.path("/srv/borg"))
    segment = moved.data_segment()
    expect_damage_named(machine, "borg", "archive", segment, f"segment {segment.name}", "segment")


@pytest.mark.slow(seconds=20)
@pytest.mark.timeout(900)
def test_the_quickstart_for_a_folder_finds_a_flipped_byte(machine: Machine) -> None:
    folder = machine.path("/srv/papers")
    folder.mkdir()
    rng = random.Random(1)
    lines = []
    for number in range(20):
        content = rng.randbytes(5000)
        (folder / f"paper{number}.pdf").write_bytes(content)
        lines.append(f"{hashlib.sha256(content).hexdigest()}  paper{number}.pdf\n")
    (folder / "SHA256SUMS").write_text("".join(lines))
    expect_damage_named(machine, "folder", "papers", folder / "paper7.pdf", "paper7.pdf", "file")


@pytest.mark.slow(seconds=20)
@pytest.mark.timeout(900)
def test_the_quickstart_for_a_bucket_finds_a_changed_object(machine: Machine) -> None:
    parts.package("s3fs")
    rng = random.Random(1)
    objects = {f"photos/2024/{number}.jpg": rng.randbytes(20_000) for number in range(8)}
    with object_store(objects) as bucket:
        assert "photos: passed: " in machine.follow("bucket")
        bucket.objects["photos/2024/5.jpg"] = rng.randbytes(20_000)  # as on a disk that rots
        (audit,) = machine.data("holdfast audit now photos", code=1)["audits"]
        assert audit["outcome"] == "failed", audit
        wait_for(machine.has_followed_up)
        wait_for(lambda: "5.jpg" in machine.alert("holding-damaged"))
        verified = machine.data(f"holdfast evidence verify --key '{machine.key()}'")
    assert verified["checks"] == 0
    assert verified["proofs"] >= 2


def expect_damage_named(
    machine: Machine, kind: str, holding: str, file: Path, name: str, unit: str
) -> None:
    """Follow a quickstart, damage one file of the storage, and see that it is found and told."""
    printed = machine.follow(kind)
    assert f"{holding}: passed: " in printed
    assert "is damaged" in printed  # how much may be, or that nothing is
    file.chmod(0o600)
    flip(file, file.stat().st_size // 2)

    (audit,) = machine.data(f"holdfast audit now {holding} --ratio 1", code=1)["audits"]
    assert (audit["outcome"], audit["unit"]) == ("failed", unit)
    assert [damaged["name"] for damaged in audit["damaged"]] == [name]

    wait_for(machine.has_followed_up)
    assert name in machine.alert("holding-damaged")
    verified = machine.data(f"holdfast evidence verify --key '{machine.key()}'")
    assert verified["proofs"] == 0
    assert verified["checks"] >= 3
