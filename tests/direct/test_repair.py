"""Repair of direct holdings: only what is suspect is read, and objects are written whole."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.direct_env import NAME, BucketStorage, DirectSite, FolderStorage

from holdfast.bench.object_server import Fault
from holdfast.control.audit_now import repair_and_audit
from holdfast.errors import InputError
from holdfast.evidence.leaf import Outcome
from holdfast.owner import find_damage, repair_holding
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct_operations import add_direct_holding, refresh_direct

pytestmark = pytest.mark.slow

VICTIM = "album/002.jpg"
DAMAGES: dict[str, Callable[[bytes], bytes] | None] = {
    "flipped": lambda content: b"?" + content[1:],
    "truncated": lambda content: content[:100],
    "zeroed": lambda content: bytes(len(content)),
    "replaced": lambda content: content[::-1],
    "extended": lambda content: content + b"more",
    "missing": None,
}


@contextmanager
def copy_of(place: DirectSite, folder: Path) -> Iterator[Path]:
    copy = FolderStorage(folder / "copy")
    for name, content in place.contents.items():
        copy.write(name, content)
    yield copy.folder


def damage(place: DirectSite, kind: str, name: str = VICTIM) -> None:
    harm = DAMAGES[kind]
    if harm is None:
        place.storage.remove(name)
    else:
        place.storage.rot(name, harm(place.contents[name]))


@pytest.mark.parametrize("kind", DAMAGES)
def test_an_object_is_put_back_from_a_folder_of_ones_own(
    place: DirectSite, tmp_path: Path, kind: str
) -> None:
    place.add()
    damage(place, kind)
    assert place.audit().outcome is Outcome.FAILED
    with copy_of(place, tmp_path) as copy:
        done = repair_and_audit(place.home, NAME, [str(copy)], deadline_seconds=30)
    assert [file.name for file in done.files] == [VICTIM]
    assert done.complete
    assert place.intact()
    seen = refresh_direct(place.home, NAME)
    assert (seen.enrolled, seen.changed, seen.vanished) == ((), (), ())


def test_an_object_is_put_back_from_another_holding_with_the_same_content(
    place: DirectSite, tmp_path: Path
) -> None:
    place.add()
    with copy_of(place, tmp_path) as copy:
        add_direct_holding(place.home, "copy", DirectAddress.of(str(copy)), sectors=3)
        damage(place, "missing")
        damage(place, "zeroed", "001.jpg")
        assert place.audit().outcome is Outcome.FAILED
        assert repair_and_audit(place.home, NAME, deadline_seconds=30).complete
    assert place.intact()


def test_what_no_copy_has_is_not_half_written(place: DirectSite, tmp_path: Path) -> None:
    place.add()
    damage(place, "truncated")
    before = place.storage.read(VICTIM)
    (tmp_path / "copy" / "album").mkdir(parents=True)
    (tmp_path / "copy" / VICTIM).write_bytes(b"something else")
    (file,) = repair_holding(place.home, NAME, [str(tmp_path / "copy")])
    assert file.lost == file.damaged
    assert place.storage.read(VICTIM) == before


def test_that_nothing_can_be_put_back_is_said_before_anything_is_read(bucket: DirectSite) -> None:
    bucket.add()
    damage(bucket, "zeroed")
    assert bucket.audit().outcome is Outcome.FAILED
    assert isinstance(bucket.storage, BucketStorage)
    server = bucket.storage.server
    before = server.sent_bytes
    with pytest.raises(InputError, match="no other holding has what 'photos' has lost"):
        repair_holding(bucket.home, NAME)
    server.fault = Fault.READ_ONLY
    with pytest.raises(InputError, match="nothing can be put back: can't write s3://bucket"):
        repair_holding(bucket.home, NAME, ["anything"])
    assert server.sent_bytes == before


def test_locating_reads_the_damaged_objects_once_and_no_others(bucket: DirectSite) -> None:
    bucket.fill(20, 100_000)
    bucket.add(sectors=16)
    for name in ("001.jpg", "003.jpg"):
        damage(bucket, "flipped", name)
    damage(bucket, "missing", "005.jpg")
    assert bucket.audit().outcome is Outcome.FAILED
    assert isinstance(bucket.storage, BucketStorage)
    server = bucket.storage.server
    before = server.sent_bytes
    with bucket.home.holding(NAME) as holding:
        found = find_damage(holding)
    assert {file.replica.file.name: file.blocks.count for file in found} == {
        "001.jpg": 1,
        "003.jpg": 1,
        "005.jpg": 202,
    }
    damaged = sum(len(bucket.contents[name]) for name in ("001.jpg", "003.jpg"))
    assert server.sent_bytes - before <= 1.01 * damaged


def test_all_objects_are_read_once_where_none_is_suspect(bucket: DirectSite) -> None:
    bucket.add(sectors=16)
    assert isinstance(bucket.storage, BucketStorage)
    server = bucket.storage.server
    before = server.sent_bytes
    with bucket.home.holding(NAME) as holding:
        assert find_damage(holding) == []
    assert server.sent_bytes - before == sum(map(len, bucket.contents.values()))
