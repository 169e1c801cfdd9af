"""Writes objects of a direct holding again: what they have, with lost blocks put back.

Blocks that a repair brings are kept in the home until all of an object are there. The object is
written whole, and only if it is then what was tagged.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast import atomic
from holdfast.errors import InputError, RefusedError, StorageError
from holdfast.node.bucket import Bucket
from holdfast.node.objects import open_objects
from holdfast.node.record import FileRecord
from holdfast.owner.direct.storage import DirectStorage
from holdfast.owner.direct.tagging import SegmentDigest
from holdfast.pdp.spans import Spans

PART_BYTES = 8 << 20
FOLDER = "repair"  # in the holding's folder of the home


class RepairDraft:
    """The blocks of one object that were brought so far, in a sparse file of the home."""

    def __init__(self, folder: Path, file: FileRecord) -> None:
        self._folder = folder / FOLDER
        name = f"{file.file_id.hex()}-{file.version}"
        self._content, self._ranges = self._folder / name, self._folder / f"{name}.ranges"

    def write(self, offset: int, content: bytes) -> None:
        """Keep these bytes, which lie at `offset` in the object."""
        atomic.make_directory(self._folder, mode=atomic.PRIVATE_FOLDER)
        try:
            with open(self._content, "r+b", opener=_open_or_create) as file:
                file.seek(offset)
                file.write(content)
            with open(self._ranges, "a", opener=atomic.private) as ranges:
                ranges.write(f"\n{json.dumps([offset, offset + len(content)])}\n")
        except OSError as error:
            raise StorageError(f"can't write {self._content}: {error.strerror}") from error

    def spans(self) -> Spans:
        """Return which bytes of the object are here."""
        spans = []
        with suppress(FileNotFoundError):
            for line in self._ranges.read_text().splitlines():
                with suppress(ValueError):  # a line that a crash cut off
                    spans.append(json.loads(line))
        return Spans.of(spans)

    def parts(self, storage: DirectStorage, file: FileRecord) -> Iterator[bytes]:
        """Yield the object part by part, as it is with what is here in its place."""
        spans, name = self.spans(), file.in_place or ""
        for start in range(0, file.length, PART_BYTES):
            stop = min(start + PART_BYTES, file.length)
            here = spans.within(start, stop)
            if here.spans == ((start, stop),):
                content = bytearray(stop - start)
            else:
                content = bytearray(storage.read_spans([(name, [(start, stop - start)])])[0])
            if here:
                self._overlay(start, content, here)
            yield bytes(content)

    def _overlay(self, start: int, content: bytearray, here: Spans) -> None:
        with self._content.open("rb") as file:
            for first, last in here:
                file.seek(first)
                content[first - start : last - start] = file.read(last - first)

    @contextmanager
    def whole(self) -> Iterator[Path]:
        """Yield a path for the whole object, which is removed in the end."""
        atomic.make_directory(self._folder, mode=atomic.PRIVATE_FOLDER)
        path = self._folder / f"{self._content.name}.whole"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        self._content.unlink(missing_ok=True)
        self._ranges.unlink(missing_ok=True)


def check_writable(address: str) -> None:
    """Raise if nothing can be written where a direct holding's data lie."""
    objects = open_objects(address)
    if isinstance(objects, Bucket):
        try:
            objects.claim()
        except InputError as error:
            raise InputError(f"nothing can be put back: {error}") from error
    elif not os.access(address, os.W_OK | os.X_OK):
        raise InputError(f"nothing can be put back: you may not write in {address}")


def restore_object(storage: DirectStorage, file: FileRecord, draft: RepairDraft) -> None:
    """Write an object again, from what it has and what the draft has."""
    objects, name = open_objects(storage.address), file.in_place or ""
    if isinstance(objects, Bucket):
        with draft.whole() as path:
            _assemble(storage, file, draft, path)
            objects.upload(name, path)
    else:
        path = Path(storage.address, name)
        atomic.make_directory(path.parent)
        with atomic.replacing(path) as new:
            _assemble(storage, file, draft, new)
            if path.exists():
                shutil.copymode(path, new)
    draft.remove()


def _assemble(storage: DirectStorage, file: FileRecord, draft: RepairDraft, path: Path) -> None:
    """Write the whole object into a file; raise unless it is what was tagged."""
    digest = SegmentDigest(file.length)
    with path.open("wb") as whole:
        for part in draft.parts(storage, file):
            digest.update(part)
            whole.write(part)
    if digest.combined != file.data_digest:
        raise RefusedError(
            f"{file.in_place} is not written: with the blocks that were found it would still not "
            "be what was tagged"
        )


def _open_or_create(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, atomic.PRIVATE)
