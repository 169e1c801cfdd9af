"""The journal of an enrolment: what is tagged, and what is to go, until the catalogue has it.

A line is written when the tags of an object are. After a crash, nothing in it is read again.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from holdfast import atomic
from holdfast.errors import StorageError
from holdfast.owner.direct.tagging import TaggedObject

FILE = "enrolment.jsonl"


@dataclass(frozen=True)
class Changes:
    """What an enrolment is to change: tagged objects, and the ids of files that are to go."""

    tagged: tuple[TaggedObject, ...] = ()
    gone: tuple[bytes, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tagged or self.gone)


class Journal:
    """Lines of one holding's enrolment. Several threads may add to it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._lock = Lock()

    def add(self, tagged: TaggedObject) -> None:
        self._append([json.dumps(tagged.encode())])

    def add_gone(self, file_ids: Iterable[bytes]) -> None:
        self._append([json.dumps({"gone": file_id.hex()}) for file_id in file_ids])

    def _append(self, lines: Iterable[str]) -> None:
        content = "\n".join(["", *lines, ""])  # on a new line, if a crash cut off the last one
        try:
            with self._lock, open(self._path, "a", opener=atomic.private) as file:
                file.write(content)
        except OSError as error:
            raise StorageError(f"can't write {self._path}: {error.strerror}") from error

    def read(self) -> Changes:
        """Return what is in it; a line that a crash cut off is left out."""
        try:
            lines = self._path.read_text().splitlines()
        except FileNotFoundError:
            return Changes()
        tagged: dict[str, TaggedObject] = {}
        gone: dict[bytes, None] = {}
        for line in lines:
            try:
                fields = json.loads(line)
                if "gone" in fields:
                    gone[bytes.fromhex(fields["gone"])] = None
                else:
                    entry = TaggedObject.decode(fields)
                    tagged[entry.file.name] = entry
            except (ValueError, LookupError, TypeError):
                continue
        return Changes(tuple(tagged.values()), tuple(gone))

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)
