"""Checkpoints as C2SP defines them (c2sp.org/tlog-checkpoint): a log's size and root, signed.

Once a root is anchored on a ledger, it is signed again with an extension line that says where, so
that everything about an anchor is signed. Another line names the head that was signed before, by
the SHA-256 of its note, so that none can be left out.
"""

import hashlib
from dataclasses import dataclass, replace
from typing import Self

from holdfast.errors import MalformedError
from holdfast.evidence.note import Note, Signer, Verifier, from_base64, to_base64
from holdfast.evidence.tree import HASH_BYTES
from holdfast.ledger.interface import Domain
from holdfast.pdp.encoding import unhex

MAX_LEAVES = 2**53 - 1
MAX_NOTE_BYTES = 64 * 1024
_ANCHORED, _AFTER = "anchored", "after"


@dataclass(frozen=True)
class Anchor:
    """Where a root stands on a ledger."""

    ledger: Domain
    transaction: bytes
    block: int

    def encode(self) -> str:
        where = f"{self.ledger.chain} {self.ledger.contract.hex()}"
        return f"{_ANCHORED} {where} {self.transaction.hex()} {self.block}"

    @classmethod
    def decode(cls, line: str, name: str = "anchor") -> Self:
        parts = line.split(" ")
        if len(parts) != 5:
            raise MalformedError(f"{name} does not say where it is anchored")
        _, chain, contract, transaction, block = parts
        ledger = Domain(_decimal(chain, name), unhex(contract, 20, f"{name}: the contract"))
        where = unhex(transaction, 32, f"{name}: the transaction")
        return cls(ledger, where, _decimal(block, name))


@dataclass(frozen=True)
class Checkpoint:
    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lines = (self.origin, *self.extensions)
        if not all(line and "\n" not in line for line in lines):
            raise MalformedError("a line of a checkpoint is empty")

    @property
    def anchor(self) -> Anchor | None:
        line = self._extension(_ANCHORED)
        return Anchor.decode(line) if line else None

    @property
    def after(self) -> bytes | None:
        """The name of the head that was signed before this one; the first has none."""
        line = self._extension(_AFTER)
        return unhex(line.removeprefix(f"{_AFTER} "), 32, "the head before it") if line else None

    def following(self, note: bytes | None) -> Self:
        """Return the checkpoint as the one that is signed after that note."""
        if note is None:
            return self
        line = f"{_AFTER} {head_name(note).hex()}"
        return replace(self, extensions=(*self.extensions, line))

    def _extension(self, word: str) -> str | None:
        lines = [line for line in self.extensions if line.split(" ")[0] == word]
        return lines[0] if lines else None

    def encode(self) -> str:
        return "\n".join((self.origin, str(self.size), to_base64(self.root), *self.extensions, ""))

    @classmethod
    def decode(cls, text: str, name: str = "checkpoint") -> Self:
        lines = text.removesuffix("\n").split("\n")
        if len(lines) < 3 or not text.endswith("\n"):
            raise MalformedError(f"{name} has not the lines origin, size and root")
        origin, size, root, *extensions = lines
        decoded = from_base64(root, f"{name}: the root")
        if len(decoded) != HASH_BYTES:
            raise MalformedError(f"{name}: the root has not {HASH_BYTES} bytes")
        return cls(origin, _decimal(size, name), decoded, tuple(extensions))

    def sign(self, signer: Signer) -> bytes:
        return signer.sign(self.encode())


def head_name(note: bytes) -> bytes:
    return hashlib.sha256(note).digest()


def with_anchor(checkpoint: Checkpoint, anchor: Anchor) -> Checkpoint:
    """Return the same head with a line that says where its root is anchored."""
    return Checkpoint(checkpoint.origin, checkpoint.size, checkpoint.root, (anchor.encode(),))


def open_checkpoint(content: bytes, verifier: Verifier, name: str = "checkpoint") -> Checkpoint:
    """Return what was signed; refuse it unless this key alone signed it, for its own log."""
    note = Note.decode(content, name)
    if not verifier.signed(note):
        raise MalformedError(f"{name} is not signed by {verifier}")
    if len(note.signatures) != 1:
        raise MalformedError(f"{name} has signatures that nobody here can check")
    checkpoint = Checkpoint.decode(note.text, name)
    if checkpoint.origin != verifier.name:
        raise MalformedError(f"{name} is of the log {checkpoint.origin}, not {verifier.name}")
    return checkpoint


def _decimal(text: str, name: str) -> int:
    # Longer texts are not even parsed.
    if len(text) > 16 or not text.isascii() or not text.isdigit() or str(int(text)) != text:
        raise MalformedError(f"{name} has a number that is not in canonical decimal")
    value = int(text)
    if value > MAX_LEAVES:
        raise MalformedError(f"{name} has a number above {MAX_LEAVES}")
    return value
