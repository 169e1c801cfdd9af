"""What it takes to find 1 % of the data lost in whole packs, with 99 %: a direct audit, and restic.

In every run the bytes of other packs become zeros, while names, sizes and times stay, as on a disk
that rots; in one more pack a single byte is flipped. A direct audit of 460 blocks looks for it, and
a `restic check` of a random subset that is large enough to find the lost packs with 99 %. The packs
are the smallest that restic makes: of larger ones the same confidence takes more bytes.

A flipped byte is another matter: who reads a share of the data finds it with that probability,
however the share is chosen. `flipped_byte` has how often it was found in the same runs, and the
probability for a gigabyte that is read, which is the same for both.
"""

import math
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from holdfast.bench.tool_repository import (
    ToolRepository,
    list_packs,
    restic_repository,
    write_source,
)
from holdfast.control.audit_now import DIRECT_SAMPLES, audit_holdings
from holdfast.errors import StorageError
from holdfast.evidence.leaf import Outcome
from holdfast.model.detection import samples_for
from holdfast.owner import Home
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct_operations import add_direct_holding
from holdfast.pdp.sealing import ScryptCost

HOLDING, SECTORS = "packs", 16
PACK_MIB = "4"  # the smallest that restic makes
MIN_DATA_BYTES = 1 << 20  # of a pack of data; those of trees and the last one are smaller
LOST_SHARE, CONFIDENCE = 0.01, 0.99
ABBREVIATED = 8  # hexadecimal digits by which restic names a pack
DEADLINE_SECONDS = 600
GB = 10**9
FLIPPED = "no sampling beats another per byte read: only coverage helps"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Look:
    """What one contender found and read."""

    found: frozenset[Path]  # packs that it named
    share: float  # of all units, blocks or packs, that it looked at
    read_bytes: int

    @property
    def share_per_gb(self) -> float:
        """The share for a gigabyte that is read: how likely that finds a flipped byte."""
        return self.share * GB / self.read_bytes


@dataclass(frozen=True)
class Run:
    """Which packs were damaged, and what was found of them."""

    lost: frozenset[Path]
    flipped: Path
    direct: Look
    restic: Look


def measure_detection(program: str, *, size: int, runs: int, say: Say) -> dict[str, Any]:
    """Return how often each found the damage, and what it read for it, over these runs."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        say(f"making a restic repository of {size >> 20} MiB in small packs, and enrolling it")
        trial = _Trial(_make_repository(program, folder, size), folder)
        say(f"losing {trial.lost} of {len(trial.packs)} packs, {runs} times, and looking for them")
        intact = (trial.audit(), trial.check())
        if any(look.found for look in intact):
            raise StorageError("damage was found where there is none")
        return _summarise(trial, intact, [trial.run() for _ in range(runs)])


class _Trial:
    """A repository, the home that audits it, and the size of restic's sample."""

    def __init__(self, repository: ToolRepository, folder: Path) -> None:
        self.repository, self.packs = repository, list_packs(repository.path)
        self.data = [pack for pack in self.packs if pack.stat().st_size >= MIN_DATA_BYTES]
        self.bytes = sum(pack.stat().st_size for pack in self.packs)
        self.lost = math.ceil(LOST_SHARE * len(self.packs))
        self.subset = samples_for(CONFIDENCE, self.lost, len(self.packs))
        self._home = Home.create(folder / "home", b"benchmark", ScryptCost(n=16))
        address = DirectAddress.of(str(repository.path / "data"))
        add_direct_holding(self._home, HOLDING, address, sectors=SECTORS)

    def run(self) -> Run:
        """Damage other packs than before, and let both look for them."""
        *lost, flipped = secrets.SystemRandom().sample(self.data, self.lost + 1)
        with _damaged(lost, flipped):
            return Run(frozenset(lost), flipped, self.audit(), self.check())

    def audit(self) -> Look:
        """Audit a sample of blocks, as `audit now` does by default."""
        (result,) = audit_holdings(
            self._home,
            [HOLDING],
            lambda blocks: min(DIRECT_SAMPLES, blocks),
            deadline_seconds=DEADLINE_SECONDS,
        )
        if result.outcome not in {Outcome.PASSED, Outcome.FAILED}:
            raise StorageError(f"an audit ended as {result.outcome}: {result.reason}")
        found = self._named("\n".join(result.proof_detail.objects))
        return Look(found, result.checked / result.units, result.read_bytes)

    def check(self) -> Look:
        """Let restic check a random subset of that many packs."""
        percent = min(100 * (self.subset + 0.5) / len(self.packs), 100.0)  # it rounds down
        subset = f"--read-data-subset={percent:.4f}%"
        ended = self.repository.call("check", "--no-lock", "--no-cache", subset, codes=(0, 1))
        found = self._named(ended.words)
        if ended.code and not found:
            raise StorageError(f"restic failed without naming a pack: {ended.words[-500:]}")
        share = self.subset / len(self.packs)
        read_bytes = ended.read_bytes or round(share * self.bytes)
        return Look(found, share, read_bytes)

    def _named(self, words: str) -> frozenset[Path]:
        """Return the packs that a text names, in full or by the beginning of the name."""
        return frozenset(pack for pack in self.packs if pack.name[:ABBREVIATED] in words)


def _summarise(trial: _Trial, intact: Sequence[Look], runs: Sequence[Run]) -> dict[str, Any]:
    direct = [run.direct.read_bytes for run in runs]
    restic = [run.restic.read_bytes for run in runs]
    return {
        "detection": {
            "runs": len(runs),
            "bytes": trial.bytes,
            "packs": len(trial.packs),
            "lost_packs": trial.lost,
            "restic_subset_packs": trial.subset,
            "direct_found": fmean(bool(run.direct.found & run.lost) for run in runs),
            "restic_found": fmean(bool(run.restic.found & run.lost) for run in runs),
            "direct_bytes": fmean(direct),
            "restic_bytes": fmean(restic),
        },
        "flipped_byte": {
            "direct_found": fmean(run.flipped in run.direct.found for run in runs),
            "restic_found": fmean(run.flipped in run.restic.found for run in runs),
            "direct_probability_per_gb": intact[0].share_per_gb,
            "restic_probability_per_gb": intact[1].share_per_gb,
            "note": FLIPPED,
        },
        "direct_over_restic_bytes": sum(direct) / sum(restic),
    }


def _make_repository(program: str, folder: Path, size: int) -> ToolRepository:
    repository, source = restic_repository(program, folder), folder / "packed"
    write_source(source, size)
    repository.call("init")
    repository.call("backup", "--pack-size", PACK_MIB, str(source))
    shutil.rmtree(source)
    for pack in list_packs(repository.path):
        pack.chmod(0o600)
    return repository


@contextmanager
def _damaged(lost: Collection[Path], flipped: Path) -> Iterator[None]:
    """Fill packs with zeros and flip a byte of another, until the end of the block."""
    contents = {pack: pack.read_bytes() for pack in (*lost, flipped)}
    for pack in lost:
        _overwrite(pack, bytes(len(contents[pack])))
    middle = len(contents[flipped]) // 2
    content = bytearray(contents[flipped])
    content[middle] ^= 1
    _overwrite(flipped, content)
    try:
        yield
    finally:
        for pack, original in contents.items():
            _overwrite(pack, original)


def _overwrite(path: Path, content: bytes | bytearray) -> None:
    """Write other bytes in place; by its time the file looks as before."""
    times = path.stat()
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
