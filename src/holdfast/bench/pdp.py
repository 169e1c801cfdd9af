"""The audit primitive against SHA-256 of the standard library over blocks of 4 KiB.

A ratio of 1 means: as many bytes a second as SHA-256, in one process on one core, measured in the
same run. Above 1 is faster.
"""

import hashlib
import os
import resource
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from holdfast.bench.clock import best_times
from holdfast.pdp import (
    Challenge,
    Inventory,
    Location,
    Prover,
    SecretKey,
    StoredFile,
    TagFile,
    TagHeader,
    curve,
    draw_challenge,
    tag_file,
)
from holdfast.pdp.field import Q
from holdfast.pdp.keys import draw_nonce
from holdfast.pdp.readers import LocalFile, Memory
from holdfast.pdp.tagging import CHUNK_BYTES, Chunk, TaggingPool, chunks_of
from holdfast.processes import cores, start_child

REFERENCE = "hashlib SHA-256 over blocks of 4 KiB, one process"
BLOCK = 4096
SAMPLES = 460
FILE_ID = bytes(16)

Say = Callable[[str], None]


def measure(*, rounds: int = 300, large_bytes: int = 1 << 30, say: Say) -> dict[str, Any]:
    """Return all figures; `large_bytes` is the size of the file for memory and processes."""
    say("tagging in memory, S = 16 and 128")
    tagging = {f"S{sectors}": _tagging(sectors, rounds) for sectors in (16, 128)}
    say(f"proving {SAMPLES} of 4 KiB-class blocks")
    in_memory, from_file = _proving(rounds)
    say("deriving challenges, multiplying points")
    challenge, multiplication = _small_parts(rounds)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        large = Path(folder) / "large"
        say(f"tagging {large_bytes >> 20} MiB from a file, for its memory")
        _fill(large, large_bytes)
        peak = _peak_of_tagging(large)
        say(f"tagging {large_bytes >> 19} MiB with one process and with two")
        _fill(large, 2 * large_bytes)  # starting a process takes as long as tagging 200 MiB
        one, two = _processes(large)
    return {
        "reference": REFERENCE,
        "tag_over_sha256": tagging,
        "prove_over_sha256": {
            f"S128_s{SAMPLES}": in_memory,
            f"S128_s{SAMPLES}_from_file": from_file,
        },
        "challenge_over_sha256": {f"s{SAMPLES}_n1e6": challenge},
        "multiplication_over_sha256": {"one_point_one_block": multiplication},
        "tag_two_processes_over_one": one / two,
        "cores": len(cores()),
        "peak_rss_mb": peak / 1e6,
    }


def _tagging(sectors: int, rounds: int) -> float:
    key = SecretKey.generate(sectors)
    content = os.urandom(CHUNK_BYTES + BLOCK)
    header = TagHeader(key.public.id, FILE_ID, 1, draw_nonce(), sectors, len(content))
    desk = TaggingPool(Memory(content), key, header)
    chunk = next(chunks_of(header))
    hashed = content[: chunk.blocks * key.layout.block_bytes]
    times = best_times(
        {"sha256": lambda: _sha256(hashed), "tag": lambda: desk.pages(chunk)}, rounds
    )
    return times["sha256"] / times["tag"]


def _proving(rounds: int) -> tuple[float, float]:
    """Return the ratios with everything in memory, and with both sides reading from a file."""
    key = SecretKey.generate(128)
    content = os.urandom(64 << 20)
    header = TagHeader(key.public.id, FILE_ID, 1, draw_nonce(), key.sectors, len(content))
    tags = header.encode() + TaggingPool(Memory(content), key, header).pages(
        Chunk(0, header.blocks)
    )
    inventory = Inventory(key.public.id, key.sectors).with_file(header.entry)
    challenge = draw_challenge(inventory, SAMPLES)
    # SHA-256 hashes blocks that lie as scattered as those which the proof covers.
    places = (challenge.expand().indices * ((len(content) - BLOCK) // header.blocks)).tolist()
    view = memoryview(content)
    blocks = [view[place : place + BLOCK] for place in places]
    stored = StoredFile(Memory(content), TagFile(Memory(tags)))
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        data_path, tags_path = Path(folder) / "data", Path(folder) / "tags"
        data_path.write_bytes(content)
        tags_path.write_bytes(tags)
        with LocalFile(data_path) as data, LocalFile(tags_path) as tag_reader:
            on_disk = StoredFile(data, TagFile(tag_reader))
            ranges = [(place, BLOCK) for place in places]
            times = best_times(
                {
                    "sha256": lambda: [hashlib.sha256(block).digest() for block in blocks],
                    "prove": lambda: Prover(inventory, {FILE_ID: stored}).prove(challenge),
                    "sha256 from file": lambda: [
                        hashlib.sha256(block).digest() for block in data.read_many(ranges)
                    ],
                    "prove from file": lambda: Prover(inventory, {FILE_ID: on_disk}).prove(
                        challenge
                    ),
                },
                rounds,
            )
    return (
        times["sha256"] / times["prove"],
        times["sha256 from file"] / times["prove from file"],
    )


def _small_parts(rounds: int) -> tuple[float, float]:
    """Return SHA-256 of 460 blocks over one challenge, and of one block over one multiplication."""
    content = os.urandom(SAMPLES * BLOCK)
    challenge = Challenge(os.urandom(32), os.urandom(32), 10**6, SAMPLES, 0, 10**6)
    point = curve.times_base(5)
    times = best_times(
        {
            "sha256": lambda: _sha256(content),
            "challenge": challenge.expand,
            "multiplications": lambda: [curve.times(point, Q - k) for k in range(1, 101)],
        },
        rounds,
    )
    return (
        times["sha256"] / times["challenge"],
        times["sha256"] / SAMPLES / (times["multiplications"] / 100),
    )


def _sha256(content: bytes) -> None:
    view = memoryview(content)
    for start in range(0, len(content), BLOCK):
        hashlib.sha256(view[start : start + BLOCK]).digest()


def _fill(path: Path, size: int) -> None:
    piece = os.urandom(1 << 20)
    with path.open("wb") as file:
        for _ in range(0, size, len(piece)):
            file.write(piece)


def _processes(large: Path) -> tuple[float, float]:
    """Return the times with one process and with two, the best of five runs each."""
    times = best_times({"one": lambda: _tag(large, 1), "two": lambda: _tag(large, 2)}, rounds=5)
    return times["one"], times["two"]


def _peak_of_tagging(large: Path) -> int:
    """Return the largest resident memory of a fresh process that tags the file alone."""
    with start_child(_tag_and_report, large) as child:
        return int(child.pipe.recv())


def _tag_and_report(pipe: Connection, large: Path) -> None:
    _tag(large, 1)
    pipe.send(_peak())


def _peak() -> int:
    """Return the largest resident memory of this process so far, in bytes.

    `ru_maxrss` counts what the parent had when it started us, too; Linux tells it apart.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _tag(large: Path, processes: int) -> None:
    with tempfile.TemporaryDirectory(dir=large.parent) as folder:
        tag_file(
            Location(str(large)),
            SecretKey(bytes(32), 16),
            file_id=FILE_ID,
            version=1,
            out=Path(folder) / "tags",
            processes=processes,
        )
