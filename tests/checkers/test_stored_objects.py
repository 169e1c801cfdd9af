"""A server that fails for a moment, in the middle, or that knows no sizes and ranges."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.support.checks import open_at, sample_all

from holdfast.checkers import stored_objects
from holdfast.checkers.hash_names import NamesChecker
from holdfast.checkers.interface import Finding, Report
from holdfast.checkers.stored_objects import GoneError, open_objects
from holdfast.errors import UnreachableError

Fault = Callable[[str, int], bool]  # whether to refuse the nth request for a path


class Server(ThreadingHTTPServer):
    """Serves the files of a folder over HTTP, by whole files, and fails where it is told to."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.requests: Counter[str] = Counter()
        self.fault: Fault = lambda _path, _number: False
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        server.requests[self.path] += 1
        if server.fault(self.path, server.requests[self.path]):
            self.send_error(503)
        else:
            super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
        pass


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    for size in range(0, 60_000, 1000):
        content = os.urandom(size)
        (path / hashlib.sha256(content).hexdigest()).write_bytes(content)
    return path


@pytest.fixture
def server(data: Path) -> Iterator[Server]:
    with Server(data) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def checker(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> NamesChecker:
    monkeypatch.setattr("holdfast.checkers.hashed_objects.RETRY_DELAY_SECONDS", 0.01)
    checker = open_at("names", server.url, folder, names="sha256")
    assert isinstance(checker, NamesChecker)
    return checker


def run(checker: NamesChecker, on_progress: Callable[[int, int], None] | None = None) -> Report:
    return checker.run(sample_all(checker), on_progress or (lambda _done, _total: None))


@pytest.mark.slow
def test_objects_of_unknown_sizes_are_read_whole(checker: NamesChecker) -> None:
    assert checker.extent().bytes == 0
    report = run(checker)
    assert (report.finding, report.checked) == (Finding.INTACT, 60)
    assert report.requests == 61, "one lists them, and one reads each"


@pytest.mark.slow
def test_an_error_that_passes_is_no_outage(checker: NamesChecker, server: Server) -> None:
    server.fault = lambda path, number: len(path) > 60 and number == 1
    report = run(checker)
    assert (report.finding, report.checked, report.reason) == (Finding.INTACT, 60, "")


@pytest.mark.slow
def test_an_outage_in_mid_check_is_no_damage_and_what_was_read_counts(
    checker: NamesChecker, server: Server
) -> None:
    def fail(_done: int, _total: int) -> None:
        server.fault = lambda _path, _number: True

    report = run(checker, fail)
    assert report.finding is Finding.UNREACHABLE
    assert f"can't read {server.url}/" in report.reason
    assert report.damaged == ()
    assert 0 < report.checked == len(report.verified) < 60


@pytest.mark.slow
def test_damage_that_was_seen_before_an_outage_is_told(
    checker: NamesChecker, server: Server, data: Path
) -> None:
    first = min(data.iterdir())
    first.write_bytes(b"other")

    def fail(_done: int, _total: int) -> None:
        if server.requests[f"/{first.name}"] >= 2:
            server.fault = lambda _path, _number: True

    report = run(checker, fail)
    assert report.finding is Finding.DAMAGED
    assert [unit.name for unit in report.damaged] == [first.name]


def test_ranges_that_are_not_what_was_asked_for_are_no_damage(
    server: Server, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_objects, "REMOTE_PIECE_BYTES", 100)
    objects = open_objects(server.url)
    largest = max(data.iterdir(), key=lambda path: path.stat().st_size)
    name = largest.name
    assert b"".join(objects.pieces(name, objects.size(name))) == largest.read_bytes()
    with pytest.raises(UnreachableError, match="gives no ranges"):
        [*objects.pieces(name, 5000)]
    with pytest.raises(GoneError, match=r"nothing is gone"):
        [*objects.pieces("nothing", 5000)]
