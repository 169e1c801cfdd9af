"""A storage node on loopback against the same work without it: its prover, and a plain copy.

The node runs in a process of its own, as it would. A ratio of 1 means: as many a second as the
reference, measured in the same run; signatures, HTTP and checksums are what it costs.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from holdfast.bench.clock import Work, best_times
from holdfast.node.client import NodeClient, upload_request
from holdfast.node.identity import NodeKey, RequestKey
from holdfast.node.node import Node
from holdfast.node.objects import Folder
from holdfast.node.serving import RunningNode
from holdfast.node.signature import Gate
from holdfast.node.store import Store
from holdfast.node.wire import Limits
from holdfast.pdp import (
    Inventory,
    Prover,
    SecretKey,
    StoredFile,
    TagFile,
    TagHeader,
    draw_challenge,
)
from holdfast.pdp.keys import draw_nonce
from holdfast.pdp.readers import LocalFile
from holdfast.pdp.tagging import TaggingPool, chunks_of
from holdfast.processes import start_child

REFERENCE = "the prover on local files in this process; a copy of the file with fsync"
SAMPLES = 460
FILE_ID = bytes(16)

Say = Callable[[str], None]


def measure(*, rounds: int = 200, size: int = 64 << 20, say: Say) -> dict[str, Any]:
    """Return proofs and uploads a second over loopback, and their ratios to the references."""
    figures: dict[str, Any] = {"reference": REFERENCE}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder, ExitStack() as stack:
        say("starting a node")
        client = stack.enter_context(_node(Path(folder) / "store"))
        for sectors in (16, 128):
            say(f"bringing {size >> 20} MiB to the node, S = {sectors}")
            file = stack.enter_context(_file(Path(folder), sectors, size))
            if sectors == 128:
                figures |= _uploads(client, file, max(1, rounds // 50))
            file.upload(client)
            say(f"proving {SAMPLES} blocks, there and here, S = {sectors}")
            figures |= _proofs(client, file, rounds)
    return figures


@dataclass(frozen=True)
class _File:
    """A tagged file of this machine, and the holding that has it alone."""

    path: Path
    key: SecretKey
    data: LocalFile
    tags: LocalFile
    inventory: Inventory

    def upload(self, client: NodeClient) -> None:
        client.create(self.key.public)
        request = upload_request(self.data, self.tags)
        client.upload(self.key.public.id, request, self.data, self.tags, self.inventory.hash)

    def delete(self, client: NodeClient) -> None:
        before, after = self.inventory, self.inventory.without_file(FILE_ID)
        client.delete_file(self.key.public.id, FILE_ID, before.hash, after.hash)

    def copy(self) -> None:
        copied = self.path.with_suffix(".copy")
        shutil.copyfile(self.path, copied)
        with copied.open("rb") as file:
            os.fsync(file.fileno())


@contextmanager
def _file(folder: Path, sectors: int, size: int) -> Iterator[_File]:
    key = SecretKey.generate(sectors)
    path, tags_path = folder / f"S{sectors}", folder / f"S{sectors}.tags"
    path.write_bytes(os.urandom(size))
    header = TagHeader(key.public.id, FILE_ID, 1, draw_nonce(), sectors, size)
    inventory = Inventory(key.public.id, sectors).with_file(header.entry)
    with LocalFile(path) as data:
        desk = TaggingPool(data, key, header)
        tags_path.write_bytes(header.encode() + b"".join(map(desk.pages, chunks_of(header))))
        with LocalFile(tags_path) as tags:
            yield _File(path, key, data, tags, inventory)


def _proofs(client: NodeClient, file: _File, rounds: int) -> dict[str, float]:
    stored = {FILE_ID: StoredFile(file.data, TagFile(file.tags))}
    prover, key_id = Prover(file.inventory, stored), file.key.public.id
    count = min(SAMPLES, file.inventory.blocks)
    times = best_times(
        {
            "node": lambda: client.prove(key_id, draw_challenge(file.inventory, count)),
            "prover": lambda: prover.prove(draw_challenge(file.inventory, count)),
        },
        rounds,
    )
    name = f"S{file.key.sectors}_s{count}"
    return {
        f"proofs_per_second_{name}": 1 / times["node"],
        f"prover_per_second_{name}": 1 / times["prover"],
        f"proofs_over_prover_{name}": times["prover"] / times["node"],
    }


def _uploads(client: NodeClient, file: _File, rounds: int) -> dict[str, float]:
    """Upload and copy in turns; what was uploaded is deleted while nobody counts the time."""
    contenders: dict[str, Work] = {"upload": lambda: file.upload(client), "copy": file.copy}
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, work in contenders.items():
            start = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - start)
        file.delete(client)
        time.sleep(1)  # a node takes no announcement that was signed in the second of a deletion
    size = file.data.size() / 1e6
    return {
        "upload_mb_per_second": size / best["upload"],
        "copy_mb_per_second": size / best["copy"],
        "upload_over_copy": best["copy"] / best["upload"],
    }


@contextmanager
def _node(store: Path) -> Iterator[NodeClient]:
    """Start a node in a process of its own, and stop it at the end."""
    key, owner = NodeKey.generate(), RequestKey.generate()
    with (
        start_child(_serve, store, key, owner.owner) as child,
        NodeClient(child.pipe.recv(), owner, key.address) as client,
    ):
        yield client


def _serve(pipe: Connection, store: Path, key: NodeKey, owner: bytes) -> None:
    kept = Store(Folder(store), [owner], Limits(), time.time)
    gate = Gate(key.address, {owner.hex(): owner}, time.time)
    served = RunningNode(Node(key, kept, gate), "127.0.0.1", 0)
    time.sleep(max(0.0, gate.opens - time.time()))
    pipe.send(served.url)
    served.run()
    kept.close()
