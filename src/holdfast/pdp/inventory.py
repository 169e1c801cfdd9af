"""A holding's inventory: all files that one owner keeps on one node, as one sequence of blocks.

Its hash enters every challenge: owner and node that disagree on what is stored find out before any
proof. Inventories are values: adding or removing a file makes a new one.
"""

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InputError, MalformedError
from holdfast.pdp import encoding
from holdfast.pdp.field import MAX_SECTORS
from holdfast.pdp.keys import FILE_ID_BYTES, MAX_VERSION, NONCE_BYTES

KEY_ID_BYTES = 32
HASH_BYTES = 32
MAX_BLOCKS = 2**48
MAX_FILES = 10**6
MAX_INVENTORY_BYTES = 192 * MAX_FILES
_ENTRY = struct.Struct(">16sQ32sQ")


@dataclass(frozen=True)
class FileEntry:
    file_id: bytes
    version: int
    nonce: bytes
    blocks: int


@dataclass(frozen=True)
class Inventory:
    """The files of a holding in their order, under one key and one S."""

    key_id: bytes
    sectors: int
    files: tuple[FileEntry, ...] = ()

    @property
    def blocks(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each file's blocks begin in the holding's sequence, and at last where they end."""
        return np.cumsum([0, *(entry.blocks for entry in self.files)], dtype=np.int64)

    @cached_property
    def hash(self) -> bytes:
        digest = hashlib.sha256(b"holdfast/v1/inventory\0" + self.key_id)
        digest.update(struct.pack(">IQ", self.sectors, len(self.files)))
        for entry in self.files:
            digest.update(_ENTRY.pack(entry.file_id, entry.version, entry.nonce, entry.blocks))
        return digest.digest()

    def entry(self, file_id: bytes) -> FileEntry | None:
        return next((entry for entry in self.files if entry.file_id == file_id), None)

    def with_file(self, entry: FileEntry) -> Self:
        """Return the inventory with the file at the end, or with its new version in its place."""
        known = self.entry(entry.file_id)
        if known is not None and known.version > entry.version:
            raise InputError(
                f"file {entry.file_id.hex()} is held in version {known.version} already, "
                f"which is newer than version {entry.version}"
            )
        if known is not None and known.version == entry.version and known != entry:
            raise InputError(
                f"file {entry.file_id.hex()} is held in version {known.version} with other tags: "
                "a changed file needs a new version"
            )
        if known is None:
            return self._of((*self.files, entry))
        return self._of(entry if old is known else old for old in self.files)

    def without_file(self, file_id: bytes) -> Self:
        if self.entry(file_id) is None:
            raise InputError(f"file {file_id.hex()} is not in the inventory")
        return self._of(entry for entry in self.files if entry.file_id != file_id)

    def _of(self, files: Iterable[FileEntry]) -> Self:
        return type(self)(self.key_id, self.sectors, tuple(files))

    def place(self, index: int) -> tuple[FileEntry, int]:
        """Return the file that the holding's block `index` belongs to, and its index there."""
        at = int(np.searchsorted(self.starts, index, side="right")) - 1
        return self.files[at], index - int(self.starts[at])

    def encode(self) -> bytes:
        files: list[list[str | int]] = [
            [entry.file_id.hex(), entry.version, entry.nonce.hex(), entry.blocks]
            for entry in self.files
        ]
        fields: dict[str, encoding.Value] = {
            "key_id": self.key_id.hex(),
            "sectors": self.sectors,
            "files": files,
        }
        return encoding.dump("inventory", fields)

    @classmethod
    def decode(cls, content: bytes, name: str = "inventory") -> Self:
        fields = encoding.load("inventory", content, name)
        key_id = fields.hex("key_id", KEY_ID_BYTES)
        sectors = fields.integer("sectors", 1, MAX_SECTORS)
        entries = []
        for row in fields.items("files", 0, MAX_FILES):
            entry = encoding.row(row, f"{name}: a file", "file_id", "version", "nonce", "blocks")
            entries.append(
                FileEntry(
                    entry.hex("file_id", FILE_ID_BYTES),
                    entry.integer("version", 1, MAX_VERSION),
                    entry.hex("nonce", NONCE_BYTES),
                    entry.integer("blocks", 1, MAX_BLOCKS),
                )
            )
        fields.end()
        if len({entry.file_id for entry in entries}) != len(entries):
            raise MalformedError(f"{name} names a file twice")
        if sum(entry.blocks for entry in entries) > MAX_BLOCKS:
            raise MalformedError(f"{name} has more than {MAX_BLOCKS} blocks in all")
        return cls(key_id, sectors, tuple(entries))
