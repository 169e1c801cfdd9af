"""Restores damaged blocks, a segment at a time, from another replica or the owner's copy.

The same content always has the same tag, and no other content is ever sent: before a replaced tag
leaves the owner, all tags of the file together must have the SHA-256 in the catalogue.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import NodeError, RefusedError
from holdfast.node.lanes import run_in_lanes
from holdfast.node.wire import NodeRefusedError, RepairTarget
from holdfast.owner.fingerprint import Progress
from holdfast.owner.localisation import DamagedFile
from holdfast.owner.replica import MAX_SPANS, Excerpt, Mask, Replica
from holdfast.pdp import Location
from holdfast.pdp.limbs import Bytes
from holdfast.pdp.readers import Range
from holdfast.pdp.spans import EMPTY, Span, Spans
from holdfast.pdp.tagfile import PAGE_TAGS, encode_pages

T = TypeVar("T")

GAP_BLOCKS = 8  # between damaged blocks: as many are moved with them, in fewer spans
LANES = 4  # windows that are repaired side by side; a node takes eight bodies at once


class Copy(Protocol):
    """A source of a file's plain bytes."""

    def excerpt(self, ranges: Sequence[Range]) -> Excerpt: ...


@dataclass(frozen=True)
class LocalCopy:
    """The owner's own copy, of which the SHA-256 has been checked."""

    source: Location

    def excerpt(self, ranges: Sequence[Range]) -> Excerpt:
        with self.source.open() as reader:
            return Excerpt([bytes(part) for part in reader.read_many(ranges)])


class Copies:
    """The copies of one file. Those that had the most are asked first, those that fail no more."""

    def __init__(self, copies: Iterable[Copy]) -> None:
        self._missed: dict[int, int] = {}  # blocks that were asked for in vain, by the copy's place
        self._copies = list(copies)
        self._lock = Lock()
        self.errors: dict[int, str] = {}  # of copies that can't be asked, by their place

    def order(self) -> list[int]:
        """Return the places of the copies, the one to ask first at the beginning."""
        with self._lock:
            usable = [at for at in range(len(self._copies)) if at not in self.errors]
            return sorted(usable, key=lambda at: self._missed.get(at, 0))

    def read(self, at: int, ranges: Sequence[Range]) -> Excerpt | None:
        """Return these ranges; None if that copy refuses or can't be reached."""
        return self._ask(at, lambda: self._copies[at].excerpt(ranges))

    def find_doubtful(self, at: int, excerpt: Excerpt) -> Spans | None:
        """Return which bytes of an excerpt its copy doesn't confirm; None if it can't be asked."""
        return self._ask(at, excerpt.find_doubtful)

    def _ask(self, at: int, ask: Callable[[], T]) -> T | None:
        try:
            return ask()
        except (NodeError, NodeRefusedError) as error:
            with self._lock:
                self.errors[at] = str(error)
            return None

    def count_missed(self, at: int, blocks: int) -> None:
        with self._lock:
            self._missed[at] = self._missed.get(at, 0) + blocks

    def check_reachable(self) -> None:
        """Raise if a copy couldn't be asked: it may have what the others lack."""
        if self.errors:
            raise NodeError(f"a replica can't be asked: {min(self.errors.values())}")


@dataclass(frozen=True)
class Restored:
    """What became of some damaged blocks. The rest of them has been put back."""

    blocks: Spans
    lost: Spans  # no copy has them
    untagged: Spans  # a copy has them, but their tags at the node are wrong as well


@dataclass(frozen=True)
class Offer:
    """What copies have of some blocks: their stored form, one per row, and the tags of it."""

    blocks: NDArray[np.int64]
    rows: Bytes
    tags: Bytes
    right: Mask  # a copy confirms it, or the tag that the node stores
    tagged: Mask  # the node stores that tag, and can read it

    def spans(self, mask: Mask) -> Spans:
        return Spans.of_blocks(self.blocks[mask])


class FileRepair:
    """The repair of one file on one node. Several threads may restore blocks at once."""

    def __init__(self, replica: Replica, copies: Copies) -> None:
        self._replica, self._copies = replica, copies
        file, holding = replica.file, replica.holding
        # Other files of the holding may have changed since the last repair.
        self._target = RepairTarget(file.file_id, file.version, holding.inventory.hash)

    def windows(self, blocks: Spans) -> Iterator[Spans]:
        """Divide damaged blocks into as many as are restored at once."""
        for part in self._replica.divide(blocks.coalesce(GAP_BLOCKS)):
            yield blocks.within(*part.hull)

    def restore(self, blocks: Spans) -> Restored:
        """Put back those of the blocks of one window whose tag the node has.

        Blocks in small gaps between them are sent as well: they are what the node has.
        """
        offer = self._gather(blocks.coalesce(GAP_BLOCKS))
        self._send_blocks(offer, offer.tagged)
        damaged = np.isin(offer.blocks, blocks.blocks, assume_unique=True)
        lost = offer.spans(damaged & ~offer.right)
        if lost:
            self._copies.check_reachable()
        return Restored(blocks, lost, offer.spans(damaged & offer.right & ~offer.tagged))

    def restore_tags(self, untagged: Spans) -> Spans:
        """Replace the tags of these blocks, and the blocks; return those that no copy has.

        Nothing is sent before all tags of the file, with the replaced ones, are known to be those
        that it was given at first. Every window is made again to be sent, and must be the same.
        """
        replica = self._replica
        size, blocks = replica.window_blocks, replica.header.blocks
        windows = [(start, min(start + size, blocks)) for start in range(0, blocks, size)]
        digest = hashlib.sha256(replica.header.encode())
        approved: dict[Spans, bytes] = {}
        lost: list[Spans] = []

        def correct(window: Span) -> tuple[Span, Bytes, list[tuple[Spans, Offer]]]:
            tags = replica.tags(*window)[0].copy()
            offers = [
                (part, self._gather(part))
                for part in untagged.within(*window).split(size, MAX_SPANS)
            ]
            for _, offer in offers:
                tags[offer.blocks[offer.right] - window[0]] = offer.tags[offer.right]
            return window, tags, offers

        for window, tags, offers in run_in_lanes(correct, windows, LANES):
            digest.update(encode_pages(window[0] // PAGE_TAGS, tags))
            for part, offer in offers:
                approved[part] = _digest_of(offer)
                lost.append(offer.spans(~offer.right))
        if digest.digest() != replica.file.tags_sha256:
            raise _never_tagged(replica)
        for _ in run_in_lanes(lambda item: self._replace(*item), approved.items(), LANES):
            pass
        return EMPTY.join(*lost)

    def _replace(self, blocks: Spans, approved: bytes) -> None:
        """Send the tags of these blocks, after the content of those that the node has lost."""
        offer = self._gather(blocks)
        if _digest_of(offer) != approved:
            raise _never_tagged(self._replica)
        stored = self._replica.fetch_blocks(blocks)
        gone = (stored.content_tags != offer.tags).any(axis=1)
        self._send_blocks(offer, offer.right & gone)
        node, key_id = self._replica.holding.node, self._replica.holding.key_id
        for part in self._replica.divide(offer.spans(offer.right)):
            tags = offer.tags[np.searchsorted(offer.blocks, part.blocks)]
            node.replace_tags(key_id, self._target, part, tags.tobytes())

    def _gather(self, blocks: Spans) -> Offer:
        """Take these blocks from the copies, each block from the first copy that has it."""
        replica, numbers = self._replica, blocks.blocks
        stored, legible = replica.tags_of(blocks)
        rows: Bytes = np.zeros((len(numbers), replica.block_bytes), np.uint8)
        tags: Bytes = np.zeros_like(stored)
        right: Mask = np.zeros(len(numbers), np.bool_)
        missing = blocks
        for copy in self._copies.order():
            ranges = [replica.span(*span) for span in missing]
            excerpt = self._copies.read(copy, ranges) if missing else None
            if excerpt is None:
                continue
            content = b"".join(
                replica.crypt(offset, part)
                for (offset, _), part in zip(ranges, excerpt.parts, strict=True)
            )
            wanted = missing.blocks
            at = np.searchsorted(numbers, wanted)
            offered = replica.rows(content, len(wanted))
            offered_tags = replica.compute_tags(wanted, offered)
            good = (offered_tags == stored[at]).all(axis=1)
            if not good.all():  # else the copy's own tags are not needed
                good |= self._confirmed(wanted, self._copies.find_doubtful(copy, excerpt))
            rows[at[good]], tags[at[good]], right[at[good]] = (
                offered[good],
                offered_tags[good],
                True,
            )
            missing = Spans.of_blocks(wanted[~good])
            self._copies.count_missed(copy, missing.count)
        tagged = right & legible & (tags == stored).all(axis=1)
        return Offer(numbers, rows, tags, right, tagged)

    def _confirmed(self, blocks: NDArray[np.int64], doubtful: Spans | None) -> Mask:
        """Return which of these blocks a copy confirms, given the bytes that it doesn't."""
        if doubtful is None:
            return np.zeros(len(blocks), np.bool_)
        size, first = self._replica.block_bytes, int(blocks[0])
        confirmed: Mask = np.ones(int(blocks[-1]) + 1 - first, np.bool_)
        for start, stop in doubtful:
            confirmed[max(start // size - first, 0) : max(-(-stop // size) - first, 0)] = False
        return confirmed[blocks - first]

    def _send_blocks(self, offer: Offer, mask: Mask) -> None:
        replica = self._replica
        holding, last = replica.holding, replica.header.blocks - 1
        padding = replica.block_bytes - replica.span(last, last + 1)[1]
        for part in replica.divide(offer.spans(mask)):
            content = offer.rows[np.searchsorted(offer.blocks, part.blocks)].tobytes()
            if part.hull[1] > last:
                content = content[: len(content) - padding]
            holding.node.replace_blocks(holding.key_id, self._target, part, content)


def repair_file(
    damaged: DamagedFile,
    copies: Iterable[Copy],
    on_progress: Progress = lambda _blocks: None,
) -> Spans:
    """Restore the blocks and their tags; return the blocks that no copy has.

    Content is sent only when it is known to be what was tagged: because the node stores its tag, or
    because with its tag the file has all the tags that it had at first. `on_progress` gets the
    number of blocks done.
    """
    repair = FileRepair(damaged.replica, Copies(copies))
    done, lost, untagged = 0, [], []
    for restored in run_in_lanes(repair.restore, repair.windows(damaged.blocks), LANES):
        lost.append(restored.lost)
        untagged.append(restored.untagged)
        done += restored.blocks.count - restored.untagged.count
        on_progress(done)
    if any(untagged):
        lost.append(repair.restore_tags(EMPTY.join(*untagged)))
        on_progress(damaged.blocks.count)
    return EMPTY.join(*lost)


def _digest_of(offer: Offer) -> bytes:
    """Return what an offer is known by when it is made again."""
    return hashlib.sha256(offer.right.tobytes() + offer.tags[offer.right].tobytes()).digest()


def _never_tagged(replica: Replica) -> RefusedError:
    return RefusedError(
        f"the tags of {replica.file.name!r} can't be replaced: some would belong to content that "
        "was never tagged. Put the file again"
    )
