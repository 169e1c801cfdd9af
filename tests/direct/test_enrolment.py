"""Enrolment reads each byte once, resumes after a kill, and refuses what can't be audited."""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.command_line import PASSPHRASE, QuickShell
from tests.support.direct_env import (
    NAME,
    BucketStorage,
    DirectSite,
    FolderStorage,
)
from tests.support.owner_env import killed_at_boundary

from holdfast.bench.object_server import Fault
from holdfast.errors import InputError, StorageError, UnreachableError
from holdfast.evidence.leaf import Outcome
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct.journal import FILE as JOURNAL
from holdfast.owner.direct_operations import accept_changes, add_direct_holding, refresh_direct

pytestmark = pytest.mark.slow


def server_of(site: DirectSite) -> BucketStorage:
    assert isinstance(site.storage, BucketStorage)
    return site.storage


def test_every_byte_is_read_once_and_objects_are_listed_by_the_page(bucket: DirectSite) -> None:
    bucket.storage.write("large", random.Random(1).randbytes(20_000_000))
    done = bucket.add(sectors=16)
    server = server_of(bucket).server
    total = sum(len(content) for content in server.objects.values())
    assert done.bytes == total
    assert server.sent_bytes <= total + 1, "and one byte to see whether objects can be read"
    assert "head" not in server.requests
    assert server.requests["list"] <= 6
    assert bucket.audit(samples=460).outcome is Outcome.PASSED


def test_nothing_is_read_again_when_nothing_is_new(bucket: DirectSite) -> None:
    bucket.add()
    server = server_of(bucket).server
    before = server.sent_bytes
    done = refresh_direct(bucket.home, NAME)
    assert (done.enrolled, server.sent_bytes) == ((), before)


def test_an_enrolment_that_is_killed_reads_nothing_again_that_it_has_tagged(
    bucket: DirectSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.fill(300, 4000)
    server = server_of(bucket).server
    server.delay_seconds = 0.2
    monkeypatch.setenv("HOLDFAST_HOME", str(bucket.home.folder))
    command = ("holding", "add", NAME, "--direct", bucket.storage.address, "--sectors", "2")
    shell = QuickShell(tmp_path)
    with shell.start(*command, passphrase=PASSPHRASE) as process:
        tagged = wait_for_tagged(bucket.home.folder, 100)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    tagged = journalled(bucket.home.folder)
    assert 100 <= len(tagged) < 300
    server.delay_seconds = 0.0
    reads = server.reads.copy()
    finished = shell.run(*command, "--json")
    assert finished.code == 0, finished
    assert finished.data["enrolled"] == 300
    again = server.reads - reads
    assert not [name for name in tagged if again[f"bucket/photos/{name}"] > 1]
    assert sum(again[f"bucket/photos/{name}"] for name in tagged) <= 1, "to see if it can be read"
    assert not list(bucket.home.folder.glob(f"holdings/*/{JOURNAL}"))
    assert bucket.audit().outcome is Outcome.PASSED
    with bucket.client() as client:
        assert client.store.unaccepted(client.holding().record) == []


def wait_for_tagged(home: Path, count: int) -> list[str]:
    end = time.monotonic() + 120
    while len(tagged := journalled(home)) < count:
        assert time.monotonic() < end, f"only {len(tagged)} objects were tagged"
        time.sleep(0.02)
    return tagged


def journalled(home: Path) -> list[str]:
    """Return the names in whole lines of the journal."""
    return [
        json.loads(line)["name"]
        for path in home.glob(f"holdings/*/{JOURNAL}")
        for line in path.read_text().split("\n")[:-1]
        if line.startswith("{") and line.endswith("}")
    ]


def test_a_kill_at_any_commit_is_made_good(folder: DirectSite) -> None:
    def kill(act: Callable[[], object]) -> int:
        number = 1
        while killed_at_boundary(number, act):
            number += 1
        return number

    assert kill(folder.add) > 3
    folder.storage.write("new.jpg", b"new" * 1000)
    assert kill(lambda: refresh_direct(folder.home, NAME)) > 1
    with folder.home.catalogue() as catalogue:
        assert len(catalogue.files(NAME)) == len(folder.contents) + 1
    assert folder.audit().outcome is Outcome.PASSED


def test_an_acceptance_that_is_killed_is_made_good(folder: DirectSite) -> None:
    folder.add()
    folder.storage.write("001.jpg", b"another" * 500)
    folder.storage.remove("003.jpg")
    number = 1
    while killed_at_boundary(number, lambda: accept_changes(folder.home, NAME)):
        number += 1
    refresh_direct(folder.home, NAME)
    assert folder.audit().outcome is Outcome.PASSED


def test_an_outage_in_the_middle_is_resumed(bucket: DirectSite) -> None:
    bucket.fill(60, 4000)
    server = server_of(bucket).server

    faults = [Fault.FORBIDDEN]  # once: other threads may still report after the end

    def interrupt(done: int) -> None:
        if done > 80_000 and faults:
            server.fault = faults.pop()

    address = DirectAddress.of(bucket.storage.address)
    with pytest.raises(UnreachableError):
        add_direct_holding(bucket.home, NAME, address, sectors=2, on_progress=interrupt)
    server.fault = Fault.NONE
    tagged = journalled(bucket.home.folder)
    reads = server.reads.copy()
    assert len(bucket.add().enrolled) == 60
    again = server.reads - reads
    assert sum(again[f"bucket/photos/{name}"] for name in tagged) <= 1
    assert bucket.audit().outcome is Outcome.PASSED


def test_an_object_that_is_written_while_it_is_read_is_left_for_the_next_time(
    place: DirectSite,
) -> None:
    address = DirectAddress.of(place.storage.address)
    written: list[str] = []

    def write(_done: int) -> None:
        if not written:
            written.append("001.jpg")
            place.storage.write("001.jpg", b"written meanwhile" * 200)

    _, done = add_direct_holding(place.home, NAME, address, sectors=2, on_progress=write)
    assert done.unsettled == ("001.jpg",)
    assert "001.jpg" not in done.enrolled
    assert refresh_direct(place.home, NAME).enrolled == ("001.jpg",)
    assert place.audit().outcome is Outcome.PASSED


def test_links_and_names_that_no_node_takes_are_left_out_and_said(folder: DirectSite) -> None:
    assert isinstance(folder.storage, FolderStorage)
    data = folder.storage.folder
    (data / "link").symlink_to("001.jpg")
    (data / "back\\slash").write_bytes(b"x")
    (data / "line\nbreak").write_bytes(b"x")
    done = folder.add()
    assert done.left_out == ("back\\slash", "line\nbreak", "link")
    assert folder.audit().reason == ""


def test_folder_markers_of_a_bucket_are_no_objects(bucket: DirectSite) -> None:
    bucket.storage.write("album/", b"")
    assert bucket.add().left_out == ()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("s3://elsewhere/photos", "NoSuchBucket|specified bucket does not exist|nothing at"),
        ("s3://bucket/nothing", "there are no objects at s3://bucket/nothing"),
        ("s3://key:secret@bucket/photos", "must not contain a password"),
        ("nonsense://bucket", "can't use nonsense://bucket"),
        ("/nowhere/at/all", "is the address right"),
    ],
)
def test_an_address_without_objects_is_refused_and_nothing_is_saved(
    bucket: DirectSite, address: str, said: str
) -> None:
    with pytest.raises(InputError, match=said) as refused:
        add_direct_holding(bucket.home, NAME, DirectAddress.of(address), sectors=2)
    assert "secret" not in str(refused.value)
    with bucket.home.catalogue() as catalogue:
        assert catalogue.holdings() == []


def test_without_the_right_to_read_nothing_is_saved(bucket: DirectSite) -> None:
    server_of(bucket).server.fault = Fault.FORBIDDEN
    with pytest.raises(InputError, match="may you read it"):
        bucket.add()
    with bucket.home.catalogue() as catalogue:
        assert catalogue.holdings() == []


def test_a_name_is_taken_once(place: DirectSite) -> None:
    place.add()
    with pytest.raises(InputError, match="holding refresh photos"):
        place.add()


def test_tags_beside_the_data_are_no_objects_and_need_the_right_to_write(
    place: DirectSite,
) -> None:
    place.add(beside=True)
    result = place.audit()
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    with place.home.catalogue() as catalogue:
        assert len(catalogue.files(NAME)) == len(place.contents)
    with place.client() as client:
        assert client.store.objects.address == f"{place.storage.address}/.holdfast"
    assert refresh_direct(place.home, NAME).enrolled == ()


def test_tags_are_not_put_beside_data_that_can_not_be_written(bucket: DirectSite) -> None:
    server_of(bucket).server.fault = Fault.READ_ONLY
    with pytest.raises((InputError, StorageError), match="can't write s3://bucket/photos"):
        bucket.add(beside=True)
    with bucket.home.catalogue() as catalogue:
        assert catalogue.holdings() == []
    bucket.add()
    assert bucket.audit().outcome is Outcome.PASSED
