"""Finds the damaged blocks of a holding: by proofs over spans, and by reading spans that fail.

Spans are examined side by side. Where most blocks are damaged, the next span is read at once: the
proofs would all fail, and cost the node as much as reading. Of a direct holding those objects are
read that an audit named or that a listing shows to have changed, and all if there are none.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from threading import BoundedSemaphore

import numpy as np

from holdfast.node.lanes import run_in_lanes
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.owner.direct.client import DirectClient
from holdfast.owner.fingerprint import Progress
from holdfast.owner.holding import Holding
from holdfast.owner.replica import Replica
from holdfast.pdp import Challenge, Proof, locate
from holdfast.pdp.spans import EMPTY, Span, Spans

SPAN_BLOCKS = 1 << 14  # per proof at first: 8 MiB at 16 sectors a block
GRAIN_BLOCKS = 1 << 12  # read instead of halved: 2 MiB arrive as fast as the proofs would
LANES = 3  # spans that are examined side by side


@dataclass(frozen=True)
class DamagedFile:
    """The damaged blocks of one file."""

    replica: Replica
    blocks: Spans


@dataclass(frozen=True)
class Examined:
    """A span of the holding, and the damaged blocks of each file in it."""

    span: Span
    damage: list[DamagedFile]


class DamageSearch:
    """Examines a holding span by span."""

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self.inventory = holding.inventory
        records = {file.file_id: file for file in holding.catalogue.files(holding.name)}
        self._replicas = [
            Replica(holding, records[entry.file_id]) for entry in self.inventory.files
        ]
        limits = holding.node.facts().limits
        self._span_blocks = min(SPAN_BLOCKS, limits.samples)
        # One of the node's slots is left to audits.
        self._proving = BoundedSemaphore(max(1, limits.proofs_at_once - 1))
        self._mostly_damaged = False  # the span that was examined last
        # A proof of a direct holding reads as much as we do, so each span is read at once.
        self._direct = isinstance(holding.node, DirectClient)
        self._suspects = holding.node.suspects() if isinstance(holding.node, DirectClient) else None

    def run(
        self, within: Span | None = None, *, wants_more: Callable[[], bool] = lambda: True
    ) -> Iterator[Examined]:
        """Yield one span after another, until there are no more or no more are wanted."""
        first, end = within or (0, self.inventory.blocks)
        size = self._span_blocks
        spans = ((start, min(start + size, end)) for start in range(first, end, size))
        return run_in_lanes(self.examine, takewhile(lambda _: wants_more(), spans), LANES)

    def examine(self, span: Span) -> Examined:
        if self._mostly_damaged or self._direct:
            damage = self._read(span)
        else:
            damage = []

            def inspect(part: Span) -> Iterator[int]:
                for at, file in self._read_files(part):
                    damage.append(file)
                    yield from (file.blocks.blocks + int(self.inventory.starts[at])).tolist()

            key, inventory = self._holding.key, self.inventory
            locate(key, inventory, self._respond, span=span, grain=GRAIN_BLOCKS, inspect=inspect)
        damaged = sum(file.blocks.count for file in damage)
        self._mostly_damaged = 2 * damaged >= span[1] - span[0]
        return Examined(span, damage)

    def _read(self, span: Span) -> list[DamagedFile]:
        return [file for _, file in self._read_files(span)]

    def _read_files(self, span: Span) -> Iterator[tuple[int, DamagedFile]]:
        """Yield the damaged files of a span, with their positions in the inventory."""
        starts, files = self.inventory.starts, self.inventory.files
        at = int(np.searchsorted(starts, span[0], side="right")) - 1
        while at < len(files) and (first := int(starts[at])) < span[1]:
            replica = self._replicas[at]
            part = max(span[0] - first, 0), min(span[1] - first, files[at].blocks)
            suspect = self._suspects is None or files[at].file_id in self._suspects
            if suspect and (damaged := self._damaged(replica, part)):
                yield at, DamagedFile(replica, damaged)
            at += 1

    def _damaged(self, replica: Replica, span: Span) -> Spans:
        """Return the damaged blocks of a span; the last block of an object that has grown is."""
        damaged, node = replica.run(*span).damaged, self._holding.node
        last = replica.header.blocks - 1
        grown = isinstance(node, DirectClient) and node.is_longer(replica.file.file_id)
        return damaged.join(Spans(((last, last + 1),))) if grown and span[1] > last else damaged

    def _respond(self, challenge: Challenge) -> Proof | None:
        try:
            with self._proving:
                return self._holding.node.prove(self._holding.key_id, challenge).proof
        except NodeRefusedError as error:
            if error.code in {Code.DAMAGED, Code.UNKNOWN_HOLDING}:
                return None
            raise


def find_damage(
    holding: Holding, on_progress: Progress = lambda _blocks: None, *, within: Span | None = None
) -> list[DamagedFile]:
    """Return the damaged files of a holding; `on_progress` gets the block that was reached."""
    damage: list[DamagedFile] = []
    for examined in DamageSearch(holding).run(within):
        damage += examined.damage
        on_progress(examined.span[1])
    return merge_damage(damage)


def merge_damage(damage: list[DamagedFile]) -> list[DamagedFile]:
    """Return each damaged file once, in the order of the inventory."""
    parts: dict[bytes, list[DamagedFile]] = {}
    for file in damage:
        parts.setdefault(file.replica.file.file_id, []).append(file)
    return [
        DamagedFile(files[0].replica, EMPTY.join(*(file.blocks for file in files)))
        for files in parts.values()
    ]
