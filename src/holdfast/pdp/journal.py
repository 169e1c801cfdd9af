"""The owner's record of what has been tagged under a key, which refuses to tag two contents alike.

Tags of two different contents under one file id and version share their pseudorandom numbers; their
difference is linear in the alphas, and a node that has seen enough of them solves for the key. So
(file id, version) is bound to one set of tags, before these tags leave the owner.
"""

import fcntl
import os
import re
from pathlib import Path

from holdfast.errors import MalformedError, RefusedError, StorageError

_LINE = re.compile(rb"([0-9a-f]{32}) ([1-9][0-9]{0,18}) ([0-9a-f]{64})")


class TagJournal:
    """An append-only text file; a line is a file id, its version and the SHA-256 of its tags."""

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
                # A line without its end was cut off by a crash, before its tags were published.
                whole = content[: content.rfind(b"\n") + 1]
                bound = self._parse(whole).get((file_id, version))
                if bound == digest:
                    return
                if bound is not None:
                    raise RefusedError(
                        f"version {version} of file {file_id.hex()} was tagged with other content: "
                        "a changed file needs a new version, or its tags would betray the key"
                    )
                file.truncate(len(whole))
                file.write(f"{file_id.hex()} {version} {digest.hex()}\n".encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(f"can't write {self.path}: {error.strerror}") from error

    def latest_version(self, file_id: bytes) -> int:
        """Return the highest version tagged so far, 0 if there is none."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise StorageError(f"can't read {self.path}: {error.strerror}") from error
        whole = content[: content.rfind(b"\n") + 1]
        return max((version for seen, version in self._parse(whole) if seen == file_id), default=0)

    def _parse(self, content: bytes) -> dict[tuple[bytes, int], bytes]:
        bound = {}
        for number, line in enumerate(content.splitlines(), start=1):
            fields = _LINE.fullmatch(line)
            if fields is None:
                raise MalformedError(
                    f"{self.path} is damaged at line {number}: restore it, for it keeps the key "
                    "from being betrayed by tagging changed content twice"
                )
            file_id, version, digest = (field.decode() for field in fields.groups())
            bound[bytes.fromhex(file_id), int(version)] = bytes.fromhex(digest)
        return bound
