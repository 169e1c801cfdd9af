"""A log as one file of lines that anyone can check. It is written and read as a stream.

    holdfast-evidence 1 SIZE VERIFIER      the format's version, the log's size, its key
    key HEX                                public keys of holdings, in the order of their ids
    checkpoint "TEXT"                      signed notes, in the order of size
    leaf {...}                             a leaf as the tree hashes it
    proof HEX                              sigma and mu, right after their leaf
    end HEX                                SHA-256 of all lines above

The last line shows that a bundle is complete. The other lines prove what it says.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Self

from holdfast import atomic, jsontext
from holdfast.errors import InputError, MalformedError
from holdfast.evidence.checkpoint import MAX_NOTE_BYTES
from holdfast.evidence.checkpoint_check import KnownRoot, root_in
from holdfast.evidence.leaf import MAX_LEAF_BYTES
from holdfast.evidence.log import Entry, Log
from holdfast.evidence.note import Verifier
from holdfast.pdp import PublicKey
from holdfast.pdp.field import MAX_SECTORS, SCALAR_BYTES

MAGIC = "holdfast-evidence 1"
MAX_LINE_BYTES = MAX_LEAF_BYTES + 64
# Which words may follow which: the sections in their order.
_NEXT = {
    "": {"key", "checkpoint", "leaf", "end"},
    "key": {"key", "checkpoint", "leaf", "end"},
    "checkpoint": {"checkpoint", "leaf", "end"},
    "leaf": {"leaf", "proof", "end"},
    "proof": {"leaf", "end"},
    "end": set(),
}

Line = tuple[str, bytes]


@dataclass(frozen=True)
class Bundle:
    """A log in a file. What is not a bundle is refused when opened, what is damaged when read."""

    path: Path
    size: int
    verifier: Verifier

    @classmethod
    def open(cls, path: Path) -> Self:
        line = _first_line(path)
        match = re.fullmatch(
            rf"{MAGIC} (0|[1-9]\d{{0,15}}) (\S+)\n", line.decode(errors="surrogateescape"), re.ASCII
        )
        if not match:
            raise MalformedError(f"{path} is not a bundle of evidence")
        return cls(path, int(match[1]), Verifier.decode(match[2]))

    def public_keys(self) -> Iterator[PublicKey]:
        last = b""
        for content in self._section("key"):
            points = _unhex(content, "a key")
            if not 1 <= len(points) // SCALAR_BYTES <= MAX_SECTORS or len(points) % SCALAR_BYTES:
                raise MalformedError(f"{self.path}: a key has no whole points")
            starts = range(0, len(points), SCALAR_BYTES)
            key = PublicKey(tuple(points[at : at + SCALAR_BYTES] for at in starts))
            _ = key.points  # raises unless they are on the curve
            if key.id <= last:
                raise MalformedError(f"{self.path}: the keys are not in the order of their ids")
            last = key.id
            yield key

    def checkpoints(self) -> Iterator[bytes]:
        for content in self._section("checkpoint"):
            try:
                text = jsontext.loads(content.decode("ascii"))
                canonical = isinstance(text, str) and _quoted(text) == content
            except (ValueError, RecursionError) as error:
                raise MalformedError(f"{self.path}: a checkpoint is no text") from error
            if not canonical:
                raise MalformedError(f"{self.path}: a checkpoint is not in its canonical form")
            yield text.encode("utf-8", "surrogatepass")

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        return islice(self._entries(), start, stop)

    def _entries(self) -> Iterator[Entry]:
        lines = (line for line in self._lines() if line[0] in {"leaf", "proof", "end"})
        for (word, content), (following, attached) in pairwise(lines):
            if word == "leaf":
                proof = _unhex(attached, "a proof") if following == "proof" else None
                yield Entry(content, proof)

    def _section(self, wanted: str) -> Iterator[bytes]:
        for word, content in self._lines():
            if word == wanted:
                yield content
            elif wanted not in _NEXT[word]:
                return

    def _lines(self) -> Iterator[Line]:
        """Yield every line after the first as its word and its content."""
        before = ""
        with self.path.open("rb") as file:
            digest = hashlib.sha256(file.readline(MAX_LINE_BYTES))
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 2):
                word, gap, content = line.removesuffix(b"\n").partition(b" ")
                name = word.decode("ascii", "replace")
                if not gap or not line.endswith(b"\n") or name not in _NEXT[before]:
                    raise MalformedError(
                        f"{self.path}: line {number} is out of place, cut off or damaged"
                    )
                if name == "end" and content != digest.hexdigest().encode():
                    raise MalformedError(f"{self.path} was edited: its last line does not fit")
                digest.update(line)
                before = name
                yield name, content
        if before != "end":
            raise MalformedError(f"{self.path} is cut off: its last line is missing")


def is_bundle(path: Path) -> bool:
    """Return whether the file begins as a bundle does."""
    return _first_line(path).startswith(MAGIC.encode())


def read_head(path: Path, verifier: Verifier) -> KnownRoot:
    """Return the head in a file from earlier: the last one of a bundle, or a checkpoint."""
    if not is_bundle(path):
        return root_in(atomic.read(path, at_most=MAX_NOTE_BYTES), verifier, str(path))
    heads = list(Bundle.open(path).checkpoints())
    if not heads:
        raise InputError(f"{path} contains no checkpoint")
    return root_in(heads[-1], verifier, str(path))


def write_bundle(
    log: Log, path: Path, on_progress: Callable[[int], Any] = lambda _leaves: None
) -> None:
    """Write the log as it stands into a new file, all of it or nothing."""
    with atomic.replacing(path, overwrite=False) as draft, draft.open("wb") as file:
        for count, line in bundle_lines(log):
            file.write(line)
            on_progress(count)


def bundle_lines(log: Log) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a log's bundle, with how many leaves are complete by then."""
    digest, count = hashlib.sha256(), 0
    for count, line in _body_lines(log):
        digest.update(line)
        yield count, line
    yield count, b"end %b\n" % digest.hexdigest().encode()


def _first_line(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.readline(MAX_LINE_BYTES)
    except OSError as error:
        raise InputError(f"can't read {path}: {error.strerror}") from error


def _body_lines(log: Log) -> Iterator[tuple[int, bytes]]:
    """Yield every line but the last, with how many leaves it completes."""
    yield 0, f"{MAGIC} {log.size} {log.verifier}\n".encode()
    for key in log.public_keys():
        yield 0, b"key %b\n" % b"".join(key.abscissas).hex().encode()
    for note in log.checkpoints():
        yield 0, b"checkpoint %b\n" % _quoted(note.decode())
    for count, entry in enumerate(log.entries(), 1):
        yield count, b"leaf %b\n" % entry.leaf
        if entry.proof is not None:
            yield count, b"proof %b\n" % entry.proof.hex().encode()


def _quoted(text: str) -> bytes:
    return json.dumps(text).encode("ascii")


def _unhex(content: bytes, what: str) -> bytes:
    try:
        decoded = bytes.fromhex(content.decode("ascii"))
    except ValueError as error:
        raise MalformedError(f"{what} is not hexadecimal") from error
    if decoded.hex().encode() != content:
        raise MalformedError(f"{what} is not in lower-case hexadecimal")
    return decoded
