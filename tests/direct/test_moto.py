"""A direct holding on a real implementation of S3, from its first object to its repair."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pytest
from tests.support.direct_env import NAME, DirectSite, FolderStorage
from tests.support.moto_server import moto_bucket
from tests.support.owner_env import PASSPHRASE, QUICK

from holdfast.control.audit_now import repair_and_audit
from holdfast.evidence.leaf import Outcome
from holdfast.owner import Home
from holdfast.owner.direct_operations import refresh_direct

pytestmark = pytest.mark.slow

VICTIM = "album/002.jpg"


@dataclass(frozen=True)
class MotoStorage:
    address: str

    def write(self, name: str, content: bytes) -> None:
        self._system.pipe_file(self._path(name), content)

    rot = write

    def read(self, name: str) -> bytes:
        return bytes(self._system.cat_file(self._path(name)))

    def remove(self, name: str) -> None:
        self._system.rm_file(self._path(name))

    @property
    def _system(self) -> Any:
        return fsspec.filesystem("s3", use_listings_cache=False)

    def _path(self, name: str) -> str:
        return f"{self.address}/{name}"


@pytest.fixture(scope="module")
def bucket_address() -> Iterator[str]:
    with moto_bucket() as address:
        yield address


@pytest.fixture
def place(bucket_address: str, tmp_path: Path) -> DirectSite:
    home = Home.create(tmp_path / "home", PASSPHRASE, QUICK)
    site = DirectSite(home, MotoStorage(f"{bucket_address}/{tmp_path.name}"))
    site.fill()
    return site


@pytest.mark.parametrize("beside", [False, True])
def test_a_bucket_is_enrolled_audited_and_repaired(
    place: DirectSite, tmp_path: Path, beside: bool
) -> None:
    assert set(place.add(beside=beside).enrolled) == set(place.contents)
    assert place.audit().outcome is Outcome.PASSED
    copy = FolderStorage(tmp_path / "copy")
    for name, content in place.contents.items():
        copy.write(name, content)
    place.storage.write(VICTIM, place.contents[VICTIM][::-1])
    place.storage.remove("001.jpg")
    place.storage.write("003.jpg", place.contents["003.jpg"][:500])
    result = place.audit(samples=1)
    assert result.outcome is Outcome.FAILED
    assert result.proof_detail.objects == (
        "gone: 001.jpg",
        "of another length: 003.jpg",
        f"written again with other content: {VICTIM}",
    )
    assert repair_and_audit(place.home, NAME, [str(copy.folder)], deadline_seconds=60).complete
    assert place.intact()
    done = refresh_direct(place.home, NAME)
    assert (done.enrolled, done.changed, done.vanished) == ((), (), ())
