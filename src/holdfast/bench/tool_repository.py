"""Repositories of restic and borg that last as long as a benchmark."""

import os
import subprocess
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.errors import StorageError

FILE_BYTES = 8 << 20
SECRET = "benchmark"  # noqa: S105 - of a repository that lasts as long as the benchmark
MAX_WORDS = 500


@dataclass(frozen=True)
class Ended:
    """How a call of a tool ended."""

    code: int
    words: str
    read_bytes: int | None  # by the kernel's count, where it has one


@dataclass(frozen=True)
class ToolRepository:
    """A repository in the folder of the benchmark, and how its tool is called."""

    program: str
    path: Path
    variables: Mapping[str, str]

    def call(self, *arguments: str, codes: Collection[int] = (0,)) -> Ended:
        """Call the tool; raise unless it ends with one of these exit codes."""
        with subprocess.Popen(  # noqa: S603 - a program that the operator has installed
            [self.program, *arguments],
            env={**os.environ, **self.variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            words = process.stdout.read() if process.stdout else ""
            read_bytes = _count_read(process.pid)
        if process.returncode not in codes:
            last = words.strip()[-MAX_WORDS:]
            raise StorageError(f"{self.program} {arguments[0]} failed: {last}")
        return Ended(process.returncode, words, read_bytes)


def restic_repository(program: str, folder: Path) -> ToolRepository:
    """Return how restic is called for a repository in this folder, which is not made yet."""
    password = folder / "password"
    password.write_text(SECRET)
    path = folder / "restic"
    variables = {
        "RESTIC_REPOSITORY": str(path),
        "RESTIC_PASSWORD_FILE": str(password),
        "RESTIC_CACHE_DIR": str(folder / "cache"),
    }
    return ToolRepository(program, path, variables)


def list_packs(repository: Path) -> list[Path]:
    """Return all packs of a restic repository."""
    return sorted((repository / "data").glob("*/*"))


def write_source(folder: Path, size: int) -> None:
    """Write files of random bytes, which no tool can make smaller."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    for number, start in enumerate(range(0, size, FILE_BYTES)):
        (folder / f"{number:05}").write_bytes(rng.bytes(min(FILE_BYTES, size - start)))


def _count_read(process_id: int) -> int | None:
    """Wait for the end of a process, and return how many bytes it has read from files."""
    os.waitid(os.P_PID, process_id, os.WEXITED | os.WNOWAIT)  # its figures last until it is reaped
    with suppress(OSError):
        for line in Path(f"/proc/{process_id}/io").read_text().splitlines():
            if line.startswith("rchar:"):
                return int(line.split()[1])
    return None
