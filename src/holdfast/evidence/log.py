"""What a log of evidence offers to whoever exports, verifies or reads it, wherever it is kept."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from holdfast.evidence.note import Verifier
from holdfast.pdp import PublicKey


@dataclass(frozen=True)
class Entry:
    """A leaf as the tree hashes it, and the proof beside it unless there is none, or no more."""

    leaf: bytes
    proof: bytes | None


class Log(Protocol):
    """A log up to its last checkpoint. Each iterator can be had again, and streams."""

    @property
    def verifier(self) -> Verifier: ...
    @property
    def size(self) -> int: ...

    def public_keys(self) -> Iterator[PublicKey]:
        """Yield the public keys that leaves name, in the order of their ids."""

    def checkpoints(self) -> Iterator[bytes]:
        """Yield the signed checkpoints, those with anchors among them, in the order of size."""

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """Yield the leaves from index `start` up to `stop`."""


@dataclass(frozen=True)
class WithoutProofs:
    """A log to give away where the proofs, which are equations over the data, shall stay."""

    log: Log

    @property
    def verifier(self) -> Verifier:
        return self.log.verifier

    @property
    def size(self) -> int:
        return self.log.size

    def public_keys(self) -> Iterator[PublicKey]:
        return self.log.public_keys()

    def checkpoints(self) -> Iterator[bytes]:
        return self.log.checkpoints()

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        return (Entry(entry.leaf, None) for entry in self.log.entries(start, stop))
