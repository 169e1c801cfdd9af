"""`holdfast.Client` reads a real server: everything, page by page, and events as they happen."""

import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from threading import Thread

import pytest
from tests.docs.blocks import blocks_of
from tests.support.docstrings import run_examples
from tests.support.live_web import Served

import holdfast
from holdfast.api import client as api_client
from holdfast.control.policies.aliases import Author
from holdfast.errors import InputError, RefusedError, StorageError
from holdfast.web import tokens
from holdfast.web.tokens import Role

DOCUMENT = Path(__file__).parents[2] / "docs" / "api.md"


@pytest.mark.slow
def test_the_examples_run_on_a_real_server(changing: Served) -> None:
    author = Author("tests", changing.clock())
    token = tokens.create(changing.engine, "reader", Role.VIEWER, author)
    with holdfast.Client(changing.url) as client:
        count = run_examples(api_client.Client, url=changing.url, token=token, client=client)
    assert count == 8


@pytest.mark.slow
def test_the_program_in_the_documents_runs(
    changing: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = [block for block in blocks_of(DOCUMENT) if block.language == "python"]
    program = block.text.replace("http://127.0.0.1:9471", changing.url)
    exec(compile(program + "        break\n", DOCUMENT, "exec"), {})  # noqa: S102
    said = capsys.readouterr().out
    assert "holding-000001" in said
    assert "2 audits failed\nleaf {" in said


@pytest.mark.slow
def test_all_pages_of_a_list_are_read(changing: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_client, "MAX_ROWS", 1)
    everything = changing.client.get("/audits", params={"limit": 200}).json()["audits"]
    with holdfast.Client(changing.url) as client:
        assert len(everything) > 1
        assert list(client.audits()) == everything
        assert [row["id"] for row in client.holdings(sort="name")] == [1, 2]
        mine = [row for row in everything if row["holding"] == 2]
        assert list(client.audits(holding=2)) == mine


@pytest.mark.slow
def test_events_resume_after_the_last_one_seen(changing: Served) -> None:
    with holdfast.Client(changing.url) as client:
        first, second = islice(client.events(after=0), 2)
        assert [(first.name, first.id), (second.name, second.id)] == [("leaf", 1), ("leaf", 2)]
        assert next(client.events(after=1)) == second
        states = {event.name for event in islice(client.events(), 2)}
    assert states == {"head", "alerts"}


@pytest.mark.slow
def test_what_the_server_refuses_is_raised_in_its_own_words(changing: Served) -> None:
    with holdfast.Client(changing.url, "holdfast_1_wrong") as client:
        with pytest.raises(RefusedError, match="the token is not valid"):
            client.fleet()
        with pytest.raises(RefusedError, match="the token is not valid"):
            next(client.events())
    with holdfast.Client(changing.url) as client:
        with pytest.raises(InputError, match="days"):
            client.fleet(days=0)
        with pytest.raises(InputError, match="outcome"):
            next(client.audits(outcome="lost"))


def test_a_server_that_is_not_there_is_an_error_in_one_sentence() -> None:
    started = time.monotonic()
    with (
        holdfast.Client("http://127.0.0.1:9", timeout_seconds=2) as client,
        pytest.raises(StorageError, match="can't be read"),
    ):
        client.fleet()
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("url", ["127.0.0.1", "ftp://127.0.0.1", "http://", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="is not the address of a server"):
        holdfast.Client(url).fleet()


LIES = ["[1, 2]", "null", "{}", "[" * 200_000, '{"holdings": 5, "pages": 1}', "<html>", ""]


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES, ids=range(len(LIES)))
def test_a_server_that_is_not_ours_is_an_error_of_one_sentence(lie: str) -> None:
    class Liar(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(lie.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Liar) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            with holdfast.Client(f"http://127.0.0.1:{server.server_port}") as client:
                for call in (client.fleet, client.holdings, client.audits, client.events):
                    with pytest.raises(StorageError, match="is not a Holdfast server"):
                        list(call())
        finally:
            server.shutdown()
            thread.join()


def test_a_token_that_can_not_be_sent_is_refused_and_not_shown() -> None:
    with pytest.raises(InputError) as caught:
        holdfast.Client("http://127.0.0.1:1", "secret\ntoken")
    assert "secret" not in str(caught.value)
