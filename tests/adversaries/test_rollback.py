"""A home that a snapshot rolled back, and a node that keeps everything it was ever sent.

The owner puts one content, forgets it, and puts another one under the same version number. The node
then has two sets of tags, and two ciphertexts, of one file id and version.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Self

import numpy as np
import pytest
from tests.support.owner_env import flip
from tests.support.single_audit import run_audit
from tests.support.tag_definition import sectors_of

from holdfast.errors import RefusedError
from holdfast.evidence.leaf import Outcome
from holdfast.node.holding import Holding as StoredHolding
from holdfast.node.identity import NodeKey
from holdfast.node.node import Node
from holdfast.node.objects import open_objects
from holdfast.node.serving import RunningNode
from holdfast.node.signature import Gate
from holdfast.node.store import Store
from holdfast.node.wire import Code, Limits, NodeRefusedError
from holdfast.owner import (
    Home,
    LocalCopy,
    Original,
    Replica,
    add_holding,
    find_damage,
    get,
    put,
    repair_file,
)
from holdfast.pdp import Location, TagFile
from holdfast.pdp.field import Q
from holdfast.pdp.readers import Memory
from holdfast.pdp.sealing import ScryptCost

PASSPHRASE = b"a passphrase of the tests"
SEGMENT = 4096
BLOCKS = 40
NAME = "attic"

Contents = tuple[bytes, bytes]


@dataclass(frozen=True)
class Loot:
    """What a node has received for one upload."""

    data: bytes
    tags: bytes

    def equations(self, sectors: int) -> tuple[list[list[int]], list[int]]:
        """Return the sectors of the whole blocks, and their tags."""
        size = 31 * sectors
        tags = TagFile(Memory(self.tags)).tags(np.arange(len(self.data) // size))
        blocks = [self.data[at : at + size] for at in range(0, len(tags) * size, size)]
        values = [int.from_bytes(tag.tobytes(), "big") for tag in tags]
        return [list(sectors_of(block)) for block in blocks], values


@dataclass(frozen=True)
class Thief:
    """A node that forgets in public, and keeps a copy of everything."""

    node: Node
    url: str
    owner: bytes

    @property
    def holding(self) -> StoredHolding:
        (holding,) = self.node.store.account(self.owner).holdings.values()
        return holding

    def segments(self, part: str) -> list[Path]:
        """Return the files that the newest upload lies in."""
        layout = self.holding.layout
        root = Path(layout.objects.address) / layout.prefix
        uploads = [folder for folder in root.iterdir() if folder.is_dir()]
        newest = max(uploads, key=lambda folder: folder.stat().st_mtime_ns)
        return sorted(newest.glob(f"{part}.*"))

    def loot(self) -> Loot:
        """Copy what the newest upload has brought."""
        parts = (b"".join(map(Path.read_bytes, self.segments(part))) for part in ("data", "tags"))
        return Loot(*parts)


@contextmanager
def thief(folder: Path, owner: bytes) -> Iterator[Thief]:
    key, owners = NodeKey.generate(), {owner.hex(): owner}
    store = Store(open_objects(str(folder)), [owner], Limits(), time.time, segment_bytes=SEGMENT)
    gate = Gate(key.address, owners, time.time)
    node = Node(key, store, gate)
    time.sleep(max(0.0, gate.opens - time.time()))
    serving = RunningNode(node, "127.0.0.1", 0)
    thread = Thread(target=serving.run)
    thread.start()
    try:
        yield Thief(node, serving.url, owner)
    finally:
        serving.stop()
        thread.join()
        store.close()


@dataclass(frozen=True)
class Victim:
    """An owner whose home can be copied and rolled back."""

    folder: Path

    @property
    def home(self) -> Home:
        return Home.open(self.folder / "home", PASSPHRASE)

    @classmethod
    def create(cls, folder: Path) -> Self:
        Home.create(folder / "home", PASSPHRASE, ScryptCost(n=16))
        return cls(folder)

    def snapshot(self) -> None:
        shutil.copytree(self.folder / "home", self.folder / "snapshot")

    def roll_back(self) -> None:
        shutil.rmtree(self.folder / "home")
        shutil.copytree(self.folder / "snapshot", self.folder / "home")

    def put(self, content: bytes) -> None:
        path = self.folder / "file"
        path.write_bytes(content)
        with self.home.changing(NAME) as holding:
            put(holding, "file", Original.of(Location(str(path)), SEGMENT), processes=1)


def content_of(seed: int, sectors: int) -> bytes:
    return np.random.default_rng(seed).bytes(31 * sectors * BLOCKS + 5)


def alphas_by_subtraction(first: Loot, second: Loot, sectors: int) -> list[int]:
    """Solve the differences of tags for the alphas, as if both had the same PRF values."""
    (blocks, tags), (other_blocks, other_tags) = (
        loot.equations(sectors) for loot in (first, second)
    )
    matrix = [
        [
            *((a - b) % Q for a, b in zip(blocks[k], other_blocks[k], strict=True)),
            (tags[k] - other_tags[k]) % Q,
        ]
        for k in range(sectors)
    ]
    for k in range(sectors):
        inverse = pow(matrix[k][k], -1, Q)
        matrix[k] = [value * inverse % Q for value in matrix[k]]
        for other in range(sectors):
            if other != k:
                factor = matrix[other][k]
                matrix[other] = [
                    (a - factor * b) % Q for a, b in zip(matrix[other], matrix[k], strict=True)
                ]
    return [row[-1] for row in matrix]


def xor(first: bytes, second: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(first, second, strict=True))


def loot_by_denial(node: Thief, victim: Victim, contents: Contents) -> tuple[Loot, Loot]:
    """Let the node commit the first content, then show the inventory from before it again."""
    before = node.holding.record
    victim.snapshot()
    victim.put(contents[0])
    first = node.loot()
    node.holding.accept(before)
    victim.roll_back()
    victim.put(contents[1])
    return first, node.loot()


def loot_by_refusal(
    node: Thief, victim: Victim, contents: tuple[bytes, bytes]
) -> tuple[Loot, Loot]:
    """Let the node receive the first content and never commit it: its inventory is no lie."""
    victim.snapshot()

    def refuse(*_: object) -> None:
        raise NodeRefusedError(Code.STORAGE, "the disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.node.uploads.commit", refuse)
        with pytest.raises(RefusedError, match="disk is full"):
            victim.put(contents[0])
    first = node.loot()
    (unfinished,) = node.holding.uploads.values()
    victim.roll_back()
    victim.put(contents[1])
    assert unfinished.id in node.holding.uploads, "the node keeps the first one, too"
    return first, node.loot()


Way = Callable[[Thief, Victim, Contents], tuple[Loot, Loot]]


@pytest.mark.slow
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
@pytest.mark.parametrize("sectors", [1, 3])
@pytest.mark.parametrize("way", [loot_by_denial, loot_by_refusal])
def test_what_a_rolled_back_home_tags_again_gives_nothing_away(
    tmp_path: Path, way: Way, sectors: int, *, encrypted: bool
) -> None:
    """Before nonces: 8 of 8 gave the alphas, 4 of 4 encrypted ones the XOR of the plaintexts."""
    victim = Victim.create(tmp_path)
    with thief(tmp_path / "store", victim.home.keyring.owner) as node:
        add_holding(victim.home, NAME, node.url, sectors=sectors, encrypted=encrypted)
        victim.put(b"the first version")
        contents = content_of(1, sectors), content_of(2, sectors)
        loot = way(node, victim, contents)
        headers = [TagFile(Memory(part.tags)).header for part in loot]
        assert {header.version for header in headers} == {2}, "the owner has forgotten the first"
        assert headers[0].nonce != headers[1].nonce
        with victim.home.holding(NAME) as holding:
            assert alphas_by_subtraction(*loot, sectors) != list(holding.key.alphas)
        shown = xor(loot[0].data, loot[1].data)
        assert (shown == xor(*contents)) == (not encrypted)
        assert_usable(victim, node, contents[1])


def assert_usable(victim: Victim, node: Thief, content: bytes) -> None:
    """Check that audits pass, damage is repaired, and the file comes back."""
    out, copy = victim.folder / "out", LocalCopy(Location(str(victim.folder / "file")))
    with victim.home.changing(NAME) as holding, victim.home.ledger(holding.key.sectors) as ledger:
        result = run_audit(ledger, holding, holding.inventory.blocks, deadline_seconds=60)
        assert result.outcome is Outcome.PASSED
        for part in ("data", "tags"):
            flip(node.segments(part)[-1], 500)
        (damaged,) = find_damage(holding)
        assert not repair_file(damaged, [copy])
        result = run_audit(ledger, holding, holding.inventory.blocks, deadline_seconds=60)
        assert result.outcome is Outcome.PASSED
        assert get(Replica(holding, holding.file("file")), [], out).lost == ()
    assert out.read_bytes() == content


@pytest.mark.slow
def test_a_nonce_that_the_node_invents_makes_checks_fail_and_nothing_else(tmp_path: Path) -> None:
    """The owner uses the nonce in its own catalogue, whatever stands at the node."""
    victim, content = Victim.create(tmp_path), content_of(1, 1)
    with thief(tmp_path / "store", victim.home.keyring.owner) as node:
        add_holding(victim.home, NAME, node.url, sectors=1, encrypted=True)
        victim.put(content)
        record = node.holding.record
        node.holding.record = replace(record, files=(replace(record.files[0], nonce=bytes(32)),))
        with victim.home.holding(NAME) as holding, victim.home.ledger(1) as ledger:
            result = run_audit(ledger, holding, 10, deadline_seconds=1)
            assert result.outcome is Outcome.TIMED_OUT
            assert "disagree on what is stored" in result.reason
            out = tmp_path / "out"
            assert get(Replica(holding, holding.file("file")), [], out).lost == ()
        assert out.read_bytes() == content
