"""Says which bytes of which file are lost."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from holdfast.owner.replica import Replica
from holdfast.pdp.spans import Span, Spans

MAX_RANGES = 8  # that a sentence names
MAX_STORED_RANGES = 1000  # of a file


@dataclass(frozen=True)
class FileLoss:
    """The lost part of one file; `ranges` hold bytes, from the first up to the second."""

    file: str
    blocks: int
    ranges: tuple[Span, ...]
    more: int = 0  # ranges that are left out

    @classmethod
    def of(cls, replica: Replica, lost: Spans) -> "FileLoss":
        name = replica.file.name.encode("utf-8", "backslashreplace").decode()
        return cls(name, lost.count, replica.byte_spans(lost).spans)

    def describe(self) -> str:
        """Return the file and its lost bytes in words."""
        ranges = [f"{start:,} to {stop - 1:,}" for start, stop in self.ranges[:MAX_RANGES]]
        if more := len(self.ranges) - len(ranges) + self.more:
            ranges.append(f"{more:,} more range{'' if more == 1 else 's'}")
        return f"{self.file}, bytes {_enumerate(ranges)}" if ranges else self.file


def describe_losses(losses: Iterable[FileLoss]) -> str:
    return "; ".join(loss.describe() for loss in losses)


def encode_losses(losses: Iterable[FileLoss]) -> bytes:
    """Return the losses as they are stored, each with as many ranges as a page can show."""
    return json.dumps([vars(_shorten(loss)) for loss in losses]).encode()


def decode_losses(content: bytes) -> tuple[FileLoss, ...]:
    return tuple(
        FileLoss(**loss | {"ranges": tuple((start, stop) for start, stop in loss["ranges"])})
        for loss in json.loads(content)
    )


def _shorten(loss: FileLoss) -> FileLoss:
    ranges = loss.ranges[:MAX_STORED_RANGES]
    return replace(loss, ranges=ranges, more=loss.more + len(loss.ranges) - len(ranges))


def _enumerate(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
