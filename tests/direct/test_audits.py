"""Audits of direct holdings: damage is named, an outage is never a loss, changes are told."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.direct_env import NAME, BucketStorage, DirectSite

from holdfast.bench.object_server import Fault
from holdfast.evidence.leaf import Outcome
from holdfast.owner.direct_operations import accept_changes, refresh_direct

pytestmark = pytest.mark.slow

VICTIM = "album/002.jpg"


def flip(content: bytes) -> bytes:
    return content[:1000] + bytes([content[1000] ^ 1]) + content[1001:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "flipped": flip,
    "truncated": lambda content: content[: len(content) // 2],
    "zeroed": lambda content: bytes(len(content)),
    "replaced": lambda content: content[::-1],
    "extended": lambda content: content + b"more",
    "emptied": lambda _content: b"",
}


def test_what_is_intact_passes(place: DirectSite) -> None:
    done = place.add()
    assert set(done.enrolled) == set(place.contents)
    result = place.audit()
    assert (result.outcome, result.reason, result.proof_detail.objects) == (Outcome.PASSED, "", ())
    assert place.intact()


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_that_no_listing_shows_is_found_and_named(place: DirectSite, damage: str) -> None:
    place.add()
    place.storage.rot(VICTIM, DAMAGES[damage](place.contents[VICTIM]))
    result = place.audit()
    assert result.outcome is Outcome.FAILED
    assert result.proof_detail.proof is not None
    assert VICTIM not in result.reason, "others read the evidence"
    assert len(result.proof_detail.objects) == 1
    assert VICTIM in result.proof_detail.objects[0]


@pytest.mark.parametrize("damage", [*DAMAGES, "missing"])
def test_what_a_listing_shows_fails_even_if_no_block_of_it_is_sampled(
    place: DirectSite, damage: str
) -> None:
    place.add()
    if damage == "missing":
        place.storage.remove(VICTIM)
    else:
        place.storage.write(VICTIM, DAMAGES[damage](place.contents[VICTIM]))
    result = place.audit(samples=1)
    assert result.outcome is Outcome.FAILED
    assert VICTIM in result.proof_detail.objects[0]
    assert result.reason.startswith("1 object is ")


def test_an_object_that_is_gone_is_no_time_out_and_takes_no_deadline(place: DirectSite) -> None:
    place.add()
    for name in list(place.contents)[:4]:
        place.storage.remove(name)
    result = place.audit(samples=3, deadline=3600)
    assert result.outcome is Outcome.FAILED
    assert result.reason == "4 objects are gone"


@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize("fault", [Fault.HANG, Fault.UNAVAILABLE, Fault.FORBIDDEN])
def test_a_bucket_in_trouble_is_offline(bucket: DirectSite, fault: Fault) -> None:
    bucket.add()
    assert isinstance(bucket.storage, BucketStorage)
    bucket.storage.server.fault = fault
    result = bucket.audit(deadline=3)
    assert result.outcome is Outcome.OFFLINE
    assert "s3://bucket/photos" in result.reason
    bucket.storage.server.fault = Fault.NONE
    assert bucket.audit().outcome is Outcome.PASSED


def test_a_bucket_that_is_gone_is_offline(bucket: DirectSite) -> None:
    bucket.add()
    assert isinstance(bucket.storage, BucketStorage)
    bucket.storage.server.objects.clear()
    assert bucket.audit(deadline=2).outcome is Outcome.OFFLINE


@pytest.mark.parametrize("emptied", [True, False])
def test_a_folder_that_is_not_mounted_is_offline(folder: DirectSite, emptied: bool) -> None:
    folder.add()
    data = Path(folder.storage.address)
    data.rename(data.with_name("elsewhere"))
    if emptied:
        data.mkdir()
    assert folder.audit(deadline=2).outcome is Outcome.OFFLINE
    if emptied:
        data.rmdir()
    data.with_name("elsewhere").rename(data)
    assert folder.audit().outcome is Outcome.PASSED


def test_tags_that_are_lost_say_nothing_about_the_data(place: DirectSite) -> None:
    place.add()
    with place.client() as client:
        shutil.rmtree(client.store.objects.address)
    assert place.audit(deadline=2).outcome is Outcome.OFFLINE


def test_tags_that_are_damaged_are_made_again_when_the_object_is_accepted(
    place: DirectSite,
) -> None:
    place.add()
    with place.client() as client:
        record = client.holding().record
        file = next(file for file in record.files if file.in_place == VICTIM)
        path = Path(client.store.objects.address, client.store.layout.upload(file.upload))
        (segment,) = path.iterdir()
        segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    result = place.audit(deadline=2)
    assert result.outcome is Outcome.OFFLINE
    assert result.reason.startswith("the tags of an object are damaged, while its data may be")
    assert refresh_direct(place.home, NAME).illegible == (VICTIM,)
    accept_changes(place.home, NAME, [VICTIM])
    assert refresh_direct(place.home, NAME).illegible == ()
    assert place.audit().outcome is Outcome.PASSED


def test_new_objects_are_told_until_they_are_enrolled(place: DirectSite) -> None:
    place.add()
    place.storage.write("new.jpg", b"new" * 1000)
    result = place.audit()
    assert result.outcome is Outcome.PASSED
    assert result.reason.startswith("1 new is not audited until `holdfast holding refresh`")
    assert refresh_direct(place.home, NAME).enrolled == ("new.jpg",)
    after = place.audit()
    assert (after.outcome, after.reason) == (Outcome.PASSED, "")
    assert after.units > result.units


def test_an_object_that_is_written_again_with_the_same_content_passes(place: DirectSite) -> None:
    place.add()
    if isinstance(place.storage, BucketStorage):  # where the same content has the same ETag
        place.storage.server.etags["bucket/photos/" + VICTIM] = "another"
    else:
        place.storage.write(VICTIM, place.contents[VICTIM])
    assert place.audit().outcome is Outcome.PASSED
    done = refresh_direct(place.home, NAME)
    assert (done.enrolled, done.changed, done.vanished) == ((), (), ())
    assert place.audit().outcome is Outcome.PASSED


def test_changes_are_told_by_every_audit_until_they_are_accepted(place: DirectSite) -> None:
    place.add()
    place.storage.write(VICTIM, b"another picture" * 300)
    place.storage.remove("001.jpg")
    for _ in range(2):
        done = refresh_direct(place.home, NAME)
        assert (done.enrolled, done.changed, done.vanished) == ((), (VICTIM,), ("001.jpg",))
        assert place.audit(samples=2).outcome is Outcome.FAILED
    accepted = accept_changes(place.home, NAME)
    assert (accepted.enrolled, accepted.vanished) == ((VICTIM,), ("001.jpg",))
    assert place.audit().outcome is Outcome.PASSED
    with place.home.catalogue() as catalogue:
        files = {file.name: file.version for file in catalogue.files(NAME)}
    assert files[VICTIM] == 2
    assert "001.jpg" not in files


def test_only_what_is_named_is_accepted(place: DirectSite) -> None:
    place.add()
    for name in (VICTIM, "001.jpg"):
        place.storage.write(name, b"another picture" * 300)
    accept_changes(place.home, NAME, [VICTIM])
    result = place.audit()
    assert result.outcome is Outcome.FAILED
    assert result.proof_detail.objects == ("of another length: 001.jpg",)


def test_an_audit_reads_little_and_writes_nothing(bucket: DirectSite) -> None:
    bucket.fill(40, 20_000)
    bucket.add()
    assert isinstance(bucket.storage, BucketStorage)
    server = bucket.storage.server
    before = (server.requests.copy(), server.sent_bytes)
    assert bucket.audit(samples=30).outcome is Outcome.PASSED
    requests = server.requests - before[0]
    assert set(requests) == {"list", "get"}
    assert requests["get"] <= 30
    assert requests["list"] <= 3
    assert server.sent_bytes - before[1] <= 30 * 5000


def test_a_second_process_that_enrols_is_noticed_by_one_that_audits(place: DirectSite) -> None:
    place.add()
    with place.client() as client, place.home.holding(NAME) as holding:
        assert client.inventory(holding.key_id).blocks == holding.inventory.blocks
        place.storage.write("new.jpg", b"new" * 1000)
        refresh_direct(place.home, NAME)
        assert client.inventory(holding.key_id).hash == holding.inventory.hash
