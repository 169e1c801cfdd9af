"""The slow steps of a response, in slices: damage is located by span, blocks repaired in batches.

Progress is saved after each slice, so any worker can continue.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from holdfast.errors import NodeError, RefusedError
from holdfast.node.wire import NodeRefusedError
from holdfast.owner import (
    Holding,
    Home,
    Replica,
    ReplicaSources,
    find_damage,
    other_replicas,
    recheck_blocks,
    repair_file,
    restore_blocks,
    spans_of,
)
from holdfast.owner.repair import SPAN_BLOCKS
from holdfast.owner.replica import BLOCKS_AT_ONCE

Version = tuple[str, int]  # of a file: its id in hexadecimal, and its number


@dataclass(frozen=True)
class Spot:
    """Damaged blocks of one version of a file, which begins at `first` in the holding."""

    version: Version
    first: int
    blocks: tuple[int, ...]
    handled: int = 0  # of the blocks, in their order
    lost: tuple[int, ...] = ()
    untagged: tuple[int, ...] = ()  # put back, but their tags are wrong as well


@dataclass(frozen=True)
class Damage:
    """The damage up to the block `reached`, and how far its repair is."""

    inventory: str
    reached: int = 0
    spots: tuple[Spot, ...] = ()

    @property
    def blocks(self) -> list[int]:
        """The damaged blocks of the holding."""
        return sorted(spot.first + block for spot in self.spots for block in spot.blocks)

    @property
    def lost(self) -> list[int]:
        return sorted(spot.first + block for spot in self.spots for block in spot.lost)

    def encode(self) -> bytes:
        spots = [
            vars(spot) | {name: spans_of(getattr(spot, name)) for name in _LISTS}
            for spot in self.spots
        ]
        return json.dumps(vars(self) | {"spots": spots}).encode()

    @classmethod
    def decode(cls, content: bytes) -> "Damage":
        fields = json.loads(content)
        spots = []
        for spot in fields.pop("spots"):
            spot |= {name: tuple(_blocks(spot[name])) for name in _LISTS}
            spots.append(Spot(**spot | {"version": tuple(spot["version"])}))
        return cls(spots=tuple(spots), **fields)


_LISTS = ("blocks", "lost", "untagged")


def _blocks(spans: Iterable[tuple[int, int]]) -> Iterator[int]:
    for start, stop in spans:
        yield from range(start, stop)


def locate_more(holding: Holding, damage: Damage | None) -> tuple[Damage, bool]:
    """Examine the next span; return the damage known then, and whether that was the last."""
    inventory = holding.inventory
    if damage is None or damage.inventory != inventory.hash.hex():  # files changed: start again
        damage = Damage(inventory.hash.hex())
    stop = min(damage.reached + SPAN_BLOCKS, inventory.blocks)
    spots = {spot.version: spot for spot in damage.spots}
    files = (entry.file_id for entry in inventory.files)
    firsts = dict(zip(files, inventory.starts.tolist()[:-1], strict=True))
    span = (damage.reached, stop)
    for damaged in find_damage(holding, within=span) if stop > damage.reached else []:
        file = damaged.replica.file
        version = (file.file_id.hex(), file.version)
        known = spots.get(version, Spot(version, firsts[file.file_id], ()))
        spots[version] = replace(known, blocks=(*known.blocks, *damaged.blocks))
    return replace(damage, reached=stop, spots=tuple(spots.values())), stop == inventory.blocks


def repair_more(home: Home, holding: Holding, damage: Damage) -> tuple[Damage, bool]:
    """Repair the next batch; return the damage known then, and whether that was the last."""
    files = holding.catalogue.files(holding.name)
    versions = {(file.file_id.hex(), file.version): file for file in files}
    spots = [spot for spot in damage.spots if spot.version in versions]  # some may be deleted
    for at, spot in enumerate(spots):
        if spot.handled == len(spot.blocks) and not spot.untagged:
            continue
        replica = Replica(holding, versions[spot.version])
        with other_replicas(home, holding, replica.file) as others:
            whole = spot.handled == len(spot.blocks)
            spots[at] = (_repair_tags if whole else _repair_batch)(spot, replica, others)
        return replace(damage, spots=tuple(spots)), False
    return replace(damage, spots=tuple(spots)), True


def _repair_batch(spot: Spot, replica: Replica, others: ReplicaSources) -> Spot:
    batch = spot.blocks[spot.handled : spot.handled + BLOCKS_AT_ONCE]
    lost, corrections = restore_blocks(recheck_blocks(replica, batch), others.replicas)
    if lost and others.unreachable:
        raise NodeError(f"a replica can't be asked: {min(others.unreachable.values())}")
    return replace(
        spot,
        handled=spot.handled + len(batch),
        lost=(*spot.lost, *lost),
        untagged=(*spot.untagged, *sorted(corrections)),
    )


def _repair_tags(spot: Spot, replica: Replica, others: ReplicaSources) -> Spot:
    """Replace the tags of a file all at once: they can only be checked together."""
    try:
        lost = repair_file(recheck_blocks(replica, spot.untagged), others.replicas)
    except NodeRefusedError:  # says nothing about lost blocks
        raise
    except RefusedError:  # the tags of lost blocks are wrong, too
        lost = list(spot.untagged)
    return replace(spot, lost=tuple(sorted({*spot.lost, *lost})), untagged=())
