"""What direct holdings read and how long they take, on an object store on loopback.

`enrol_bytes` is what enrolment reads over what it enrols; `enrol_over_download` is its time over
that of downloading and hashing the same objects with as many requests side by side. `locate_bytes`
is what finding all damage reads over what there is. `scattered_460_s` is the time of an audit of
460 blocks in as many objects, at 50 ms a request.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np

from holdfast.bench.object_server import ObjectServer, serve_child, serving
from holdfast.checkers.stored_objects import StoredObjects, open_objects
from holdfast.control.audit_now import audit_holdings
from holdfast.errors import StorageError
from holdfast.evidence.leaf import Outcome
from holdfast.owner import Home, find_damage
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct_operations import add_direct_holding
from holdfast.pdp.sealing import ScryptCost
from holdfast.processes import keep_freed_memory, start_child

BUCKET, HOLDING = "bench", "objects"
ADDRESS = f"s3://{BUCKET}/data"
OBJECT_BYTES = 1 << 20
CONTENTS = 16
LOCATED_BYTES = 32 << 20  # at most; what it reads is a share
SECTORS = 16
SAMPLE = 460
DELAY_SECONDS = 0.05
DEADLINE_SECONDS = 600

Say = Callable[[str], None]


def measure_direct(*, size: int, rounds: int, say: Say) -> dict[str, Any]:
    """Return bytes and times of enrolment, localisation and audits."""
    try:
        fsspec.get_filesystem_class("s3")
    except ImportError:
        return {"direct": "left out: install holdfast[s3]"}
    keep_freed_memory()  # as every command does that opens a home
    objects = _objects(max(1, size // OBJECT_BYTES), OBJECT_BYTES)
    return {
        **_measure_enrolment(objects, rounds, say),
        **_measure_localisation(dict(list(objects.items())[: LOCATED_BYTES // OBJECT_BYTES]), say),
        **_measure_scattered(rounds, say),
    }


def _measure_enrolment(objects: Mapping[str, bytes], rounds: int, say: Say) -> dict[str, float]:
    total = sum(map(len, objects.values()))
    say(f"enrolling {len(objects)} objects of {total >> 20} MiB, and downloading them")
    enrolments, downloads = [], []
    with start_child(serve_child, objects, 0.0) as child:
        url = child.pipe.recv()
        for _ in range(rounds):
            with _environment(url), tempfile.TemporaryDirectory() as name:
                downloads.append(_seconds(_download))
                before = _sent_bytes(child.pipe)
                enrolments.append(_seconds(partial(_enrol, Path(name))))
                read = _sent_bytes(child.pipe) - before
    return {
        "enrol_bytes": read / total,
        "enrol_s": float(np.median(enrolments)),
        "enrol_over_download": float(np.median(enrolments) / np.median(downloads)),
    }


def _measure_localisation(objects: Mapping[str, bytes], say: Say) -> dict[str, float]:
    """Return what localisation reads; its time is not of interest."""
    say("locating damage")
    total = sum(map(len, objects.values()))
    with _served_home(objects) as (home, server):
        damaged = min(objects)
        server.objects[damaged] = bytes(len(objects[damaged]))
        before = server.sent_bytes
        with home.holding(HOLDING) as holding:
            names = [file.replica.file.name for file in find_damage(holding)]
        located = server.sent_bytes - before
    if len(names) != 1:
        raise StorageError(f"{len(names)} objects were found where one was damaged")
    return {"locate_bytes": located / total}


def _measure_scattered(rounds: int, say: Say) -> dict[str, float]:
    say(f"auditing {SAMPLE} blocks in as many objects, at {1000 * DELAY_SECONDS:.0f} ms a request")
    objects = _objects(SAMPLE, 31 * SECTORS)
    with _served_home(objects) as (home, server):
        server.delay_seconds = DELAY_SECONDS
        seconds = [_seconds(lambda: _audit(home, Outcome.PASSED)) for _ in range(rounds)]
    return {"scattered_460_s": float(np.median(seconds))}


@contextmanager
def _served_home(objects: Mapping[str, bytes]) -> Iterator[tuple[Home, ObjectServer]]:
    """Yield a home that has enrolled the objects, and their server."""
    with (
        tempfile.TemporaryDirectory() as name,
        serving(objects) as server,
        _environment(server.url),
    ):
        yield _enrol(Path(name)), server


def _enrol(folder: Path) -> Home:
    home = Home.create(folder / "home", b"benchmark", ScryptCost(n=16))
    add_direct_holding(home, HOLDING, DirectAddress.of(ADDRESS), sectors=SECTORS)
    return home


def _audit(home: Home, expected: Outcome) -> None:
    (result,) = audit_holdings(
        home,
        [HOLDING],
        lambda blocks: min(SAMPLE, blocks),
        deadline_seconds=DEADLINE_SECONDS,
    )
    if result.outcome is not expected:
        raise StorageError(f"an audit ended as {result.outcome}: {result.reason}")


def _download() -> None:
    objects = open_objects(ADDRESS)
    with ThreadPoolExecutor(objects.threads) as pool:
        for _ in pool.map(lambda item: _hash(objects, *item), objects.list_sizes().items()):
            pass


def _hash(objects: StoredObjects, name: str, size: int) -> bytes:
    hasher = hashlib.sha256()
    for piece in objects.pieces(name, size):
        hasher.update(piece)
    return hasher.digest()


def _objects(count: int, size: int) -> dict[str, bytes]:
    """Return objects that share some contents, so that many of them fit into memory."""
    rng = np.random.default_rng(2)
    contents = [rng.bytes(size) for _ in range(min(count, CONTENTS))]
    return {f"{BUCKET}/data/{number:05}": contents[number % CONTENTS] for number in range(count)}


def _sent_bytes(pipe: Any) -> int:
    pipe.send(True)
    _requests, sent = pipe.recv()
    return int(sent)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@contextmanager
def _environment(url: str) -> Iterator[None]:
    """Let s3:// addresses lead to the benchmark's own server."""
    variables = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "benchmark",
        "AWS_SECRET_ACCESS_KEY": "benchmark",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in variables}
    filesystem = fsspec.get_filesystem_class("s3")
    os.environ.update(variables)
    filesystem.clear_instance_cache()
    try:
        yield
    finally:
        filesystem.clear_instance_cache()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
