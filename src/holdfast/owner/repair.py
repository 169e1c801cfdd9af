"""Damaged blocks of a holding found, and put back from another replica or from the owner's copy.

Content that was tagged before has the same tag again. Nothing is ever sent for any other: before a
replaced tag leaves the owner, all tags of the file together must have the SHA-256 in the catalogue.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from holdfast.errors import RefusedError
from holdfast.node.wire import Code, NodeRefusedError, RepairTarget
from holdfast.owner.download import runs_of
from holdfast.owner.fingerprint import Progress
from holdfast.owner.holding import Holding
from holdfast.owner.replica import BLOCKS_AT_ONCE, Kept, Replica
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
    """The damaged blocks of one file, with what the node keeps of them."""

    replica: Replica
    kept: Mapping[int, Kept]

    @property
    def blocks(self) -> list[int]:
        return sorted(self.kept)


def find_damage(
    holding: Holding, progress: Progress = lambda _blocks: None, *, within: Span | None = None
) -> list[Damaged]:
    """Find the damaged blocks by proofs over spans, and by a look at the small ones that fail."""
    inventory = holding.inventory
    records = {file.file_id: file for file in holding.catalogue.files(holding.name)}
    replicas = [Replica(holding, records[entry.file_id]) for entry in inventory.files]
    found: dict[int, dict[int, Kept]] = {}

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
    whole = within or (0, inventory.blocks)
    for start in range(*whole, size):
        span = (start, min(start + size, whole[1]))
        locate(holding.key, inventory, respond, span=span, grain=GRAIN_BLOCKS, inspect=inspect)
        progress(span[1])
    return [Damaged(replicas[at], kept) for at, kept in sorted(found.items()) if kept]


def mend(damaged: Damaged, copies: Sequence[Copy]) -> list[int]:
    """Put the blocks and their tags back; return the blocks that no copy has.

    Content goes out only once it is sure to be what was tagged: because the node's tag is its own,
    or because with its tag the file has all the tags that it was given at first.
    """
    replica, kept = damaged.replica, damaged.kept
    lost, corrections = put_back(damaged, copies)
    if corrections:
        _check_tags(replica, corrections)
        gone = [i for i, tag in corrections.items() if kept[i].content_tag != tag]
        for offer in _offers(replica, gone, copies):
            _replace_blocks(
                replica, offer, [i for i in offer.tags if offer.tags[i] == corrections[i]]
            )
        _replace_tags(replica, corrections)
    return lost


def put_back(damaged: Damaged, copies: Sequence[Copy]) -> tuple[list[int], dict[int, bytes]]:
    """Put those blocks back of which the node has the tag.

    Return the blocks that no copy has, and the tags that the rest should have.
    """
    replica, kept = damaged.replica, damaged.kept
    found: set[int] = set()
    corrections: dict[int, bytes] = {}
    for offer in _offers(replica, damaged.blocks, copies):
        found |= offer.tags.keys()
        _replace_blocks(replica, offer, [i for i, tag in offer.tags.items() if kept[i].tag == tag])
        corrections |= {i: tag for i, tag in offer.tags.items() if kept[i].tag != tag}
    return [index for index in damaged.blocks if index not in found], corrections


def still_damaged(replica: Replica, blocks: Sequence[int]) -> Damaged:
    """Look at these ascending blocks again; return which of them are damaged now."""
    kept: dict[int, Kept] = {}
    for start, stop in spans_of(blocks):
        for at in range(start, stop, GRAIN_BLOCKS):
            kept |= replica.run(at, min(at + GRAIN_BLOCKS, stop)).damaged
    return Damaged(replica, kept)


def spans_of(blocks: Sequence[int]) -> list[Span]:
    """Return the runs of neighbours among ascending blocks."""
    numbers = np.asarray(blocks, np.int64)
    borders = np.flatnonzero(np.diff(numbers) != 1) + 1
    runs = np.split(numbers, borders) if len(numbers) else []
    return [(int(run[0]), int(run[-1]) + 1) for run in runs]


@dataclass(frozen=True)
class Offer:
    """Blocks that copies have, in stored form, with the tags that go with them."""

    blocks: Mapping[int, bytes]
    tags: Mapping[int, bytes]


def _offers(replica: Replica, blocks: Sequence[int], copies: Sequence[Copy]) -> Iterator[Offer]:
    """Yield what the copies have of these ascending blocks, some at a time."""
    for first in range(0, len(blocks), BLOCKS_AT_ONCE):
        found: dict[int, bytes] = {}
        for copy in copies:
            missing = [i for i in blocks[first : first + BLOCKS_AT_ONCE] if i not in found]
            spans = [replica.span(index, index + 1) for index in missing]
            for index, (offset, _), part in zip(missing, spans, copy.read(spans), strict=True):
                if part is not None:
                    found[index] = replica.crypt(offset, part)
        if found:
            stored = dict(sorted(found.items()))
            yield Offer(stored, replica.tags_for(list(stored), b"".join(stored.values())))


def _replace_blocks(replica: Replica, offer: Offer, indices: Sequence[int]) -> None:
    if indices:
        content = b"".join(offer.blocks[index] for index in indices)
        holding = replica.holding
        holding.node.replace_blocks(holding.key_id, _target(replica), indices, content)


def _replace_tags(replica: Replica, tags: Mapping[int, bytes]) -> None:
    holding, indices = replica.holding, sorted(tags)
    for first in range(0, len(indices), BLOCKS_AT_ONCE):
        part = indices[first : first + BLOCKS_AT_ONCE]
        content = b"".join(tags[index] for index in part)
        holding.node.replace_tags(holding.key_id, _target(replica), part, content)


def _target(replica: Replica) -> RepairTarget:
    """Return what a repair is for: other files of the holding may have changed since the last."""
    file = replica.file
    return RepairTarget(file.file_id, file.version, replica.holding.inventory.hash)


def _check_tags(replica: Replica, corrections: Mapping[int, bytes]) -> None:
    """Raise unless with these tags the file has those that it was given at first."""
    file, digest = replica.file, hashlib.sha256(replica.header.encode())
    for start, stop in runs_of(replica):
        tags = replica.tags(start, stop)[0].copy()
        for index in range(start, stop):
            if index in corrections:
                tags[index - start] = np.frombuffer(corrections[index], np.uint8)
        digest.update(encode_pages(start // PAGE_TAGS, tags))
    if digest.digest() != file.tags_sha256:
        raise RefusedError(
            f"the tags of {file.name!r} can't be replaced, for some would be of other content than "
            "was tagged: put the file again"
        )
