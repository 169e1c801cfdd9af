"""The record of which versions were tagged under a key: a version is tagged once.

It keeps version numbers from meaning two contents, even where tag file and inventory were replaced
by older ones. The key does not depend on it: every tagging has its own nonce.
"""

import fcntl
import hashlib
import os
import re
from pathlib import Path

from holdfast.errors import MalformedError, RefusedError, StorageError

_LINE = re.compile(
    r"(?P<entry>(?P<file_id>[0-9a-f]{32}) (?P<version>[1-9][0-9]{0,18}))"
    r" (?P<checksum>[0-9a-f]{16})"
)
MAX_LINE_BYTES = 32 + 1 + 19 + 1 + 16


class TagJournal:
    """An append-only text file with one line per tagged version.

    A line is the file id, the version, and a checksum of these two.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def beside(cls, key_file: Path) -> "TagJournal":
        """Return the journal of a key, the same by whatever path the key is reached."""
        key_file = key_file.resolve()
        return cls(key_file.with_name(key_file.name + ".journal"))

    def add(self, file_id: bytes, version: int) -> None:
        """Add a version, or refuse if it was tagged before."""
        try:
            with self.path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(0)
                content = file.read()
                whole = self._whole_lines(content)
                if (file_id, version) in self._parse(whole):
                    raise RefusedError(
                        f"version {version} of file {file_id.hex()} was tagged before: "
                        "a changed file needs a new version"
                    )
                file.truncate(len(whole))
                entry = f"{file_id.hex()} {version}"
                file.write(f"{entry} {_checksum(entry)}\n".encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(f"can't write {self.path}: {error.strerror}") from error

    def latest_version(self, file_id: bytes) -> int:
        """Return the highest version tagged so far, 0 if there is none."""
        return max((version for seen, version in self._versions() if seen == file_id), default=0)

    def _versions(self) -> set[tuple[bytes, int]]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise StorageError(f"can't read {self.path}: {error.strerror}") from error
        return self._parse(self._whole_lines(content))

    def _whole_lines(self, content: bytes) -> bytes:
        """Leave out a line that a crash has cut off, which was before its tags were published."""
        end = content.rfind(b"\n") + 1
        if len(content) - end > MAX_LINE_BYTES:
            raise self._damaged("end")
        return content[:end]

    def _parse(self, content: bytes) -> set[tuple[bytes, int]]:
        versions = set()
        for number, line in enumerate(content.splitlines(), start=1):
            fields = _LINE.fullmatch(line.decode("ascii", "replace"))
            if fields is None or _checksum(fields["entry"]) != fields["checksum"]:
                raise self._damaged(f"line {number}")
            versions.add((bytes.fromhex(fields["file_id"]), int(fields["version"])))
        return versions

    def _damaged(self, where: str) -> MalformedError:
        return MalformedError(
            f"{self.path} is damaged at its {where}: restore it, or move it away to begin a new one"
        )


def _checksum(entry: str) -> str:
    return hashlib.sha256(entry.encode()).hexdigest()[:16]
