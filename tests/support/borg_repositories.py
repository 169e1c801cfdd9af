"""Small borg repositories, made by borg."""

import os
import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.support import parts

PASSPHRASE = "correct horse"
BACKUPS = 3


@dataclass(frozen=True)
class BorgRepository:
    path: Path
    source: Path

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run borg as its owner does."""
        variables = {
            "BORG_BASE_DIR": str(self.path.parent / "base"),
            "BORG_PASSPHRASE": PASSPHRASE,
            "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
        }
        return subprocess.run(
            [parts.program("borg", "borgbackup"), *arguments],
            env={**os.environ, **variables},
            check=True,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def back_up(self, name: str) -> None:
        self.call("create", f"{self.path}::{name}", str(self.source))

    def segments(self) -> list[Path]:
        """Return the files of all segments, in their order."""
        return sorted((self.path / "data").glob("*/*"), key=lambda file: int(file.name))

    def data_segment(self) -> Path:
        """Return a large segment in the midst of others."""
        return max(self.segments()[1:], key=lambda file: file.stat().st_size)

    def copy(self, target: Path) -> Self:
        shutil.copytree(self.path, target / "repository")
        shutil.copytree(self.source, target / "source")
        return type(self)(target / "repository", target / "source")


def make_repository(folder: Path) -> BorgRepository:
    source = folder / "source"
    source.mkdir(parents=True)
    repository = BorgRepository(folder / "repository", source)
    repository.call("init", "--encryption", "repokey", str(repository.path))
    repository.call("config", str(repository.path), "max_segment_size", "600000")
    rng = random.Random(7)
    for number in range(BACKUPS):
        (source / f"file{number}").write_bytes(rng.randbytes(1_000_000))
        repository.back_up(f"archive{number}")
    return repository
