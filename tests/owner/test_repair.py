"""Damage is found and repaired, whatever it hit, from any copy of the same content."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.owner_env import BLOCK_BYTES, World, flip
from tests.support.small_node import SAMPLE_CAP, SEGMENT_BYTES

from holdfast.errors import NodeError, RefusedError, UnreachableError
from holdfast.owner import (
    Copies,
    Copy,
    DamagedFile,
    FileRepair,
    Holding,
    LocalCopy,
    Replica,
    find_damage,
    repair_file,
)
from holdfast.owner.replica import MAX_SPANS, MAX_WINDOWS, SPARSE, Excerpt
from holdfast.pdp import Location
from holdfast.pdp.readers import Range
from holdfast.pdp.spans import Spans
from holdfast.pdp.tagfile import HEADER_BYTES, PAGE_BYTES
from holdfast.pdp.tags import TAG_BYTES

CONTENT = random.Random(1).randbytes(5 * SEGMENT_BYTES + 77)
HOLDINGS = ("plain", "secret")


@pytest.fixture(autouse=True)
def _small_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halve spans of small files a few times before they are looked at."""
    monkeypatch.setattr("holdfast.owner.localisation.GRAIN_BLOCKS", 16)


@pytest.fixture
def path(world: World) -> Path:
    """Return a file that both holdings have, between others."""
    for name in ("before", "file", "after"):
        content = CONTENT if name == "file" else name.encode() * 100
        path = world.file(content, name)
        for holding in HOLDINGS:
            world.put(holding, path)
    return world.folder / "file"


def segments(world: World, place: Holding, part: str) -> list[Path]:
    """Return the segments of the large file alone."""
    node = world.one if place.name == "plain" else world.two
    folders = {segment.parent for segment in node.stored(place, part)}
    (largest,) = [folder for folder in folders if (folder / "data.00000004").exists()]
    return sorted(largest.glob(f"{part}.*"))


def copy_in(other: Holding) -> Replica:
    return Replica(other, other.file("file"))


def blocks_of(damage: list[DamagedFile]) -> dict[str, list[int]]:
    return {damaged.replica.file.name: damaged.blocks.blocks.tolist() for damaged in damage}


@pytest.mark.usefixtures("path")
def test_a_sound_holding_has_no_damage(world: World) -> None:
    with world.home.holding("plain") as place:
        assert place.inventory.blocks > 2 * SAMPLE_CAP, "the node's cap cuts the spans"
        assert find_damage(place) == []


@pytest.mark.slow
@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(("holding", "other"), [HOLDINGS, HOLDINGS[::-1]])
def test_damaged_blocks_are_put_back_from_the_other_replica(
    world: World, holding: str, other: str
) -> None:
    with world.home.changing(holding) as place, world.home.holding(other) as elsewhere:
        data = segments(world, place, "data")
        before = [segment.read_bytes() for segment in data]
        flip(data[0], 0, 1, 3000)
        flip(data[-1], 76)
        (damaged,) = find_damage(place)
        size = damaged.replica.block_bytes
        last = (len(CONTENT) - 1) // size
        assert blocks_of([damaged]) == {"file": [0, 3000 // size, last]}
        assert not repair_file(damaged, [copy_in(elsewhere)])
        assert [segment.read_bytes() for segment in data] == before
        assert find_damage(place) == []


@pytest.mark.slow
def test_damaged_blocks_are_put_back_from_the_owners_copy(world: World, path: Path) -> None:
    with world.home.changing("secret") as place:
        flip(segments(world, place, "data")[2], 5)
        (damaged,) = find_damage(place)
        assert not repair_file(damaged, [LocalCopy(Location(str(path)))])
        assert find_damage(place) == []


@pytest.mark.slow
@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("part", ["data", "tags"])
def test_a_lost_segment_is_put_back(world: World, part: str) -> None:
    with world.home.changing("plain") as place, world.home.holding("secret") as elsewhere:
        lost = segments(world, place, part)[1]
        before = lost.read_bytes()
        lost.unlink()
        (damaged,) = find_damage(place)
        assert not repair_file(damaged, [copy_in(elsewhere)])
        assert lost.read_bytes() == before
        assert find_damage(place) == []


@pytest.mark.slow
@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    "offset",
    [
        pytest.param(20, id="header"),
        pytest.param(HEADER_BYTES + 3 * PAGE_BYTES + 40, id="tag"),
        pytest.param(HEADER_BYTES + 4 * PAGE_BYTES - 1, id="checksum"),
    ],
)
def test_damaged_tags_are_put_back(world: World, offset: int) -> None:
    with world.home.changing("plain") as place, world.home.holding("secret") as elsewhere:
        tags = segments(world, place, "tags")[0]
        before = tags.read_bytes()
        flip(tags, offset)
        (damaged,) = find_damage(place)
        assert damaged.blocks.count <= 8
        assert not repair_file(damaged, [copy_in(elsewhere)])
        assert tags.read_bytes() == before
        assert find_damage(place) == []


def test_the_tag_of_an_empty_last_block_is_put_back(world: World) -> None:
    path = world.file(CONTENT[: 10 * BLOCK_BYTES])
    world.put("plain", path)
    with world.home.changing("plain") as place:
        (tags,) = world.one.stored(place, "tags")
        before = tags.read_bytes()
        flip(tags, len(before) - 10)
        (damaged,) = find_damage(place)
        assert 10 in damaged.blocks.blocks
        assert not repair_file(damaged, [LocalCopy(Location(str(path)))])
        assert tags.read_bytes() == before


@pytest.mark.slow
@pytest.mark.usefixtures("path")
def test_a_block_that_nobody_has_is_lost_and_the_others_are_not(world: World) -> None:
    with world.home.changing("plain") as place, world.home.holding("secret") as elsewhere:
        flip(segments(world, place, "data")[0], 10, 4000)
        flip(segments(world, elsewhere, "data")[0], 11)
        (damaged,) = find_damage(place)
        assert repair_file(damaged, [copy_in(elsewhere)]) == Spans(((0, 1),))
        assert blocks_of(find_damage(place)) == {"file": [0]}


class Liar:
    """A copy of other content than was tagged."""

    def excerpt(self, ranges: Sequence[Range]) -> Excerpt:
        return Excerpt([bytes(length) for _, length in ranges])


@pytest.mark.slow
@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("part", ["data", "tags"])
def test_nothing_goes_out_for_content_that_was_never_tagged(world: World, part: str) -> None:
    with world.home.changing("secret") as place:
        flip(segments(world, place, part)[1], 500)
        stored = [*segments(world, place, "data"), *segments(world, place, "tags")]
        before = [segment.read_bytes() for segment in stored]
        (damaged,) = find_damage(place)
        with pytest.raises(RefusedError, match="content that was never tagged"):
            repair_file(damaged, [Liar()])
        assert [segment.read_bytes() for segment in stored] == before


@pytest.mark.slow
@pytest.mark.usefixtures("path")
def test_a_block_whose_tag_is_lost_with_it_is_put_back(world: World) -> None:
    with world.home.changing("plain") as place, world.home.holding("secret") as elsewhere:
        stored = [segments(world, place, part)[0] for part in ("data", "tags")]
        before = [segment.read_bytes() for segment in stored]
        flip(stored[0], 3 * BLOCK_BYTES)
        flip(stored[1], HEADER_BYTES + 3 * TAG_BYTES)
        (damaged,) = find_damage(place)
        assert not repair_file(damaged, [copy_in(elsewhere)])
        assert [segment.read_bytes() for segment in stored] == before


@pytest.mark.slow
@pytest.mark.usefixtures("path")
def test_damage_in_several_files_is_told_apart(world: World) -> None:
    with world.home.changing("plain") as place:
        for segment in world.one.stored(place, "data"):
            flip(segment, 0)
        damaged = blocks_of(find_damage(place))
        firsts = [number * SEGMENT_BYTES // BLOCK_BYTES for number in range(6)]
        assert damaged == {"before": [0], "file": firsts, "after": [0]}


@pytest.mark.slow
@pytest.mark.usefixtures("path")
def test_damage_is_looked_for_within_a_span(world: World) -> None:
    with world.home.changing("plain") as place:
        for segment in world.one.stored(place, "data"):
            flip(segment, 0)
        start = int(place.inventory.starts[1])
        assert blocks_of(find_damage(place, within=(start, start + 1))) == {"file": [0]}
        assert find_damage(place, within=(start + 1, start + 20)) == []


def test_whoever_does_not_wait_for_a_change_is_told_of_it(world: World) -> None:
    with (
        world.home.changing("plain"),
        pytest.raises(RefusedError, match="is being changed by another process"),
        world.home.changing("plain", wait=False),
    ):
        pass


class Counted:
    """A copy that counts how often it is asked."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self.asked = 0

    def excerpt(self, ranges: Sequence[Range]) -> Excerpt:
        self.asked += 1
        return self._copy.excerpt(ranges)


class Absent:
    """A copy whose node can't be reached."""

    def excerpt(self, ranges: Sequence[Range]) -> Excerpt:
        raise UnreachableError(f"nobody answers for {len(ranges)} ranges")


def zero(paths: Sequence[Path]) -> list[bytes]:
    """Let a node lose all content of these segments; return what they had."""
    before = [path.read_bytes() for path in paths]
    for path, content in zip(paths, before, strict=True):
        path.write_bytes(bytes(len(content)))
    return before


@pytest.mark.slow
def test_what_a_damaged_replica_lacks_comes_from_the_next_one(world: World, path: Path) -> None:
    with world.home.changing("plain") as place, world.home.holding("secret") as elsewhere:
        data = segments(world, place, "data")
        before = zero(data)
        zero(segments(world, elsewhere, "data")[1:4])
        (damaged,) = find_damage(place)
        windows = len(list(damaged.blocks.split(damaged.replica.window_blocks, 400)))
        first, second = Counted(copy_in(elsewhere)), Counted(LocalCopy(Location(str(path))))
        assert not repair_file(damaged, [first, second])
        assert [segment.read_bytes() for segment in data] == before
        assert 0 < first.asked <= windows, "no window is halved"
        assert 0 < second.asked <= windows
        assert find_damage(place) == []


@pytest.mark.slow
@pytest.mark.usefixtures("path")
def test_a_replica_without_its_tags_serves_where_the_node_has_kept_its_own(world: World) -> None:
    with world.home.changing("plain") as place, world.home.holding("secret") as elsewhere:
        data = segments(world, place, "data")
        before = zero(data)
        for segment in segments(world, elsewhere, "tags"):
            segment.unlink()
        (damaged,) = find_damage(place)
        assert not repair_file(damaged, [copy_in(elsewhere)])
        assert [segment.read_bytes() for segment in data] == before


@pytest.mark.slow
def test_a_block_is_not_lost_while_a_copy_can_not_be_asked(world: World, path: Path) -> None:
    with world.home.changing("plain") as place:
        flip(segments(world, place, "data")[0], 10)
        (damaged,) = find_damage(place)
        with pytest.raises(NodeError, match="a replica can't be asked: nobody answers"):
            repair_file(damaged, [Absent()])
        assert not repair_file(damaged, [Absent(), LocalCopy(Location(str(path)))])
        assert find_damage(place) == []


@pytest.mark.slow
@pytest.mark.usefixtures("path")
def test_blocks_that_lie_far_apart_are_repaired_without_what_lies_between(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.owner.replica.NEAR_BYTES", 0)
    monkeypatch.setattr("holdfast.owner.replica.SPARSE", 2)
    with world.home.changing("plain") as place, world.home.holding("secret") as elsewhere:
        data = segments(world, place, "data")
        before = [segment.read_bytes() for segment in data]
        for segment in data:
            flip(segment, *range(0, segment.stat().st_size, 5 * BLOCK_BYTES))
        (damaged,) = find_damage(place)
        assert len(damaged.blocks.spans) > len(data)
        assert not repair_file(damaged, [copy_in(elsewhere)])
        assert [segment.read_bytes() for segment in data] == before


@pytest.fixture
def _far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two blocks of a small file lie far apart."""
    monkeypatch.setattr("holdfast.owner.replica.NEAR_BYTES", 0)


@pytest.mark.slow
@pytest.mark.usefixtures("path", "_far_apart")
def test_single_blocks_of_many_segments_are_repaired_by_one_request(world: World) -> None:
    with world.home.changing("plain") as place, world.home.holding("secret") as elsewhere:
        data = segments(world, place, "data")
        before = [segment.read_bytes() for segment in data]
        for segment in data[1:]:
            flip(segment, 7)
        (damaged,) = find_damage(place)
        repair = FileRepair(damaged.replica, Copies([copy_in(elsewhere)]))
        assert list(repair.windows(damaged.blocks)) == [damaged.blocks]
        assert not repair_file(damaged, [copy_in(elsewhere)])
        assert [segment.read_bytes() for segment in data] == before


@pytest.mark.slow
@pytest.mark.usefixtures("_far_apart")
@pytest.mark.parametrize("part", ["data", "tags"])
def test_a_segment_that_a_copy_lost_keeps_no_scattered_block_of_another_from_being_restored(
    world: World, path: Path, part: str
) -> None:
    with world.home.changing("plain") as place, world.home.holding("secret") as elsewhere:
        data = segments(world, place, "data")
        before = [segment.read_bytes() for segment in data]
        for segment in data[:-1]:
            flip(segment, 2 * BLOCK_BYTES)
        segments(world, elsewhere, part)[1].unlink()
        (damaged,) = find_damage(place)
        lost = repair_file(damaged, [copy_in(elsewhere)])
        assert lost.count == (1 if part == "data" else 0)
        assert not repair_file(damaged, [copy_in(elsewhere), LocalCopy(Location(str(path)))])
        assert [segment.read_bytes() for segment in data] == before


@pytest.mark.slow
@pytest.mark.usefixtures("path", "_far_apart")
def test_a_damaged_header_of_tags_is_put_back_with_scattered_blocks(world: World) -> None:
    with world.home.changing("plain") as place, world.home.holding("secret") as elsewhere:
        tags = segments(world, place, "tags")[0]
        before = tags.read_bytes()
        flip(tags, 20)
        for segment in segments(world, place, "data"):
            flip(segment, 7)
        (damaged,) = find_damage(place)
        assert not repair_file(damaged, [copy_in(elsewhere)])
        assert tags.read_bytes() == before
        assert find_damage(place) == []


@pytest.mark.usefixtures("path")
def test_blocks_are_divided_into_requests(world: World) -> None:
    with world.home.holding("plain") as place:
        replica = copy_in(place)
        size, end = replica.window_blocks, replica.header.blocks
        rng = random.Random(2)
        for count in (1, 3, 5, 20, end // 2, end):
            blocks = Spans.of_blocks(sorted(rng.sample(range(end), count)))
            parts = list(replica.divide(blocks))
            assert Spans().join(*parts) == blocks
            for part in parts:
                windows = {block // size for block in part.blocks.tolist()}
                assert len(windows) == 1 or SPARSE * part.count <= size
                assert len(windows) <= MAX_WINDOWS
                assert len(part.spans) <= MAX_SPANS


def test_the_copy_that_had_most_is_asked_first() -> None:
    copies = Copies([Absent(), Absent(), Absent()])
    copies.count_missed(0, 5)
    copies.count_missed(1, 3)
    assert copies.order() == [2, 1, 0]
    assert copies.read(2, []) is None
    assert copies.order() == [1, 0], "one that failed is asked no more"


@pytest.mark.slow
@pytest.mark.usefixtures("path")
def test_progress_counts_the_blocks_that_are_done(world: World) -> None:
    with world.home.changing("plain") as place, world.home.holding("secret") as elsewhere:
        zero(segments(world, place, "data"))
        searched: list[int] = []
        (damaged,) = find_damage(place, searched.append)
        assert searched == sorted(searched)
        assert searched[-1] == place.inventory.blocks
        repaired: list[int] = []
        repair_file(damaged, [copy_in(elsewhere)], repaired.append)
        assert repaired == sorted(repaired)
        assert repaired[-1] == damaged.blocks.count
