"""How long `put` and `get` of a large file take, against a copy with fsync and SHA-256.

The node runs in a process of its own and listens on loopback. All files lie in one temporary
folder, so `TMPDIR` says which disk is measured. A ratio of 1 means: as fast as the reference, which
is measured before and after in the same run.
"""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from holdfast import owner
from holdfast.bench.clock import Work
from holdfast.node.identity import NodeKey
from holdfast.node.node import Node
from holdfast.node.objects import Folder
from holdfast.node.serving import RunningNode
from holdfast.node.signature import Gate
from holdfast.node.store import Store
from holdfast.node.wire import Limits
from holdfast.owner import Original
from holdfast.pdp import Location
from holdfast.pdp.sealing import ScryptCost
from holdfast.processes import start_child

REFERENCE = "a copy of the file, its fsync and its SHA-256"
REPAIR = "holdfast.bench.repair"
SECTORS = 16
GIB = 1 << 30
PIECE_BYTES = 8 << 20
MAX_REPAIR_BYTES = 256 << 20  # of the file that is damaged and repaired
HOLDING, NAME = "node", "file"

Say = Callable[[str], None]


def measure(*, size: int = GIB, encrypted: bool = False, say: Say) -> dict[str, Any]:
    """Return the times of `put` and `get` over the reference, and what they cost the node."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        say(f"writing {size / GIB:g} GiB into {folder}")
        source = _write_random(folder / NAME, size)
        home = owner.Home.create(folder / "home", b"benchmark", ScryptCost(n=16))
        with _running_node(folder / "store", home.keyring.owner) as node:
            owner.add_holding(home, HOLDING, node.url, sectors=SECTORS, encrypted=encrypted)
            say("copying, and putting the file")
            copies = [_seconds(lambda: _copy(source))]
            before = node.cpu_seconds()
            put_seconds = _seconds(lambda: _put(home, source))
            put_cpu = node.cpu_seconds() - before
            say("getting the file, and copying again")
            get_seconds = _seconds(lambda: _get(home, folder / "back"))
            get_cpu = node.cpu_seconds() - before - put_cpu
            copies.append(_seconds(lambda: _copy(source)))
    copy_seconds = sum(copies) / len(copies)
    return {
        "reference": REFERENCE,
        "bytes": size,
        "copy_seconds": copy_seconds,
        "put_seconds": put_seconds,
        "get_seconds": get_seconds,
        "put_over_copy": put_seconds / copy_seconds,
        "get_over_copy": get_seconds / copy_seconds,
        "node_cpu_s_per_gib": put_cpu * GIB / size,
        "node_get_cpu_s_per_gib": get_cpu * GIB / size,
        **_repair_figures(min(size, MAX_REPAIR_BYTES), say),
    }


def _repair_figures(size: int, say: Say) -> dict[str, Any]:
    """Return what the benchmark of repair measures, where there is one."""
    if find_spec(REPAIR) is None:
        return {}
    figures = import_module(REPAIR).measure(size=size, say=say)
    return {"repair_blocks_per_s": figures["repair_blocks_per_s"]}


def _seconds(work: Work) -> float:
    os.sync()  # so that nobody pays for what others wrote
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _write_random(path: Path, size: int) -> Path:
    rng = np.random.default_rng(1)
    with path.open("wb") as file:
        for start in range(0, size, PIECE_BYTES):
            file.write(rng.bytes(min(PIECE_BYTES, size - start)))
    return path


def _copy(source: Path) -> None:
    copied = source.with_suffix(".copy")
    shutil.copyfile(source, copied)
    with copied.open("rb") as file:
        os.fsync(file.fileno())
        hashlib.file_digest(file, "sha256")
    copied.unlink()


def _put(home: owner.Home, source: Path) -> None:
    owner.put_file(home, [HOLDING], NAME, Original.of(Location(str(source))))


def _get(home: owner.Home, out: Path) -> None:
    with owner.replicas(home, NAME, HOLDING, lambda _holding, _reason: None) as replicas:
        owner.get(replicas[0], [], out)


@dataclass(frozen=True)
class _NodeProcess:
    url: str
    pipe: Connection

    def cpu_seconds(self) -> float:
        """Return the processor time that the node has used so far."""
        self.pipe.send(None)
        seconds: float = self.pipe.recv()
        return seconds


@contextmanager
def _running_node(store: Path, owner_key: bytes) -> Iterator[_NodeProcess]:
    with start_child(_serve, store, NodeKey.generate(), owner_key) as child:
        yield _NodeProcess(child.pipe.recv(), child.pipe)


def _serve(pipe: Connection, store: Path, key: NodeKey, owner_key: bytes) -> None:
    kept = Store(Folder(store), [owner_key], Limits(), time.time)
    gate = Gate(key.address, {owner_key.hex(): owner_key}, time.time)
    running = RunningNode(Node(key, kept, gate), "127.0.0.1", 0)
    time.sleep(max(0.0, gate.opens - time.time()))
    pipe.send(running.url)
    Thread(target=_report_cpu, args=(pipe,), daemon=True).start()
    running.run()
    kept.close()


def _report_cpu(pipe: Connection) -> None:
    with suppress(EOFError, OSError):  # the benchmark has ended
        while True:
            pipe.recv()
            pipe.send(time.process_time())
