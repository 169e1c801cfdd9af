"""Commands as users run them: a shell in a directory, or the same within the test's process."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.forked_commands import ForkedCommand, can_fork
from tests.support.processes import running

from holdfast.cli.app import run
from holdfast.cli.terminal import PASSPHRASE_VARIABLE
from holdfast.node.identity import NodeKey, write_node_key
from holdfast.owner import Home
from holdfast.pdp import SecretKey, write_key
from holdfast.pdp.sealing import ScryptCost

SCRIPT = Path(sys.executable).with_name("holdfast")


PASSPHRASE = "a passphrase of the tests"


SECTORS = 2


BLOCK_BYTES = 31 * SECTORS


# The default costs a third of a second a command, which only the whole way in test_pdp.py pays.
QUICK = ScryptCost(n=16)


# A line of progress, which a command prints on a busy machine and not on an idle one.
PROGRESS = re.compile(r"^[^\n]+: \d+ %(, [^\n]+)?\n", re.MULTILINE)


def without_progress(stderr: str) -> str:
    return PROGRESS.sub("", stderr)


@dataclass(frozen=True)
class Finished:
    """What a command left behind: its exit code and all that it said."""

    code: int
    stdout: str
    stderr: str

    @property
    def data(self) -> Any:
        """Return what `--json` printed, which must be all there is on stdout."""
        return json.loads(self.stdout)

    def sentence(self) -> str:
        """Return the one sentence with which a command that could not run leaves."""
        assert self.code == 2, self
        assert not self.stdout, self
        assert self.stderr.startswith("holdfast: "), self
        assert self.stderr.endswith("\n"), self
        assert len(self.stderr.splitlines()) == 1, self
        assert PASSPHRASE not in self.stderr
        return self.stderr.removeprefix("holdfast: ").rstrip()


def end(process: subprocess.Popen[str]) -> Finished:
    """Wait for a command to end."""
    try:
        stdout, stderr = process.communicate(timeout=120)
    finally:
        process.kill()
    return Finished(process.returncode, stdout or "", without_progress(stderr or ""))


@dataclass(frozen=True)
class Shell:
    """A directory in which each command is a process of its own."""

    directory: Path

    def make_home(self) -> str:
        """Make a home as `init` does, but one that opens at once; return who its owner is."""
        home = Home.create(self.directory / "home", PASSPHRASE.encode(), QUICK)
        return home.keyring.owner.hex()

    def run(self, *arguments: str | Path, stdout: int = subprocess.PIPE) -> Finished:
        with self.start(*arguments, stdout=stdout) as process:
            return end(process)

    def script(self, script: str) -> Finished:
        """Run a line for /bin/sh, to which `$holdfast` is the command."""
        with self._start(["/bin/sh", "-c", script]) as process:
            return end(process)

    def start(
        self,
        *arguments: str | Path,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        passphrase: str | None = PASSPHRASE,
    ) -> AbstractContextManager[subprocess.Popen[str]]:
        """Run a command at the head of a session, to which its workers will belong."""
        return self._start([SCRIPT, *arguments], stdin, stdout, stderr, passphrase)

    def _start(
        self,
        command: list[str | Path],
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        passphrase: str | None = PASSPHRASE,
    ) -> AbstractContextManager[subprocess.Popen[str]]:
        variables = {**os.environ, "holdfast": str(SCRIPT)}
        variables.pop(PASSPHRASE_VARIABLE, None)
        if passphrase is not None:
            variables[PASSPHRASE_VARIABLE] = passphrase
        return running(
            command,
            self._kind(command, variables),
            cwd=self.directory,
            env=variables,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            errors="surrogateescape",
        )

    def _kind(
        self, _command: list[str | Path], _variables: dict[str, str]
    ) -> type[subprocess.Popen[str]]:
        return subprocess.Popen


@dataclass(frozen=True)
class QuickShell(Shell):
    """A shell whose commands are processes of their own, but need not import anything."""

    def _kind(
        self, command: list[str | Path], variables: dict[str, str]
    ) -> type[subprocess.Popen[str]]:
        return ForkedCommand if command[0] == SCRIPT and can_fork(variables) else subprocess.Popen


@dataclass(frozen=True)
class Workplace:
    """A directory in which commands run within the test's own process: the same, but sooner."""

    directory: Path
    capture: pytest.CaptureFixture[str]

    def run(self, *arguments: str | Path) -> Finished:
        self.capture.readouterr()
        code = run([str(argument) for argument in arguments])
        said = self.capture.readouterr()
        return Finished(code, said.out, without_progress(said.err))

    def pdp(self, command: str, *more: str | Path) -> Finished:
        """Run `holdfast pdp`; `command` is split into words, `more` is taken as it is."""
        return self.run("pdp", *command.split(), *more)

    def must(self, command: str, *more: str | Path) -> Finished:
        """Run a command of `holdfast pdp` that has to succeed."""
        finished = self.pdp(command, *more)
        assert finished.code == 0, finished
        assert not finished.stderr, finished
        return finished


def snapshot(directory: Path) -> dict[str, tuple[int, bytes | None]]:
    """Return the name, the mode and the content of everything in the directory."""
    return {
        str(path.relative_to(directory)): (
            path.stat().st_mode,
            path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(directory.rglob("*"))
    }


def damage(path: Path, offset: int) -> None:
    """Change one byte."""
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def new_key(directory: Path, name: str = "owner", sectors: int = SECTORS) -> SecretKey:
    """Write a key pair as `keygen` does, but one that opens at once."""
    key = SecretKey.generate(sectors)
    write_key(directory / f"{name}.key", key, PASSPHRASE.encode(), QUICK)
    (directory / f"{name}.pub").write_bytes(key.public.encode())
    return key


def _workplace(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Workplace:
    monkeypatch.chdir(directory)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE)
    return Workplace(directory, capsys)


@contextmanager
def served(shell: Shell, name: str, owner: str, *more: str) -> Iterator[str]:
    """Run a node as its operator does, and yield where it listens."""
    key = shell.directory / f"{name}.key"
    write_node_key(key, NodeKey.generate(), PASSPHRASE.encode(), QUICK)
    options = ["--store", name, "--key", key.name, "--owner", owner, "--port", "0"]
    with shell.start("node", "serve", *options, *more, "--json") as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.terminate()
        assert process.wait(timeout=60) == 0
