"""Deliberate damage to a node that the owner runs: one flipped bit per chosen block.

Flipping the same blocks again restores them, so no copy is needed.
"""

from collections.abc import Sequence

from holdfast.errors import InputError
from holdfast.node.layout import Layout, Part
from holdfast.node.objects import Objects
from holdfast.node.record import HoldingRecord


def flip_blocks(objects: Objects, owner: bytes, key_id: bytes, blocks: Sequence[int]) -> None:
    """Flip one bit in every one of these blocks; the node may run meanwhile."""
    layout = Layout(objects, owner, key_id)
    document = objects.read(layout.document)
    if document is None:
        raise InputError(f"{objects.address} is no store of the node that keeps this holding")
    record = HoldingRecord.decode(document, f"{objects.address}/{layout.document}")
    spots: dict[str, list[int]] = {}
    for block in blocks:
        entry, index = record.inventory.place(block)
        file = record.by_id[entry.file_id]
        if file.in_place is not None:
            raise InputError("the holding has files in place, which are not the node's to damage")
        size = objects.size(layout.segment(file.upload, Part.DATA, 0))
        segment, inner = divmod(index * record.public.layout.block_bytes, size or 1)
        spots.setdefault(layout.segment(file.upload, Part.DATA, segment), []).append(inner)
    for name, offsets in spots.items():
        content = objects.read(name)
        if content is None:
            raise InputError(f"{objects.address}/{name} is gone: the holding is damaged already")
        changed = bytearray(content)
        for offset in offsets:
            changed[offset] ^= 1
        objects.write(name, changed)
