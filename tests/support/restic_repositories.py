"""Small restic repositories, made by restic, and damage to their files."""

import os
import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.support import parts

PASSWORD = "correct horse"
BACKUPS = 7


@dataclass(frozen=True)
class ResticRepository:
    """A repository on disk, its source, and a file with its password."""

    path: Path
    source: Path
    password_file: Path

    def call(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run restic as its owner does."""
        variables = {
            "RESTIC_REPOSITORY": str(self.path),
            "RESTIC_PASSWORD_FILE": str(self.password_file),
            "RESTIC_CACHE_DIR": str(self.path.parent / "cache"),
        }
        return subprocess.run(
            [parts.program("restic"), *arguments],
            env={**os.environ, **variables},
            check=check,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def back_up(self, *arguments: str) -> None:
        self.call("backup", *arguments, str(self.source))

    def packs(self) -> list[Path]:
        """Return the files of all packs, the largest first."""
        files = (self.path / "data").glob("*/*")
        return sorted(files, key=lambda file: (-file.stat().st_size, file.name))

    def data_pack(self) -> Path:
        return self.packs()[0]

    def tree_pack(self) -> Path:
        return self.packs()[-1]

    def file_of(self, folder: str) -> Path:
        """Return a file of the index, the snapshots or the keys."""
        return min((self.path / folder).iterdir())

    def copy(self, target: Path) -> Self:
        shutil.copytree(self.path, target / "repository")
        for path in (target / "repository").rglob("*"):
            path.chmod(0o700)  # restic makes files that can't be written
        shutil.copytree(self.source, target / "source")
        return type(self)(target / "repository", target / "source", self.password_file)

    @property
    def options(self) -> dict[str, str]:
        return {"password-file": str(self.password_file)}


def make_repository(folder: Path) -> ResticRepository:
    """Make a repository of a few packs of data and of trees, each backup with one of both."""
    source = folder / "source"
    source.mkdir(parents=True)
    password_file = folder / "password"
    password_file.write_text(f"{PASSWORD}\n")
    repository = ResticRepository(folder / "repository", source, password_file)
    repository.call("init")
    rng = random.Random(7)
    for number in range(BACKUPS):
        (source / f"file{number}").write_bytes(rng.randbytes(200_000))
        repository.back_up()
    return repository


def flip(path: Path, at: int = 100) -> None:
    """Change one byte of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 0x55
    path.write_bytes(content)
