"""The document that lists a holding's accepted files. Replacing it is the commit."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from holdfast.node.identity import OWNER_BYTES
from holdfast.node.wire import MAX_LENGTH, MAX_PATH
from holdfast.pdp import Inventory, PublicKey, TagHeader, encoding
from holdfast.pdp.field import MAX_SECTORS, SCALAR_BYTES
from holdfast.pdp.inventory import HASH_BYTES, MAX_FILES
from holdfast.pdp.keys import FILE_ID_BYTES, MAX_VERSION, NONCE_BYTES

_KIND = "node-holding"
_COLUMNS = (
    "file_id",
    "version",
    "nonce",
    "length",
    "data_digest",
    "tags_digest",
    "upload",
    "in_place",
)


@dataclass(frozen=True)
class FileRecord:
    """A file of a holding; its segments lie under the name of the upload that brought them."""

    file_id: bytes
    version: int
    nonce: bytes
    length: int
    data_digest: bytes
    tags_digest: bytes
    upload: bytes
    in_place: str | None

    def header(self, public: PublicKey) -> TagHeader:
        return TagHeader(
            public.id, self.file_id, self.version, self.nonce, public.sectors, self.length
        )

    def stored_bytes(self, public: PublicKey) -> int:
        return self.header(public).file_bytes + (0 if self.in_place else self.length)


@dataclass(frozen=True)
class HoldingRecord:
    owner: bytes
    public: PublicKey
    files: tuple[FileRecord, ...] = ()

    @cached_property
    def inventory(self) -> Inventory:
        entries = (file.header(self.public).entry for file in self.files)
        return Inventory(self.public.id, self.public.sectors, tuple(entries))

    @cached_property
    def by_id(self) -> dict[bytes, FileRecord]:
        return {file.file_id: file for file in self.files}

    @cached_property
    def uploads(self) -> frozenset[bytes]:
        """The uploads that brought the files, all others being no part of the holding."""
        return frozenset(file.upload for file in self.files)

    @cached_property
    def stored_bytes(self) -> int:
        return sum(file.stored_bytes(self.public) for file in self.files)

    def with_file(self, new: FileRecord) -> Self:
        """Return the record with the file where `Inventory.with_file` puts it."""
        known = self.by_id.get(new.file_id)
        if known is None:
            return replace(self, files=(*self.files, new))
        return replace(self, files=tuple(new if old is known else old for old in self.files))

    def without_file(self, file_id: bytes) -> Self:
        return replace(self, files=tuple(file for file in self.files if file.file_id != file_id))

    def encode(self) -> bytes:
        rows: list[list[str | int]] = [
            [
                file.file_id.hex(),
                file.version,
                file.nonce.hex(),
                file.length,
                file.data_digest.hex(),
                file.tags_digest.hex(),
                file.upload.hex(),
                file.in_place or "",
            ]
            for file in self.files
        ]
        points = [x.hex() for x in self.public.abscissas]
        return encoding.dump(_KIND, {"owner": self.owner.hex(), "points": points, "files": rows})

    @classmethod
    def decode(cls, content: bytes, name: str) -> Self:
        fields = encoding.load(_KIND, content, name)
        owner = fields.hex("owner", OWNER_BYTES)
        points = fields.items("points", 1, MAX_SECTORS)
        rows = fields.items("files", 0, MAX_FILES)
        fields.end()
        public = PublicKey(
            tuple(encoding.unhex(x, SCALAR_BYTES, f"{name}: a point") for x in points)
        )
        return cls(owner, public, tuple(_file(row, name) for row in rows))


def _file(value: object, name: str) -> FileRecord:
    row = encoding.row(value, f"{name}: a file", *_COLUMNS)
    return FileRecord(
        row.hex("file_id", FILE_ID_BYTES),
        row.integer("version", 1, MAX_VERSION),
        row.hex("nonce", NONCE_BYTES),
        row.integer("length", 0, MAX_LENGTH),
        row.hex("data_digest", HASH_BYTES),
        row.hex("tags_digest", HASH_BYTES),
        row.hex("upload", HASH_BYTES),
        row.string("in_place", MAX_PATH) or None,
    )
