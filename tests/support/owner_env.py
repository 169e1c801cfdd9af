"""An owner's home and two real nodes, each in its own process, with ways to harm what they keep."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from sqlalchemy import Connection, Engine, event
from tests.support.processes import ForkedProcess, adopted, start_for_all_tests
from tests.support.small_node import SEGMENT_BYTES

from holdfast.node.client import NodeClient
from holdfast.node.identity import NodeKey, write_node_key
from holdfast.owner import Holding, Home, Original, UploadResult, add_holding, put
from holdfast.pdp import Location
from holdfast.pdp.sealing import ScryptCost

if TYPE_CHECKING:
    from _typeshed import TraceFunction

PASSPHRASE = b"a passphrase of the tests"
QUICK = ScryptCost(n=16)
SECTORS = 2
BLOCK_BYTES = 31 * SECTORS
FORK_SECONDS = 20.0  # that a fork may take


@dataclass(frozen=True)
class RunningNode:
    folder: Path
    url: str
    address: bytes
    process: ForkedProcess

    def stored(self, holding: Holding, part: str) -> list[Path]:
        """Return the segments of what the node keeps for a holding of one file."""
        return sorted(
            (self.folder / holding.owner.hex()).glob(f"{holding.key_id.hex()}/*/{part}.*")
        )


@contextmanager
def node_process(folder: Path, key: Path, owner: bytes, port: int = 0) -> Iterator[RunningNode]:
    arguments = [str(folder), str(key), PASSPHRASE.decode(), owner.hex(), port]
    forks = _node_forks()
    assert forks.stdin is not None
    assert forks.stdout is not None
    forks.stdin.write(json.dumps(arguments) + "\n")
    forks.stdin.flush()
    started = json.loads(forks.stdout.readline())
    assert "error" not in started, started["error"]
    with adopted(started["pid"]) as process:
        yield RunningNode(folder, started["url"], bytes.fromhex(started["address"]), process)


@cache
def _node_forks() -> subprocess.Popen[str]:
    """Start the process that forks nodes, once."""
    return start_for_all_tests([sys.executable, Path(__file__).with_name("small_node.py")])


def new_node_key(path: Path) -> NodeKey:
    key = NodeKey.generate()
    write_node_key(path, key, PASSPHRASE, QUICK)
    return key


@dataclass(frozen=True)
class World:
    """A fresh home whose owner both nodes know, with a holding on each."""

    home: Home
    one: RunningNode
    two: RunningNode
    folder: Path

    def file(self, content: bytes, name: str = "file") -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path

    def put(
        self, holding: str, path: Path, name: str | None = None, *, replace_other: bool = False
    ) -> UploadResult:
        original = Original.of(Location(str(path)), SEGMENT_BYTES)
        with self.home.changing(holding) as place:
            return put(place, name or path.name, original, replace_other=replace_other, processes=1)

    def add(self, name: str, node: RunningNode, *, encrypted: bool, sectors: int) -> None:
        add_holding(self.home, name, node.url, sectors=sectors, encrypted=encrypted)


def flip(path: Path, *offsets: int) -> None:
    """Change these bytes of a file."""
    content = bytearray(path.read_bytes())
    for offset in offsets:
        content[offset] ^= 1
    path.write_bytes(content)


def lines_of(folder: Path, act: Callable[[], object]) -> int:
    """Do something in another process; return how many lines of the files in the folder it ran."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        count = 0

        def run() -> None:
            nonlocal count
            count += 1

        _traced(folder, run, act, lambda: os.write(theirs, str(count).encode()))
    os.close(theirs)
    ended = _await(child) == 0
    with os.fdopen(ours) as counted:
        return int(counted.read()) if ended else lines_of(folder, act)


def killed_at(line: int, folder: Path, act: Callable[[], object]) -> None:
    """Do something in another process, which is killed after that many lines."""
    child = os.fork()
    if child == 0:
        left = line

        def run() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

        _traced(folder, run, act, lambda: None)
    _await(child)


def killed_at_boundary(number: int, act: Callable[[], object]) -> bool:
    """Do something in another process, which is killed at its durable boundary of that number.

    Boundaries are the moments before a commit to the database and before and after a node deletes
    something. Return whether there was such a boundary.
    """
    child = os.fork()
    if child == 0:
        left = number

        def pass_boundary() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def on_commit(connection: Connection) -> None:
            if not connection.get_execution_options().get("read_only"):
                pass_boundary()

        def bounded(method: Callable[..., None]) -> Callable[..., None]:
            def call(*arguments: object) -> None:
                pass_boundary()
                method(*arguments)
                pass_boundary()

            return call

        code = 1
        try:
            event.listen(Engine, "commit", on_commit)
            for name in ("delete_file", "remove"):
                setattr(NodeClient, name, bounded(getattr(NodeClient, name)))
            act()
            code = 0
        finally:
            os._exit(code)
    return _await(child) != 0


def _await(child: int) -> int:
    """Wait for a forked process, and return its status: 0, or that it was killed.

    A fork has only one of our threads. If another one had a lock, the child waits for it for ever;
    then it is killed there, which is a moment as good as any.
    """
    over = time.monotonic() + FORK_SECONDS
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > over:
            os.kill(child, signal.SIGKILL)
            ended = os.waitpid(child, 0)
            break
        time.sleep(0.002)
    status = ended[1]
    assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL
    return status


def _traced(
    folder: Path, run: Callable[[], None], act: Callable[[], object], end: Callable[[], object]
) -> NoReturn:
    def trace(frame: FrameType, event: str, _argument: object) -> "TraceFunction | None":
        if not frame.f_code.co_filename.startswith(str(folder)):
            return None
        if event == "line":
            run()
        return trace

    code = 1
    try:
        sys.settrace(trace)
        act()
        sys.settrace(None)
        end()
        code = 0
    finally:
        os._exit(code)
