"""The owner's record of what has been tagged under a key, which refuses to tag two contents alike.

Tags of two different contents under one file id and version share their pseudorandom numbers; their
difference is linear in the alphas, and a node that has seen enough of them solves for the key. So
(file id, version) is bound to one set of tags, before these tags leave the owner.
"""

import fcntl
import hashlib
import os
import re
from pathlib import Path
from typing import Protocol

from holdfast.errors import MalformedError, RefusedError, StorageError

_LINE = re.compile(
    r"(?P<entry>(?P<file_id>[0-9a-f]{32}) (?P<version>[1-9][0-9]{0,18}) (?P<digest>[0-9a-f]{64}))"
    r" (?P<checksum>[0-9a-f]{16})"
)
LONGEST_LINE = 32 + 1 + 19 + 1 + 64 + 1 + 16


class Versions(Protocol):
    def bind(self, file_id: bytes, version: int, digest: bytes) -> None:
        """Bind the version to these tags for good, or refuse if it is bound to others."""


def spent(file_id: bytes, version: int) -> RefusedError:
    return RefusedError(
        f"version {version} of file {file_id.hex()} was tagged with other content: "
        "a changed file needs a new version, or its tags would betray the key"
    )


class TagJournal:
    """An append-only text file with a line for each tagged version.

    A line is the file id, the version, the SHA-256 of the tags, and a checksum of these three.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def beside(cls, key_file: Path) -> "TagJournal":
        return cls(key_file.with_name(key_file.name + ".journal"))

    def bind(self, file_id: bytes, version: int, digest: bytes) -> None:
        """Bind the version to these tags for good, or refuse if it is bound to others."""
        try:
            with self.path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(0)
                content = file.read()
                whole = self._whole_lines(content)
                bound = self._parse(whole).get((file_id, version))
                if bound == digest:
                    return
                if bound is not None:
                    raise spent(file_id, version)
                file.truncate(len(whole))
                entry = f"{file_id.hex()} {version} {digest.hex()}"
                file.write(f"{entry} {_checksum(entry)}\n".encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(f"can't write {self.path}: {error.strerror}") from error

    def latest_version(self, file_id: bytes) -> int:
        """Return the highest version tagged so far, 0 if there is none."""
        return max((version for seen, version in self._bound() if seen == file_id), default=0)

    def digest(self, file_id: bytes, version: int) -> bytes | None:
        """Return the SHA-256 of the tags to which the version is bound, if it is."""
        return self._bound().get((file_id, version))

    def _bound(self) -> dict[tuple[bytes, int], bytes]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StorageError(f"can't read {self.path}: {error.strerror}") from error
        return self._parse(self._whole_lines(content))

    def _whole_lines(self, content: bytes) -> bytes:
        """Leave out a line that a crash has cut off, which was before its tags were published."""
        end = content.rfind(b"\n") + 1
        if len(content) - end > LONGEST_LINE:
            raise self._damaged("end")
        return content[:end]

    def _parse(self, content: bytes) -> dict[tuple[bytes, int], bytes]:
        bound = {}
        for number, line in enumerate(content.splitlines(), start=1):
            fields = _LINE.fullmatch(line.decode("ascii", "replace"))
            if fields is None or _checksum(fields["entry"]) != fields["checksum"]:
                raise self._damaged(f"line {number}")
            version = int(fields["version"])
            bound[bytes.fromhex(fields["file_id"]), version] = bytes.fromhex(fields["digest"])
        return bound

    def _damaged(self, where: str) -> MalformedError:
        return MalformedError(
            f"{self.path} is damaged at its {where}: restore it, for it keeps the key from being "
            "betrayed by tagging changed content twice"
        )


def _checksum(entry: str) -> str:
    return hashlib.sha256(entry.encode()).hexdigest()[:16]
