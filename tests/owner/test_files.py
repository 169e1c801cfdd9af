"""Files put on nodes, had back, changed and removed."""

import fcntl
import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.support.owner_env import BLOCK_BYTES, PASSPHRASE, World, flip
from tests.support.small_node import SEGMENT_BYTES

from holdfast.api.home import open_home
from holdfast.errors import InputError, RefusedError, StorageError
from holdfast.owner import Original, Replica, download, get, put, remove
from holdfast.owner.catalogue import Intent
from holdfast.pdp import Location
from holdfast.pdp.tagfile import PAGE_TAGS

CONTENT = random.Random(1).randbytes(3 * SEGMENT_BYTES + 1000)
RUN_BYTES = 16 * PAGE_TAGS * BLOCK_BYTES
LONG = random.Random(2).randbytes(3 * RUN_BYTES + 1000)


def had_back(world: World, holding: str, name: str = "file", *others: str) -> bytes | None:
    """Return what `get` writes, None if something is lost."""
    out = world.folder / "out"
    out.unlink(missing_ok=True)
    with world.home.holding(holding) as place:
        elsewhere = []
        for other in others:
            opened = world.home.holding(other)
            elsewhere.append(Replica(there := opened.__enter__(), there.file(name)))
        fetched = get(Replica(place, place.file(name)), elsewhere, out)
    assert bool(fetched.lost) != out.exists()
    return out.read_bytes() if out.exists() else None


@pytest.mark.parametrize("holding", ["plain", "secret"])
@pytest.mark.parametrize("length", [0, 1, BLOCK_BYTES, 10 * BLOCK_BYTES, SEGMENT_BYTES, 10_000])
def test_what_is_put_is_had_back(world: World, holding: str, length: int) -> None:
    content = CONTENT[:length]
    world.put(holding, world.file(content))
    assert had_back(world, holding) == content


def test_an_encrypted_holding_shows_the_node_nothing_of_the_file(world: World) -> None:
    path = world.file(b"a secret that nobody else may read" * 500)
    for holding, node in (("plain", world.one), ("secret", world.two)):
        world.put(holding, path)
        with world.home.holding(holding) as place:
            stored = b"".join(p.read_bytes() for p in node.stored(place, "data"))
        assert len(stored) == path.stat().st_size
        assert (b"secret" in stored) == (holding == "plain")


def test_an_unchanged_file_costs_nothing(world: World) -> None:
    path = world.file(CONTENT)
    first, second = world.put("plain", path), world.put("plain", path)
    assert first.sent > len(CONTENT)
    assert (second.file, second.sent) == (first.file, 0)


@pytest.mark.parametrize("holding", ["plain", "secret"])
def test_a_changed_file_becomes_a_new_version_in_its_place(world: World, holding: str) -> None:
    first = world.put(holding, world.file(CONTENT)).file
    world.put(holding, world.file(b"another", "other"))
    second = world.put(holding, world.file(CONTENT[::-1])).file
    assert (second.file_id, second.version) == (first.file_id, 2)
    assert had_back(world, holding) == CONTENT[::-1]
    with world.home.changing(holding) as place:  # which compares with the node
        assert [file.name for file in place.catalogue.files(holding)] == ["file", "other"]


@pytest.mark.parametrize("name", [b" ", b"a\nb", b"a/b", b"..up", b"x" * 255, "größe".encode()])
def test_a_name_may_be_any_relative_path(world: World, name: bytes) -> None:
    called = os.fsdecode(name)
    world.put("plain", world.file(name), called)
    assert had_back(world, "plain", called) == name


BAD_NAMES = {
    "": "it is empty",
    "a\0b": "it contains a NUL",
    "/etc/passwd": "it is an absolute path",
    "../up": "a part of it is empty",
    "a/../b": "a part of it is empty",
    "a//b": "a part of it is empty",
    "a/": "a part of it is empty",
    ".": "a part of it is empty",
    "\udcff\udcfe": "it is not valid Unicode",
    "\ud800": "it is not valid Unicode",
    "x" * 256: "a part of it has 256 bytes",
    "x/" * 600 + "x": "it has 1201 bytes",
}


@pytest.mark.parametrize("name", BAD_NAMES, ids=range(len(BAD_NAMES)))
def test_a_name_that_can_not_be_restored_is_refused(world: World, name: str) -> None:
    path = world.file(CONTENT)
    original = Original.of(Location(str(path)), SEGMENT_BYTES)
    home = open_home(world.home.folder, PASSPHRASE)
    with world.home.changing("plain") as place:
        for act in (
            partial(put, place, name, original),
            partial(remove, place, name),
            partial(home.put, path, name=name),
            partial(home.get, name, world.folder / "out"),
        ):
            with pytest.raises(InputError, match=BAD_NAMES[name]) as refused:
                act()
            assert len(str(refused.value)) < 200
        assert not place.catalogue.files("plain")
        assert not place.catalogue.intents("plain")


def test_a_path_that_no_file_can_have_is_refused_by_a_sentence(world: World) -> None:
    home = open_home(world.home.folder, PASSPHRASE)
    with pytest.raises(InputError, match="no file can have that name"):
        home.put("a\0b", name="fine")


@pytest.mark.slow
def test_an_older_version_is_had_while_a_node_still_has_it(world: World) -> None:
    home, out = open_home(world.home.folder, PASSPHRASE), world.folder / "out"
    home.put(world.file(b"one"))
    home.put(world.file(b"two"), to=["plain"])
    home.get("file", out, version=1)
    assert out.read_bytes() == b"one", "secret has it"
    out.unlink()
    home.get("file", out, version=2)
    assert out.read_bytes() == b"two"
    with pytest.raises(InputError, match=r"has version 2.* only until the next one is complete"):
        home.get("file", world.folder / "more", holding="plain", version=1)
    with pytest.raises(InputError, match="version 3 of 'file' is not on any node"):
        home.get("file", world.folder / "more", version=3)


@pytest.mark.slow
def test_a_removed_file_is_gone_and_may_come_again(world: World) -> None:
    path = world.file(CONTENT)
    first = world.put("plain", path).file
    with world.home.changing("plain") as place:
        remove(place, "file")
        assert not world.one.stored(place, "data")
        with pytest.raises(InputError, match="has no file 'file'"):
            place.file("file")
    second = world.put("plain", path).file
    assert second.file_id != first.file_id
    assert had_back(world, "plain") == CONTENT


def test_what_was_never_there_is_not_removed(world: World) -> None:
    with (
        world.home.changing("plain") as place,
        pytest.raises(InputError, match="has no file 'nothing'"),
    ):
        remove(place, "nothing")


@pytest.mark.parametrize("holding", ["plain", "secret"])
def test_a_sound_file_is_fetched_without_its_tags(
    world: World, holding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SHA-256 of the whole says that every block is right."""
    world.put(holding, world.file(CONTENT))
    monkeypatch.delattr(Replica, "tags")
    assert had_back(world, holding) == CONTENT


def test_bad_blocks_are_taken_from_another_replica(world: World) -> None:
    path = world.file(CONTENT)
    world.put("plain", path)
    world.put("secret", path)
    with world.home.holding("plain") as place:
        flip(world.one.stored(place, "data")[0], 5, 700, 4095)
        world.one.stored(place, "data")[2].unlink()
    assert had_back(world, "plain") is None
    assert had_back(world, "plain", "file", "secret") == CONTENT


def test_what_is_bad_on_both_nodes_is_lost(world: World) -> None:
    path = world.file(CONTENT)
    for holding, node in (("plain", world.one), ("secret", world.two)):
        world.put(holding, path)
        with world.home.holding(holding) as place:
            flip(node.stored(place, "data")[0], 2000)
    out = world.folder / "out"
    with world.home.holding("plain") as place, world.home.holding("secret") as other:
        replica = Replica(place, place.file("file"))
        fetched = get(replica, [Replica(other, other.file("file"))], out)
    block = 2000 // BLOCK_BYTES
    assert fetched.lost == ((block * BLOCK_BYTES, BLOCK_BYTES),)
    assert not out.exists()


def stop_at(progress: int) -> Callable[[int], None]:
    def reached(done: int) -> None:
        if done >= progress:
            raise KeyboardInterrupt

    return reached


@pytest.fixture
def begun(world: World, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return what is left of an interrupted `get`: two runs of three and a bit, on both nodes."""
    monkeypatch.setattr(download, "RUN_BYTES", RUN_BYTES)
    path = world.file(LONG)
    world.put("plain", path)
    world.put("secret", path)
    with world.home.holding("plain") as place, pytest.raises(KeyboardInterrupt):
        get(Replica(place, place.file("file")), [], world.folder / "out", stop_at(2 * RUN_BYTES))
    assert not (world.folder / "out").exists()
    (draft,) = world.folder.glob(".out.*")
    assert len(draft.read_bytes()) == 2 * RUN_BYTES
    return draft


@pytest.mark.parametrize(
    ("holding", "least"), [("plain", 2 * RUN_BYTES), ("secret", RUN_BYTES // 2)]
)
def test_a_get_that_was_interrupted_goes_on_whoever_has_the_rest(
    world: World, begun: Path, holding: str, least: int
) -> None:
    out = world.folder / "out"
    with world.home.holding(holding) as place:  # whose runs may end elsewhere
        fetched = get(Replica(place, place.file("file")), [], out)
    assert least <= fetched.kept <= 2 * RUN_BYTES
    assert (fetched.bad, fetched.lost) == ((), ())
    assert out.read_bytes() == LONG
    assert not begun.exists()


@pytest.mark.parametrize("at", [0, RUN_BYTES - 1, RUN_BYTES])
def test_what_is_kept_is_believed_no_more_than_a_node(world: World, begun: Path, at: int) -> None:
    flip(begun, at)
    with world.home.holding("plain") as place:
        fetched = get(Replica(place, place.file("file")), [], world.folder / "out")
    assert (fetched.kept, fetched.bad) == (RUN_BYTES, ())
    assert (world.folder / "out").read_bytes() == LONG


@pytest.mark.slow
def test_what_is_kept_makes_good_what_the_node_has_lost_since(world: World, begun: Path) -> None:
    assert begun.exists()
    with world.home.holding("plain") as place:
        flip(world.one.stored(place, "data")[0], 5)
    assert had_back(world, "plain") == LONG


@pytest.mark.slow
def test_if_a_part_is_lost_nothing_stays_of_the_rest(world: World, begun: Path) -> None:
    with world.home.holding("plain") as place:
        world.one.stored(place, "data")[-1].unlink()
    assert had_back(world, "plain") is None
    assert not begun.exists()


def test_one_file_is_not_written_by_two_at_once(world: World, begun: Path) -> None:
    with world.home.holding("plain") as place, begun.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another process is writing"):
            get(Replica(place, place.file("file")), [], world.folder / "out")
    assert len(begun.read_bytes()) == 2 * RUN_BYTES


def test_nothing_is_written_into_what_is_not_ours_alone(
    world: World, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, precious, before = world.folder / "out", world.folder / "precious", begun.read_bytes()
    with world.home.holding("plain") as place:
        replica = Replica(place, place.file("file"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: begun.stat().st_uid + 1)
            with pytest.raises(InputError, match="not ours alone"):
                get(replica, [], out)
        precious.hardlink_to(begun)
        with pytest.raises(InputError, match="not ours alone"):
            get(replica, [], out)
        begun.unlink()
        begun.symlink_to(precious)
        with pytest.raises(StorageError, match="can't write"):
            get(replica, [], out)
    assert precious.read_bytes() == before


def test_damaged_tags_alone_lose_nothing(world: World) -> None:
    world.put("plain", world.file(CONTENT))
    with world.home.holding("plain") as place:
        for segment in world.one.stored(place, "tags"):
            flip(segment, 200, 2000)
    assert had_back(world, "plain") == CONTENT


def test_a_node_that_returns_another_version_is_not_believed(world: World) -> None:
    path = world.file(CONTENT)
    world.put("plain", path)
    with world.home.holding("plain") as place:
        old = [segment.read_bytes() for segment in world.one.stored(place, "data")]
    world.put("plain", world.file(CONTENT[::-1]))
    with world.home.holding("plain") as place:
        for segment, content in zip(world.one.stored(place, "data"), old, strict=True):
            segment.write_bytes(content)
    assert had_back(world, "plain") is None


def test_a_file_that_changes_meanwhile_goes_out_under_no_nonce(world: World) -> None:
    path = world.file(CONTENT)
    original = Original.of(Location(str(path)), SEGMENT_BYTES)
    path.write_bytes(CONTENT[::-1])
    with (
        world.home.changing("secret") as place,
        pytest.raises(StorageError, match="changed while it was being put"),
    ):
        put(place, "file", original, processes=1)
    with world.home.changing("secret") as place:
        assert not place.catalogue.intents("secret")
        assert not list((place.folder / "tags").iterdir())
        assert not world.two.stored(place, "tags")
    assert world.put("secret", path).file.version == 1
    assert had_back(world, "secret") == CONTENT[::-1]


def test_tags_of_a_file_that_changed_meanwhile_are_never_taken_up_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.file(CONTENT)
    original = Original.of(Location(str(path)), SEGMENT_BYTES)
    path.write_bytes(CONTENT[::-1])
    with monkeypatch.context() as patch, world.home.changing("plain") as place:
        patch.setattr("holdfast.owner.upload.abandon", interrupted)  # as by a kill just then
        with pytest.raises(KeyboardInterrupt):
            put(place, "file", original, processes=1)
        (intent,) = place.catalogue.intents("plain")
        assert not place.tags_path(intent.file).exists()
    path.write_bytes(CONTENT)
    stored = world.put("plain", path).file
    assert stored.nonce != intent.file.nonce, "tags are made once under a nonce"
    with world.home.holding("plain") as place:
        assert Replica(place, place.file("file")).run(0, 100).bad == []


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("holding", ["plain", "secret"])
def test_a_segment_that_changes_after_tagging_is_never_sent(world: World, holding: str) -> None:
    """Before: an encrypted holding sent the changed segment under the same keystream."""
    path = world.file(CONTENT)
    status = path.stat()
    original = Original.of(Location(str(path)), SEGMENT_BYTES)
    path.write_bytes(CONTENT[:-1] + b"?")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # so that nobody sees it
    node = world.one if holding == "plain" else world.two
    with (
        world.home.changing(holding) as place,
        pytest.raises(StorageError, match="changed while it was being put"),
    ):
        put(place, "file", original, processes=1)
    with world.home.changing(holding) as place:
        assert not place.catalogue.intents(holding)
        assert not node.stored(place, "data")


@pytest.mark.slow
def test_a_home_that_disagrees_with_its_node_changes_nothing(world: World) -> None:
    kept = world.put("plain", world.file(CONTENT)).file
    with world.home.catalogue() as catalogue:
        catalogue.conclude("plain", Intent(kept, removes=True))
    with world.home.holding("plain") as place:
        with pytest.raises(RefusedError, match="disagree on what is stored"):
            world.put("plain", world.file(b"another", "other"))
        assert not place.catalogue.intents("plain")
        assert not list((place.folder / "tags").iterdir())


@pytest.mark.slow
def test_an_unfinished_put_is_given_up_for_other_content(world: World) -> None:
    path = world.file(CONTENT)
    original = Original.of(Location(str(path)), SEGMENT_BYTES)

    def interrupt(done: int) -> None:
        if done > original.content.length + 3 * SEGMENT_BYTES:
            raise KeyboardInterrupt

    with world.home.changing("plain") as place, pytest.raises(KeyboardInterrupt):
        put(place, "file", original, processes=1, on_progress=interrupt)
    with world.home.changing("plain") as place:
        (intent,) = place.catalogue.intents("plain")
        assert world.one.stored(place, "data"), "some of it had arrived"
    stored = world.put("plain", world.file(CONTENT[::-1])).file
    assert (stored.file_id, stored.version) == (intent.file.file_id, 2)
    with world.home.changing("plain") as place:
        segments = world.one.stored(place, "data")
        assert b"".join(map(Path.read_bytes, segments)) == CONTENT[::-1]


def test_an_unfinished_put_is_given_up_by_removing_it(world: World) -> None:
    path = world.file(CONTENT)
    original = Original.of(Location(str(path)), SEGMENT_BYTES)

    def interrupt(done: int) -> None:
        if done > original.content.length:
            raise KeyboardInterrupt

    with world.home.changing("plain") as place, pytest.raises(KeyboardInterrupt):
        put(place, "file", original, processes=1, on_progress=interrupt)
    with world.home.changing("plain") as place:
        remove(place, "file")
        assert not place.catalogue.intents("plain")
        assert not world.one.stored(place, "tags")


@pytest.mark.slow
@pytest.mark.parametrize("holding", ["plain", "secret"])
def test_a_put_whose_tags_are_lost_is_begun_anew_under_another_nonce(
    world: World, holding: str
) -> None:
    path = world.file(CONTENT)
    original = Original.of(Location(str(path)), SEGMENT_BYTES)
    with world.home.changing(holding) as place, pytest.raises(KeyboardInterrupt):
        put(place, "file", original, processes=1, on_progress=stop_at(2 * len(CONTENT) - 1))
    with world.home.changing(holding) as place:
        (intent,) = place.catalogue.intents(holding)
        place.tags_path(intent.file).unlink()
    stored = world.put(holding, path).file
    assert (stored.version, stored.file_id) == (1, intent.file.file_id)
    assert stored.nonce != intent.file.nonce
    assert had_back(world, holding) == CONTENT


@pytest.mark.slow
def test_a_put_that_resumes_keeps_its_nonce_and_its_tags(world: World) -> None:
    path = world.file(CONTENT)
    original = Original.of(Location(str(path)), SEGMENT_BYTES)
    with world.home.changing("secret") as place, pytest.raises(KeyboardInterrupt):
        put(place, "file", original, processes=1, on_progress=stop_at(2 * len(CONTENT) - 1))
    with world.home.changing("secret") as place:
        (intent,) = place.catalogue.intents("secret")
    done = world.put("secret", path)
    assert done.file == intent.file
    assert done.sent < len(CONTENT)
    assert had_back(world, "secret") == CONTENT


def two_files(world: World) -> tuple[Path, Path]:
    for name in ("a", "b"):
        (world.folder / name).mkdir()
    return world.file(b"the first", "a/x"), world.file(b"the second", "b/x")


def test_a_file_of_the_same_name_from_another_path_is_refused(world: World) -> None:
    """Before: the second file became version 2 of the first, and the first was gone."""
    first, second = two_files(world)
    world.put("plain", first)
    with pytest.raises(InputError, match="--replace") as caught:
        world.put("plain", second)
    assert str(first) in str(caught.value)
    assert str(second) in str(caught.value)
    assert had_back(world, "plain", "x") == b"the first"
    world.put("plain", second, "b-x")
    first.write_bytes(b"the first, changed")
    assert world.put("plain", first).file.version == 2
    assert had_back(world, "plain", "b-x") == b"the second"


def test_the_same_content_from_another_path_is_another_file_all_the_same(world: World) -> None:
    first, second = two_files(world)
    second.write_bytes(first.read_bytes())
    world.put("plain", first)
    with pytest.raises(InputError, match="is another file"):
        world.put("plain", second)


def test_an_unfinished_put_is_not_given_up_for_a_file_from_another_path(world: World) -> None:
    first, second = two_files(world)
    original = Original.of(Location(str(first)), SEGMENT_BYTES)
    with world.home.changing("plain") as place, pytest.raises(KeyboardInterrupt):
        put(place, "x", original, processes=1, on_progress=stop_at(1))
    with pytest.raises(InputError, match="is another file"):
        world.put("plain", second)
    world.put("plain", first)


def test_a_file_that_was_moved_is_put_again_when_the_owner_says_so(world: World) -> None:
    first, second = two_files(world)
    world.put("plain", first)
    moved = first.rename(world.folder / "moved")
    done = world.put("plain", moved, "x", replace_other=True)
    assert (done.file.version, done.sent, done.file.source) == (1, 0, str(moved))
    assert world.put("plain", moved, "x").sent == 0
    done = world.put("plain", second, replace_other=True)
    assert (done.file.version, done.file.source) == (2, str(second))
    assert had_back(world, "plain", "x") == b"the second"


def test_one_file_by_two_paths_is_one_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = two_files(world)
    world.put("plain", first)
    (world.folder / "link").symlink_to("a")
    monkeypatch.chdir(world.folder / "b")
    for path in (
        world.folder / "link" / "x",
        Path("../a/x"),
        world.folder / "b" / ".." / "a" / "x",
    ):
        assert world.put("plain", path).sent == 0
