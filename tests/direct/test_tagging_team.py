"""Processes that help to tag do it as one process does, and report their trouble."""

import multiprocessing
import random
from collections.abc import Callable

import pytest
from tests.support.direct_env import NAME, BucketStorage, DirectSite

from holdfast.bench.object_server import Fault, ObjectServer
from holdfast.errors import HoldfastError, StorageError, UnreachableError
from holdfast.evidence.leaf import Outcome
from holdfast.owner.direct import tagging_team
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct_operations import add_direct_holding

pytestmark = pytest.mark.slow

OBJECTS = 5


@pytest.fixture
def helped(bucket: DirectSite, monkeypatch: pytest.MonkeyPatch) -> DirectSite:
    """Return a bucket with large objects, all of which a second process tags one by one."""
    monkeypatch.setattr(tagging_team, "WORTH_PROCESSES", 0)
    monkeypatch.setattr(tagging_team, "cores", lambda: [0, 1])
    monkeypatch.setattr(tagging_team, "LARGE_AT_ONCE", 0)  # in this process
    monkeypatch.setattr(tagging_team, "BATCH_OBJECTS", 1)
    rng = random.Random(1)
    for name in bucket.contents:
        bucket.storage.remove(name)
    for number in range(OBJECTS):
        bucket.storage.write(f"{number}.raw", rng.randbytes(tagging_team.MEDIUM_BYTES + 1))
    return bucket


def server_of(site: DirectSite) -> ObjectServer:
    assert isinstance(site.storage, BucketStorage)
    return site.storage.server


def enrol(site: DirectSite, on_progress: Callable[[int], None]) -> None:
    address = DirectAddress.of(site.storage.address)
    add_direct_holding(site.home, NAME, address, sectors=16, on_progress=on_progress)


def test_what_another_process_tags_is_read_once_and_passes_its_audit(helped: DirectSite) -> None:
    shown: list[int] = []
    enrol(helped, shown.append)
    server = server_of(helped)
    total = sum(map(len, server.objects.values()))
    assert shown[-1] == total
    assert server.sent_bytes <= total + 1, "and one byte to see whether objects can be read"
    assert helped.audit(samples=460).outcome is Outcome.PASSED
    server.objects["bucket/photos/3.raw"] = bytes(tagging_team.MEDIUM_BYTES + 1)
    result = helped.audit(samples=460)
    assert (result.outcome, result.proof_detail.objects) == (Outcome.FAILED, ("damaged: 3.raw",))


@pytest.mark.parametrize("trouble", ["outage", "kill"])
def test_trouble_of_another_process_ends_the_enrolment_which_is_resumed(
    helped: DirectSite, trouble: str
) -> None:
    server = server_of(helped)

    def interrupt(_done: int) -> None:
        if trouble == "outage":
            server.fault = Fault.FORBIDDEN
        else:
            for child in multiprocessing.active_children():
                child.kill()

    expected: type[HoldfastError] = UnreachableError if trouble == "outage" else StorageError
    with pytest.raises(expected, match="can't read" if trouble == "outage" else "was killed"):
        enrol(helped, interrupt)
    server.fault = Fault.NONE
    before = server.sent_bytes
    enrol(helped, lambda _done: None)
    total = sum(map(len, server.objects.values()))
    assert server.sent_bytes - before < total, "what was tagged is not read again"
    assert helped.audit(samples=460).outcome is Outcome.PASSED
