"""Objects and files on a real SFTP server, and one that lets nobody in."""

import hashlib
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from tests.support.checks import check, open_at, sample_all
from tests.support.sftp_server import SftpServer, sftp_server

from holdfast.checkers.interface import Checker, Defect, Finding
from holdfast.checkers.stored_objects import open_objects
from holdfast.errors import UnreachableError

CONTENTS = [bytes([number]) * 50_000 for number in range(12)]
NAMES = [hashlib.sha256(content).hexdigest() for content in CONTENTS]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SftpServer]:
    with sftp_server(tmp_path / "sshd") as server:
        yield server


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    for name, content in zip(NAMES, CONTENTS, strict=True):
        (path / name[:1]).mkdir(parents=True, exist_ok=True)
        (path / name[:1] / name).write_bytes(content)
    return path


@pytest.fixture(params=["names", "manifest"])
def checker(
    server: SftpServer, data: Path, folder: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Checker:
    if request.param == "names":
        return open_at("names", server.address(data), folder, names="sha256")
    sums = tmp_path / "SUMS"
    sums.write_text("".join(f"{name}  {name[:1]}/{name}\n" for name in NAMES))
    return open_at("manifest", server.address(data), folder, manifest=str(sums))


@pytest.mark.slow
def test_objects_on_sftp_are_checked(checker: Checker, data: Path) -> None:
    sample = sample_all(checker)
    report = check(checker, sample)
    assert (report.finding, report.checked) == (Finding.INTACT, len(NAMES)), report.reason
    victim = f"{NAMES[3][:1]}/{NAMES[3]}"
    (data / victim).write_bytes(b"other")
    report = check(checker, sample)
    assert [(unit.name, unit.defect) for unit in report.damaged] == [(victim, Defect.CHANGED)]


def test_a_server_that_hangs_up_is_away_without_a_word_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up() -> None:
            while True:
                try:
                    listening.accept()[0].close()
                except OSError:
                    return

        thread = Thread(target=hang_up)
        thread.start()
        port = listening.getsockname()[1]
        with caplog.at_level(logging.DEBUG), pytest.raises(UnreachableError, match="can't reach"):
            open_objects(f"sftp://nobody@127.0.0.1:{port}/data")
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()
    assert not [record for record in caplog.records if record.name.startswith("paramiko")]
