"""How fast damage is found and repaired, between real node processes on loopback.

The whole content of a file is zeroed on one node and put back from another one. It is done once
with a sound replica, and once where the replica that is asked first is damaged as well: every other
segment of its content is zeroed, and every other page of its tags is illegible.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from holdfast.node.identity import NodeKey
from holdfast.node.node import Node
from holdfast.node.objects import Folder
from holdfast.node.serving import RunningNode
from holdfast.node.signature import Gate
from holdfast.node.store import Store
from holdfast.node.wire import Limits
from holdfast.owner import Holding, Home, Original, Replica, add_holding, find_damage, put
from holdfast.owner.repair import repair_file
from holdfast.pdp import Location
from holdfast.pdp.sealing import ScryptCost
from holdfast.pdp.tagfile import HEADER_BYTES, PAGE_BYTES
from holdfast.processes import start_child

SECTORS = 16
HOLDINGS = ("damaged", "first", "second")
GIB = 1 << 30

Say = Callable[[str], None]


def measure(*, size: int = 256 << 20, say: Say) -> dict[str, Any]:
    """Return blocks a second, and what localising 2 GiB takes at that rate."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder, ExitStack() as stack:
        say("starting three nodes")
        home = Home.create(Path(folder) / "home", b"a passphrase", ScryptCost(n=16))
        stores = [Path(folder) / name for name in HOLDINGS]
        for name, store in zip(HOLDINGS, stores, strict=True):
            url = stack.enter_context(_node(store, home.keyring.owner))
            add_holding(home, name, url, sectors=SECTORS, encrypted=False)
        say(f"bringing {size >> 20} MiB to each of them")
        path = Path(folder) / "file"
        path.write_bytes(os.urandom(size))
        original = Original.of(Location(str(path)))
        for name in HOLDINGS:
            with home.changing(name) as holding:
                put(holding, "file", original)
        damaged, first, second = (stack.enter_context(home.holding(name)) for name in HOLDINGS)
        say("with a sound replica")
        sound = _repair(damaged, stores[0], [second])
        _spoil(stores[1])
        say("with a damaged replica, which is asked first")
        poor = _repair(damaged, stores[0], [first, second])
    blocks = sound["blocks"]
    return {
        "size_mib": size >> 20,
        "blocks": blocks,
        "repair_blocks_per_s": blocks / sound["repair_seconds"],
        "repair_blocks_per_s_first_replica_damaged": blocks / poor["repair_seconds"],
        "localise_blocks_per_s": blocks / sound["localise_seconds"],
        "localise_seconds_for_2_gib": sound["localise_seconds"] * 2 * GIB / size,
        "owner_cpu_s_per_gib_localised": sound["localise_cpu_seconds"] * GIB / size,
        "owner_cpu_s_per_gib_repaired": sound["repair_cpu_seconds"] * GIB / size,
    }


def _repair(damaged: Holding, store: Path, others: Sequence[Holding]) -> dict[str, float]:
    """Zero all content of a holding, then find and repair the damage."""
    before = {segment: segment.read_bytes() for segment in store.rglob("data.*")}
    for segment, content in before.items():
        segment.write_bytes(bytes(len(content)))
    started, cpu = time.perf_counter(), time.process_time()
    (file,) = find_damage(damaged)
    located, located_cpu = time.perf_counter(), time.process_time()
    lost = repair_file(file, [Replica(other, other.file("file")) for other in others])
    repaired, repaired_cpu = time.perf_counter(), time.process_time()
    if lost or any(segment.read_bytes() != content for segment, content in before.items()):
        raise AssertionError("the repair didn't restore what was there")
    return {
        "blocks": file.blocks.count,
        "localise_seconds": located - started,
        "localise_cpu_seconds": located_cpu - cpu,
        "repair_seconds": repaired - located,
        "repair_cpu_seconds": repaired_cpu - located_cpu,
    }


def _spoil(store: Path) -> None:
    """Zero every other segment of the content, and change a byte of every other page of tags."""
    for segment in sorted(store.rglob("data.*"))[::2]:
        segment.write_bytes(bytes(segment.stat().st_size))
    for segment in store.rglob("tags.*"):
        content = bytearray(segment.read_bytes())
        for offset in range(HEADER_BYTES, len(content), 2 * PAGE_BYTES):
            content[offset] ^= 1
        segment.write_bytes(content)


@contextmanager
def _node(store: Path, owner: bytes) -> Iterator[str]:
    """Start a node in a process of its own, and stop it at the end."""
    with start_child(_serve, store, NodeKey.generate(), owner) as child:
        yield child.pipe.recv()


def _serve(pipe: Connection, store: Path, key: NodeKey, owner: bytes) -> None:
    stored = Store(Folder(store), [owner], Limits(), time.time)
    gate = Gate(key.address, {owner.hex(): owner}, time.time)
    running = RunningNode(Node(key, stored, gate), "127.0.0.1", 0)
    time.sleep(max(0.0, gate.opens - time.time()))
    pipe.send(running.url)
    running.run()
    stored.close()
