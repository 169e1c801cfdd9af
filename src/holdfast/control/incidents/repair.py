"""The slow steps of a response, in slices: damage located span by span, blocks put back by the lot.

How far that has come is a value that is written down after each slice, so any worker can go on.
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
    """What was found up to the block `reached`, and what became of it."""

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
        for each in fields.pop("spots"):
            each |= {name: tuple(_blocks(each[name])) for name in _LISTS}
            spots.append(Spot(**each | {"version": tuple(each["version"])}))
        return cls(spots=tuple(spots), **fields)


_LISTS = ("blocks", "lost", "untagged")


def _blocks(spans: Iterable[tuple[int, int]]) -> Iterator[int]:
    for start, stop in spans:
        yield from range(start, stop)


def locate_more(holding: Holding, damage: Damage | None) -> tuple[Damage, bool]:
    """Look at the next span; return what is known then, and whether that is all."""
    inventory = holding.inventory
    if damage is None or damage.inventory != inventory.hash.hex():  # files came or went: anew
        damage = Damage(inventory.hash.hex())
    stop = min(damage.reached + SPAN_BLOCKS, inventory.blocks)
    spots = {spot.version: spot for spot in damage.spots}
    files = (entry.file_id for entry in inventory.files)
    firsts = dict(zip(files, inventory.starts.tolist()[:-1], strict=True))
    span = (damage.reached, stop)
    for found in find_damage(holding, within=span) if stop > damage.reached else []:
        file = found.replica.file
        version = (file.file_id.hex(), file.version)
        known = spots.get(version, Spot(version, firsts[file.file_id], ()))
        spots[version] = replace(known, blocks=(*known.blocks, *found.blocks))
    return replace(damage, reached=stop, spots=tuple(spots.values())), stop == inventory.blocks


def repair_more(home: Home, holding: Holding, damage: Damage) -> tuple[Damage, bool]:
    """Put the next lot back; return what is known then, and whether that is all."""
    files = holding.catalogue.files(holding.name)
    versions = {(file.file_id.hex(), file.version): file for file in files}
    there = [spot for spot in damage.spots if spot.version in versions]  # some may be gone by now
    for at, spot in enumerate(there):
        if spot.handled == len(spot.blocks) and not spot.untagged:
            continue
        replica = Replica(holding, versions[spot.version])
        with other_replicas(home, holding, replica.file) as others:
            whole = spot.handled == len(spot.blocks)
            there[at] = (_tags_mended if whole else _lot_put_back)(spot, replica, others)
        return replace(damage, spots=tuple(there)), False
    return replace(damage, spots=tuple(there)), True


def _lot_put_back(spot: Spot, replica: Replica, others: ReplicaSources) -> Spot:
    lot = spot.blocks[spot.handled : spot.handled + BLOCKS_AT_ONCE]
    lost, corrections = restore_blocks(recheck_blocks(replica, lot), others.replicas)
    if lost and others.unreachable:
        raise NodeError(f"a replica can't be asked: {min(others.unreachable.values())}")
    return replace(
        spot,
        handled=spot.handled + len(lot),
        lost=(*spot.lost, *lost),
        untagged=(*spot.untagged, *sorted(corrections)),
    )


def _tags_mended(spot: Spot, replica: Replica, others: ReplicaSources) -> Spot:
    """Replace the tags of a file all at once, for only together can they be checked."""
    try:
        lost = repair_file(recheck_blocks(replica, spot.untagged), others.replicas)
    except NodeRefusedError:  # which says nothing of what is lost
        raise
    except RefusedError:  # tags of blocks that are lost are wrong, too
        lost = list(spot.untagged)
    return replace(spot, lost=tuple(sorted({*spot.lost, *lost})), untagged=())
