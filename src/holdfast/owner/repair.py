"""Damaged blocks of a holding found, and put back from another replica or from the owner's copy.

Content that was tagged before has the same tag again. No tag is made for any other: before a
replaced tag leaves the owner, all tags of the file together must be those in the journal.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from holdfast.errors import RefusedError
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.owner.content import Progress
from holdfast.owner.download import runs_of
from holdfast.owner.holding import Holding
from holdfast.owner.replica import BLOCKS_AT_ONCE, Replica
from holdfast.pdp import Challenge, Location, Proof, locate
from holdfast.pdp.localisation import Span
from holdfast.pdp.readers import Range
from holdfast.pdp.tagfile import PAGE_TAGS, encode_pages

SPAN_BLOCKS = 1 << 14  # asked for at first: 8 MiB at 16 sectors a block
GRAIN_BLOCKS = 1 << 12  # looked at instead of halved: 2 MiB are there as soon as proofs


class Copy(Protocol):
    """Where plain bytes of a file may be had."""

    def read(self, ranges: Sequence[Range]) -> Sequence[bytes | None]: ...


@dataclass(frozen=True)
class LocalCopy:
    """The owner's own copy, of which the SHA-256 has been checked."""

    source: Location

    def read(self, ranges: Sequence[Range]) -> Sequence[bytes | None]:
        with self.source.open() as reader:
            return [bytes(part) for part in reader.read_many(ranges)]


@dataclass(frozen=True)
class Damaged:
    """The damaged blocks of one file, each with the tag that the node keeps, if it is legible."""

    replica: Replica
    tags: Mapping[int, bytes | None]

    @property
    def blocks(self) -> list[int]:
        return sorted(self.tags)


def find_damage(holding: Holding, progress: Progress = lambda _blocks: None) -> list[Damaged]:
    """Find the damaged blocks by proofs over spans, and by a look at the small ones that fail."""
    inventory = holding.inventory
    records = {file.file_id: file for file in holding.catalogue.files(holding.name)}
    replicas = [Replica(holding, records[entry.file_id]) for entry in inventory.files]
    found: dict[int, dict[int, bytes | None]] = {}

    def respond(challenge: Challenge) -> Proof | None:
        try:
            return holding.node.prove(holding.key_id, challenge).proof
        except NodeRefusedError as error:
            if error.code is Code.DAMAGED:
                return None
            raise

    def inspect(span: Span) -> Iterator[int]:
        at = int(np.searchsorted(inventory.starts, span[0], side="right")) - 1
        while at < len(replicas) and (first := int(inventory.starts[at])) < span[1]:
            blocks = inventory.files[at].blocks
            run = replicas[at].run(max(span[0] - first, 0), min(span[1] - first, blocks))
            damaged = run.damaged
            found.setdefault(at, {}).update(damaged)
            yield from (first + block for block in damaged)
            at += 1

    size = min(SPAN_BLOCKS, holding.node.facts().limits.samples)
    for start in range(0, inventory.blocks, size):
        span = (start, min(start + size, inventory.blocks))
        locate(holding.key, inventory, respond, span=span, grain=GRAIN_BLOCKS, inspect=inspect)
        progress(span[1])
    return [Damaged(replicas[at], tags) for at, tags in sorted(found.items()) if tags]


def mend(damaged: Damaged, copies: Sequence[Copy]) -> list[int]:
    """Put the blocks and their tags back; return the blocks that no copy has."""
    replica, holding = damaged.replica, damaged.replica.holding
    where = (holding.key_id, replica.file.file_id)
    lost: list[int] = []
    corrections: dict[int, bytes] = {}
    blocks = damaged.blocks
    for first in range(0, len(blocks), BLOCKS_AT_ONCE):
        wanted = blocks[first : first + BLOCKS_AT_ONCE]
        plain = _had(replica, wanted, copies)
        lost += [index for index in wanted if index not in plain]
        indices = sorted(plain)
        if not indices:
            continue
        stored = [replica.crypt(replica.span(i, i + 1)[0], plain[i]) for i in indices]
        content = b"".join(stored)
        rows = replica.rows(content, len(indices))
        right = replica.tagger.scattered(np.array(indices, np.int64), rows)
        holding.node.replace_blocks(*where, indices, content)
        for index, tag in zip(indices, right, strict=True):
            if damaged.tags[index] != tag.tobytes():
                corrections[index] = tag.tobytes()
    _correct(replica, corrections)
    return lost


def _had(replica: Replica, blocks: Sequence[int], copies: Sequence[Copy]) -> dict[int, bytes]:
    """Return what the copies have of these blocks, in plain."""
    found: dict[int, bytes] = {}
    for copy in copies:
        missing = [index for index in blocks if index not in found]
        if missing:
            parts = copy.read([replica.span(index, index + 1) for index in missing])
            pairs = zip(missing, parts, strict=True)
            found |= {index: part for index, part in pairs if part is not None}
    return found


def _correct(replica: Replica, corrections: Mapping[int, bytes]) -> None:
    """Replace these tags, if with them the file has the tags that it was given at first."""
    if not corrections:
        return
    holding, file = replica.holding, replica.file
    digest = hashlib.sha256()
    for start, stop in runs_of(replica):
        tags = replica.tags(start, stop)[0].copy()
        for index in range(start, stop):
            if index in corrections:
                tags[index - start] = np.frombuffer(corrections[index], np.uint8)
        digest.update(encode_pages(start // PAGE_TAGS, tags))
    if digest.digest() != holding.journal.digest(file.file_id, file.version):
        raise RefusedError(
            f"the tags of {file.name!r} can't be replaced, for some would be of other content than "
            "was tagged: put the file again"
        )
    indices = sorted(corrections)
    for first in range(0, len(indices), BLOCKS_AT_ONCE):
        part = indices[first : first + BLOCKS_AT_ONCE]
        content = b"".join(corrections[index] for index in part)
        holding.node.replace_tags(holding.key_id, file.file_id, part, content)
