"""The interface of a log of evidence for exporting, verifying and reading it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from holdfast.evidence.note import Verifier
from holdfast.pdp import PublicKey


@dataclass(frozen=True)
class Entry:
    """A leaf as the tree hashes it, and its proof, unless it has none or that was deleted."""

    leaf: bytes
    proof: bytes | None


class Log(Protocol):
    """A log up to its last checkpoint. Every iterator can be had again, and streams."""

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
    """A log without its proofs, which are equations over the data."""

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
