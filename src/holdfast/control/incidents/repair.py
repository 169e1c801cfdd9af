"""The slow steps of a response, in slices: damage is located by span, repaired by segment.

Progress is saved after each slice, so any worker can continue.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from holdfast.errors import HoldfastError, NodeError, RefusedError
from holdfast.node.lanes import run_in_lanes
from holdfast.node.wire import NodeRefusedError
from holdfast.owner import (
    Copies,
    DamageSearch,
    FileLoss,
    FileRecord,
    FileRepair,
    Holding,
    Home,
    Replica,
    ReplicaSources,
    other_replicas,
)
from holdfast.owner.direct.client import DirectClient
from holdfast.owner.repair import LANES
from holdfast.pdp.spans import EMPTY, Spans

MAX_NAMED = 20  # damaged files in an alert
Version = tuple[str, int]  # of a file: its id in hexadecimal, and its number
WantsMore = Callable[[], bool]  # whether the slice has time left


@dataclass(frozen=True)
class Spot:
    """Damaged blocks of one version of a file, which begins at `first` in the holding."""

    version: Version
    first: int
    blocks: Spans
    handled: int = 0  # the block of the file up to which they are
    lost: Spans = EMPTY
    untagged: Spans = EMPTY  # put back, but their tags are wrong as well

    @property
    def remaining(self) -> Spans:
        return self.blocks.within(self.handled, self.blocks.hull[1]) if self.blocks else EMPTY


@dataclass(frozen=True)
class Damage:
    """The damage up to the block `reached`, and how far its repair is."""

    inventory: str
    reached: int = 0
    spots: tuple[Spot, ...] = ()

    @property
    def blocks(self) -> Spans:
        """The damaged blocks of the holding."""
        return EMPTY.join(*(spot.blocks.shift(spot.first) for spot in self.spots))

    @property
    def lost(self) -> Spans:
        return EMPTY.join(*(spot.lost.shift(spot.first) for spot in self.spots))

    @property
    def count(self) -> int:
        """How many blocks are damaged."""
        return sum(spot.blocks.count for spot in self.spots)

    @property
    def handled(self) -> int:
        """How many of them have been put back, or are known to be lost."""
        open_blocks = (spot.remaining.count + spot.untagged.count for spot in self.spots)
        return self.count - sum(open_blocks)

    def encode(self) -> bytes:
        spots = [
            vars(spot) | {name: getattr(spot, name).spans for name in _SPANS} for spot in self.spots
        ]
        return json.dumps(vars(self) | {"spots": spots}).encode()

    @classmethod
    def decode(cls, content: bytes) -> "Damage":
        fields = json.loads(content)
        spots = tuple(_decode_spot(spot) for spot in fields.pop("spots"))
        return cls(spots=spots, **fields)


_SPANS = ("blocks", "lost", "untagged")


def _decode_spot(fields: dict[str, Any]) -> Spot:
    spans = {name: Spans(tuple((a, b) for a, b in fields[name])) for name in _SPANS}
    return Spot(**fields | spans | {"version": tuple(fields["version"])})


def locate_more(
    holding: Holding, damage: Damage | None, wants_more: WantsMore
) -> tuple[Damage, bool]:
    """Examine further spans; return the damage known then, and whether all are examined."""
    search = DamageSearch(holding)
    inventory = search.inventory
    if damage is None or damage.inventory != inventory.hash.hex():  # files changed: start again
        damage = Damage(inventory.hash.hex())
    starts = inventory.starts.tolist()
    firsts = {entry.file_id: starts[at] for at, entry in enumerate(inventory.files)}
    reached, parts = damage.reached, {spot.version: [spot] for spot in damage.spots}
    span = (damage.reached, inventory.blocks)
    for examined in search.run(span, wants_more=wants_more):
        for file in examined.damage:
            record = file.replica.file
            version = (record.file_id.hex(), record.version)
            spot = Spot(version, firsts[record.file_id], file.blocks)
            parts.setdefault(version, []).append(spot)
        reached = examined.span[1]
    spots = tuple(
        replace(known[0], blocks=EMPTY.join(*(spot.blocks for spot in known)))
        for known in parts.values()
    )
    return replace(damage, reached=reached, spots=spots), reached == inventory.blocks


def repair_more(
    home: Home, holding: Holding, damage: Damage, wants_more: WantsMore
) -> tuple[Damage, bool]:
    """Repair further blocks; return the damage known then, and whether that was all.

    An error is raised only if nothing was repaired before it: else the next slice meets it.
    """
    versions = _versions(holding)
    spots = [spot for spot in damage.spots if spot.version in versions]  # some may be deleted
    progressed = False
    try:
        for at, spot in enumerate(spots):
            for repaired in _repair_spot(home, holding, versions[spot.version], spot, wants_more):
                spots[at], progressed = repaired, True
            if spot.remaining or spot.untagged:
                break
    except (HoldfastError, OSError):
        if not progressed:
            raise
    complete = not any(spot.remaining or spot.untagged for spot in spots)
    return replace(damage, spots=tuple(spots)), complete


def find_losses(holding: Holding, damage: Damage) -> list[FileLoss]:
    """Return which bytes of which files are lost."""
    versions = _versions(holding)
    return [
        FileLoss.of(Replica(holding, versions[spot.version]), spot.lost)
        for spot in damage.spots
        if spot.lost and spot.version in versions
    ]


def name_damaged(holding: Holding, damage: Damage) -> list[FileLoss]:
    """Return which bytes of which files are damaged, of so many as an alert can name."""
    versions = _versions(holding)
    spots = [spot for spot in damage.spots if spot.blocks and spot.version in versions]
    return [
        FileLoss.of(Replica(holding, versions[spot.version]), spot.blocks)
        for spot in spots[:MAX_NAMED]
    ]


def _versions(holding: Holding) -> dict[Version, FileRecord]:
    files = holding.catalogue.files(holding.name)
    return {(file.file_id.hex(), file.version): file for file in files}


def _repair_spot(
    home: Home, holding: Holding, file: FileRecord, spot: Spot, wants_more: WantsMore
) -> Iterator[Spot]:
    """Yield the spot after each window, and after its tags at last, while more is wanted."""
    if not (spot.remaining or spot.untagged):
        return
    replica = Replica(holding, file)
    with other_replicas(home, holding, file) as others:
        repair = FileRepair(replica, Copies(others.replicas))
        windows = takewhile(lambda _: wants_more(), repair.windows(spot.remaining))
        for restored in run_in_lanes(repair.restore, windows, LANES):
            if restored.lost and others.unreachable:
                raise NodeError(f"a replica can't be asked: {min(others.unreachable.values())}")
            spot = replace(
                spot,
                handled=restored.blocks.hull[1],
                lost=spot.lost.join(restored.lost),
                untagged=spot.untagged.join(restored.untagged),
            )
            _finish_object(holding, file, spot)
            yield spot
        if spot.untagged and not spot.remaining:
            spot = repair_tags(spot, replica, others)
            _finish_object(holding, file, spot)
            yield spot


def _finish_object(holding: Holding, file: FileRecord, spot: Spot) -> None:
    """Write an object of a direct holding again, once all its blocks are there."""
    complete = not (spot.remaining or spot.untagged or spot.lost)
    if complete and isinstance(holding.node, DirectClient):
        holding.node.finish_repair(file.file_id)


def repair_tags(spot: Spot, replica: Replica, others: ReplicaSources) -> Spot:
    """Replace the tags of a file all at once: they can only be checked together."""
    try:
        lost = FileRepair(replica, Copies(others.replicas)).restore_tags(spot.untagged)
    except NodeRefusedError:  # says nothing about lost blocks
        raise
    except RefusedError:  # the tags of lost blocks are wrong, too
        lost = spot.untagged
    return replace(spot, lost=spot.lost.join(lost), untagged=EMPTY)
