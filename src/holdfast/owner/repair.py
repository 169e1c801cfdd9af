"""Finds a holding's damaged blocks, and restores them from another replica or the owner's copy.

The same content always has the same tag, and no other content is ever sent: before a replaced tag
leaves the owner, all tags of the file together must have the SHA-256 in the catalogue.
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
from holdfast.owner.replica import BLOCKS_AT_ONCE, BlockTags, Replica
from holdfast.pdp import Challenge, Location, Proof, locate
from holdfast.pdp.localisation import Span
from holdfast.pdp.readers import Range
from holdfast.pdp.tagfile import PAGE_TAGS, encode_pages

SPAN_BLOCKS = 1 << 14  # per proof at first: 8 MiB at 16 sectors a block
GRAIN_BLOCKS = 1 << 12  # read instead of halved: 2 MiB arrive as fast as the proofs would


class Copy(Protocol):
    """A source of a file's plain bytes."""

    def read(self, ranges: Sequence[Range]) -> Sequence[bytes | None]: ...


@dataclass(frozen=True)
class LocalCopy:
    """The owner's own copy, of which the SHA-256 has been checked."""

    source: Location

    def read(self, ranges: Sequence[Range]) -> Sequence[bytes | None]:
        with self.source.open() as reader:
            return [bytes(part) for part in reader.read_many(ranges)]


@dataclass(frozen=True)
class DamagedFile:
    """The damaged blocks of one file, with the tags that the node has of them."""

    replica: Replica
    tags: Mapping[int, BlockTags]

    @property
    def blocks(self) -> list[int]:
        return sorted(self.tags)


def find_damage(
    holding: Holding, on_progress: Progress = lambda _blocks: None, *, within: Span | None = None
) -> list[DamagedFile]:
    """Find the damaged blocks by proofs over spans, and by reading small spans that fail."""
    inventory = holding.inventory
    records = {file.file_id: file for file in holding.catalogue.files(holding.name)}
    replicas = [Replica(holding, records[entry.file_id]) for entry in inventory.files]
    damaged_in: dict[int, dict[int, BlockTags]] = {}  # by the file's position in the inventory

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
            damaged_in.setdefault(at, {}).update(damaged)
            yield from (first + block for block in damaged)
            at += 1

    size = min(SPAN_BLOCKS, holding.node.facts().limits.samples)
    whole = within or (0, inventory.blocks)
    for start in range(*whole, size):
        span = (start, min(start + size, whole[1]))
        locate(holding.key, inventory, respond, span=span, grain=GRAIN_BLOCKS, inspect=inspect)
        on_progress(span[1])
    return [DamagedFile(replicas[at], tags) for at, tags in sorted(damaged_in.items()) if tags]


def repair_file(damaged: DamagedFile, copies: Sequence[Copy]) -> list[int]:
    """Restore the blocks and their tags; return the blocks that no copy has.

    Content is sent only when it is known to be what was tagged: because the node stores its tag, or
    because with its tag the file has all the tags that it had at first.
    """
    replica, stored = damaged.replica, damaged.tags
    lost, corrections = restore_blocks(damaged, copies)
    if corrections:
        _check_tags(replica, corrections)
        gone = [i for i, tag in corrections.items() if stored[i].content_tag != tag]
        for offer in _offers(replica, gone, copies):
            _replace_blocks(
                replica, offer, [i for i in offer.tags if offer.tags[i] == corrections[i]]
            )
        _replace_tags(replica, corrections)
    return lost


def restore_blocks(
    damaged: DamagedFile, copies: Sequence[Copy]
) -> tuple[list[int], dict[int, bytes]]:
    """Restore the blocks whose tag the node has.

    Return the blocks that no copy has, and the tags that the rest should have.
    """
    replica, stored = damaged.replica, damaged.tags
    restorable: set[int] = set()
    corrections: dict[int, bytes] = {}
    for offer in _offers(replica, damaged.blocks, copies):
        restorable |= offer.tags.keys()
        _replace_blocks(
            replica, offer, [i for i, tag in offer.tags.items() if stored[i].tag == tag]
        )
        corrections |= {i: tag for i, tag in offer.tags.items() if stored[i].tag != tag}
    return [index for index in damaged.blocks if index not in restorable], corrections


def recheck_blocks(replica: Replica, blocks: Sequence[int]) -> DamagedFile:
    """Look at these ascending blocks again; return which of them are damaged now."""
    tags: dict[int, BlockTags] = {}
    for start, stop in spans_of(blocks):
        for at in range(start, stop, GRAIN_BLOCKS):
            tags |= replica.run(at, min(at + GRAIN_BLOCKS, stop)).damaged
    return DamagedFile(replica, tags)


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
        content: dict[int, bytes] = {}
        for copy in copies:
            missing = [i for i in blocks[first : first + BLOCKS_AT_ONCE] if i not in content]
            spans = [replica.span(index, index + 1) for index in missing]
            for index, (offset, _), part in zip(missing, spans, copy.read(spans), strict=True):
                if part is not None:
                    content[index] = replica.crypt(offset, part)
        if content:
            stored = dict(sorted(content.items()))
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
            f"the tags of {file.name!r} can't be replaced: some would belong to content that was "
            "never tagged. Put the file again"
        )
