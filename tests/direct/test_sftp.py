"""A direct holding on a real SFTP server."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.direct_env import NAME, DirectSite, FolderStorage
from tests.support.owner_env import PASSPHRASE, QUICK
from tests.support.sftp_server import SftpServer, sftp_server

from holdfast.control.audit_now import repair_and_audit
from holdfast.errors import InputError
from holdfast.evidence.leaf import Outcome
from holdfast.node.objects import LostError, open_objects
from holdfast.owner import Home
from holdfast.owner.direct_operations import refresh_direct

pytestmark = pytest.mark.slow

VICTIM = "album/002.jpg"


@dataclass(frozen=True)
class SftpStorage(FolderStorage):
    """A folder that its owner changes on the server, and Holdfast reaches by SFTP."""

    server: SftpServer | None = None

    @property
    def address(self) -> str:
        assert self.server is not None
        return self.server.address(self.folder)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SftpServer]:
    with sftp_server(tmp_path / "sshd") as server:
        yield server


@pytest.fixture
def place(server: SftpServer, tmp_path: Path) -> DirectSite:
    (tmp_path / "data").mkdir()
    home = Home.create(tmp_path / "home", PASSPHRASE, QUICK)
    site = DirectSite(home, SftpStorage(tmp_path / "data", server))
    site.fill()
    return site


def test_objects_on_sftp_are_enrolled_audited_and_repaired(
    place: DirectSite, tmp_path: Path
) -> None:
    assert set(place.add().enrolled) == set(place.contents)
    assert place.audit().outcome is Outcome.PASSED
    copy = FolderStorage(tmp_path / "copy")
    for name, content in place.contents.items():
        copy.write(name, content)
    place.storage.rot(VICTIM, place.contents[VICTIM][::-1])
    place.storage.remove("001.jpg")
    result = place.audit()
    assert result.outcome is Outcome.FAILED
    assert result.proof_detail.objects == ("gone: 001.jpg", f"damaged: {VICTIM}")
    assert repair_and_audit(place.home, NAME, [str(copy.folder)], deadline_seconds=30).complete
    assert place.intact()
    place.storage.write("new.jpg", b"new" * 1000)
    assert refresh_direct(place.home, NAME).enrolled == ("new.jpg",)


def test_ranges_and_losses_on_sftp(server: SftpServer, tmp_path: Path) -> None:
    content = bytes(range(256)) * 40_000  # 10 MB: hundreds of requests of SFTP
    (tmp_path / "file").write_bytes(content)
    objects = open_objects(server.address(tmp_path))
    assert objects.read_spans([("file", [(1000, 5_000_000), (9_000_000, 10)])]) == [
        content[1000:5_001_000],
        content[9_000_000:9_000_010],
    ]
    with pytest.raises(LostError, match="gone"):
        objects.read_spans([("nothing", [(0, 1)])])
    with pytest.raises(LostError, match="ends before byte"):
        objects.read_spans([("file", [(len(content) - 1, 2)])])


def test_a_server_with_another_key_than_the_known_one_is_refused(
    place: DirectSite, server: SftpServer
) -> None:
    known = server.folder / "home" / ".ssh" / "known_hosts"
    known.write_text("")
    with pytest.raises(InputError, match="not in known_hosts"):
        place.add()


def test_a_server_that_is_gone_is_offline(place: DirectSite, server: SftpServer) -> None:
    place.add()
    known = server.folder / "home" / ".ssh" / "id_ed25519"
    known.rename(known.with_name("elsewhere"))  # so that no new connection is let in
    assert place.audit(deadline=3).outcome is Outcome.OFFLINE
    known.with_name("elsewhere").rename(known)
    assert place.audit().outcome is Outcome.PASSED
