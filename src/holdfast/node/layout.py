"""Where a holding's objects lie: `owner/key/holding.json`, and a prefix per upload."""

from dataclasses import dataclass
from enum import StrEnum

from holdfast.node.objects import Objects
from holdfast.node.segments import SEGMENT_BYTES, SegmentedReader


class Part(StrEnum):
    """What a file is stored as."""

    DATA = "data"
    TAGS = "tags"


@dataclass(frozen=True)
class Layout:
    """One holding's prefix in the node's objects."""

    objects: Objects
    owner: bytes
    key_id: bytes
    segment_bytes: int = SEGMENT_BYTES

    @property
    def prefix(self) -> str:
        return f"{self.owner.hex()}/{self.key_id.hex()}"

    @property
    def document(self) -> str:
        return f"{self.prefix}/holding.json"

    def upload(self, upload: bytes) -> str:
        return f"{self.prefix}/{upload.hex()}"

    def request(self, upload: bytes) -> str:
        return f"{self.upload(upload)}/upload.json"

    def segment(self, upload: bytes, part: Part, number: int) -> str:
        return f"{self.upload(upload)}/{part}.{number:08}"

    def reader(self, upload: bytes, part: Part, length: int) -> SegmentedReader:
        name = f"{self.objects.address}/{self.upload(upload)}/{part}"
        return SegmentedReader(
            self.objects,
            name,
            lambda number: self.segment(upload, part, number),
            length,
            self.segment_bytes,
        )
