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

from holdfast.bench.clock import Work, best_times, cpu_clock_of
from holdfast.errors import NodeError
from holdfast.ledger.interface import Answer
from holdfast.node.client import NodeClient, upload_request
from holdfast.node.identity import NodeKey, RequestKey
from holdfast.node.node import Node
from holdfast.node.objects import Folder
from holdfast.node.proof_messages import ProofQuestion
from holdfast.node.serving import RunningNode
from holdfast.node.signature import Gate
from holdfast.node.store import Store
from holdfast.node.wire import Limits
from holdfast.pdp import (
    Challenge,
    Inventory,
    Prover,
    SecretKey,
    StoredFile,
    TagFile,
    TagHeader,
    draw_challenge,
)
from holdfast.pdp.field import DEFAULT_SECTORS
from holdfast.pdp.keys import draw_nonce
from holdfast.pdp.readers import LocalFile
from holdfast.pdp.tagfile import HEADER_BYTES, PAGE_BYTES, PAGE_TAGS
from holdfast.pdp.tagging import TaggingPool, chunks_of
from holdfast.processes import start_child

REFERENCE = (
    "the prover on local files in this process; reads of the same bytes one after another; a copy "
    "of the file with fsync"
)
SAMPLES = 460
CHALLENGES = 32  # of one request
FILE_ID = bytes(16)

Say = Callable[[str], None]


def measure(*, rounds: int = 200, size: int = 64 << 20, say: Say) -> dict[str, Any]:
    """Return proofs and uploads a second over loopback, and their ratios to the references."""
    figures: dict[str, Any] = {"reference": REFERENCE}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder, ExitStack() as stack:
        say("starting a node")
        node = stack.enter_context(_start_node(Path(folder) / "store"))
        for sectors in (DEFAULT_SECTORS, 128):
            say(f"bringing {size >> 20} MiB to the node, S = {sectors}")
            file = stack.enter_context(_file(Path(folder), sectors, size))
            if sectors == 128:
                figures |= _uploads(node.client, file, max(1, rounds // 50))
            file.upload(node.client)
            say(f"proving {SAMPLES} blocks, there and here, S = {sectors}")
            figures |= _proofs(node, file, rounds)
            if sectors == DEFAULT_SECTORS:
                say("proving from files that are not in memory")
                figures |= _cold(file, max(1, rounds // 20))
    return figures


@dataclass(frozen=True)
class _Node:
    """A node in a process of its own: a client of it, and its processor time."""

    client: NodeClient
    clock: Callable[[], float]


@dataclass(frozen=True)
class _File:
    """A tagged file of this machine, and the holding that has it alone."""

    path: Path
    tags_path: Path
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

    def drop_from_memory(self) -> None:
        for path in (self.path, self.tags_path):
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def read_serially(self, challenge: Challenge) -> None:
        """Read the blocks of a challenge and the pages of their tags, one after another."""
        size, indices = self.key.layout.block_bytes, challenge.sample.indices.tolist()
        with self.path.open("rb") as data, self.tags_path.open("rb") as tags:
            for index in indices:
                os.pread(data.fileno(), size, index * size)
            for page in sorted({index // PAGE_TAGS for index in indices}):
                os.pread(tags.fileno(), PAGE_BYTES, HEADER_BYTES + page * PAGE_BYTES)

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
        pool = TaggingPool(data, key, header)
        tags_path.write_bytes(header.encode() + b"".join(map(pool.pages, chunks_of(header))))
        for written in (path, tags_path):
            with written.open("rb") as file:
                os.fsync(file.fileno())  # what is not on disk yet can't leave the memory
        with LocalFile(tags_path) as tags:
            yield _File(path, tags_path, key, data, tags, inventory)


def _proofs(node: _Node, file: _File, rounds: int) -> dict[str, float]:
    """Ask the node for many proofs by one request, and make as many here."""
    stored = {FILE_ID: StoredFile(file.data, TagFile(file.tags))}
    prover, key_id = Prover(file.inventory, stored), file.key.public.id
    count = min(SAMPLES, file.inventory.blocks)

    def draw() -> list[ProofQuestion]:
        challenges = (draw_challenge(file.inventory, count) for _ in range(CHALLENGES))
        return [ProofQuestion(key_id, challenge) for challenge in challenges]

    def ask() -> None:
        answers = node.client.prove_many(draw(), seconds=60)
        if not all(isinstance(answer, Answer) for answer in answers):
            raise NodeError("the node did not prove all that it was asked for")

    def prove() -> None:
        for question in draw():
            prover.prove(question.challenge)

    work: dict[str, Work] = {"node": ask, "prover": prove}
    times = best_times(work, rounds)
    clocks = {"node": node.clock, "client": time.process_time}
    cpu = {name: best_times({name: ask}, rounds, clock)[name] for name, clock in clocks.items()}
    cpu |= best_times({"prover": prove}, rounds, time.process_time)
    name = f"S{file.key.sectors}_s{count}"
    return {
        f"proofs_per_second_{name}": CHALLENGES / times["node"],
        f"prover_per_second_{name}": CHALLENGES / times["prover"],
        f"proofs_over_prover_{name}": times["prover"] / times["node"],
        **{f"{who}_cpu_ms_{name}": 1000 * cpu[who] / CHALLENGES for who in cpu},
        f"node_cpu_over_prover_{name}": cpu["node"] / cpu["prover"],
    }


def _cold(file: _File, rounds: int) -> dict[str, float]:
    """Prove from files that are not in memory, and read the same bytes one after another."""
    stored = {FILE_ID: StoredFile(file.data, TagFile(file.tags))}
    prover, count = Prover(file.inventory, stored), min(SAMPLES, file.inventory.blocks)
    contenders: dict[str, Callable[[Challenge], object]] = {
        "proof": prover.prove,
        "serial": file.read_serially,
    }
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, work in contenders.items():
            challenge = draw_challenge(file.inventory, count)
            file.drop_from_memory()
            start = time.perf_counter()
            work(challenge)
            best[name] = min(best[name], time.perf_counter() - start)
    return {
        "cold_proof_ms": 1000 * best["proof"],
        "serial_reads_ms": 1000 * best["serial"],
        "cold_over_serial": best["proof"] / best["serial"],
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
def _start_node(store: Path) -> Iterator[_Node]:
    """Start a node, and stop it at the end."""
    key, owner = NodeKey.generate(), RequestKey.generate()
    with (
        start_child(serve_node, store, key, owner.owner) as child,
        NodeClient(child.pipe.recv(), owner, key.address) as client,
    ):
        yield _Node(client, cpu_clock_of(child.process.pid or 0))


def serve_node(pipe: Connection, store: Path, key: NodeKey, owner: bytes) -> None:
    kept = Store(Folder(store), [owner], Limits(), time.time)
    gate = Gate(key.address, {owner.hex(): owner}, time.time)
    served = RunningNode(Node(key, kept, gate), "127.0.0.1", 0)
    time.sleep(max(0.0, gate.opens - time.time()))
    pipe.send(served.url)
    served.run()
    kept.close()
