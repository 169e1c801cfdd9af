"""Events come as things happen, and go on where a listener was cut off."""

import asyncio
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import ExitStack, suppress
from itertools import islice
from threading import Thread
from time import sleep
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from tests.support import parts
from tests.support.live_web import Served
from tests.web.listening import Heard, events

from holdfast.control.incidents.alerts import Alerts
from holdfast.control.policies.aliases import Author
from holdfast.control.settings.models import WebSettings
from holdfast.durations import DAY
from holdfast.errors import BusyError
from holdfast.slots import Slots
from holdfast.web import tokens
from holdfast.web.context import MAX_STREAMS, MAX_STREAMS_PER_CALLER
from holdfast.web.server import listen
from holdfast.web.sse import SEND_TIMEOUT_SECONDS, EventResponse
from holdfast.web.tokens import Role

TCP_REPAIR = 19  # of Linux; Python has no name for it


def leaves(told: list[Heard]) -> list[int | None]:
    return [each.id for each in told if each.name == "leaf"]


@pytest.mark.slow
def test_a_listener_hears_of_what_happens_after_it_came(changing: Served) -> None:
    stream = events(changing.client, "/events")
    assert {each.name for each in islice(stream, 2)} == {"head", "alerts"}
    size = changing.client.get("/evidence").json()["size"]
    changing.client.post("/holdings/1/audit-now", json={})
    Alerts(changing.engine, changing.clock).raise_alert("node-offline", "attic", "no answer")
    changing.operation.sequencer.sequence()
    told = {each.name: each for each in islice(stream, 3)}
    assert told["leaf"].id == size
    assert told["leaf"].data["kind"] == "instruction"
    assert told["head"].data["size"] == size + 1
    assert [each["subject"] for each in told["alerts"].data["open"]] == ["attic"]


@pytest.mark.slow
def test_a_stream_goes_on_after_the_last_event_that_was_heard(changing: Served) -> None:
    size = changing.client.get("/evidence").json()["size"]
    first = list(islice(events(changing.client, "/events", last=0), size - 1))
    assert leaves(first) == list(range(1, size))
    changing.operation.until(changing.clock.now + 15 * DAY)
    grown = changing.client.get("/evidence").json()["size"]
    assert grown > size
    rest = list(islice(events(changing.client, "/events", last=size - 1), grown - size))
    assert leaves(rest) == list(range(size, grown))


@pytest.mark.slow
def test_an_alert_that_is_acknowledged_is_told_again(changing: Served) -> None:
    Alerts(changing.engine, changing.clock).raise_alert("node-offline", "attic", "no answer")
    stream = events(changing.client, "/events")
    before = next(each for each in stream if each.name == "alerts")
    changing.client.post(f"/alerts/{before.data['open'][0]['id']}/acknowledge", json={})
    after = next(each for each in stream if each.name == "alerts")
    assert after.data["open"][0]["acknowledged_by"] == "this machine"


def opened(client: httpx.Client, **headers: str) -> Generator[int]:
    """Open one stream after another; yield the status of its answer once the first bytes came."""
    reading = []  # a response whose bytes nobody reads any more is closed
    with ExitStack() as streams:
        while True:
            answer = streams.enter_context(client.stream("GET", "/events", headers=headers))
            if answer.status_code == 200:
                reading.append(answer.iter_raw())
                next(reading[-1])
            else:
                answer.read()
                assert "close one" in answer.text or "try again" in answer.text
            yield answer.status_code


def bearer(served: Served, name: str) -> dict[str, str]:
    token = tokens.create(served.engine, name, Role.VIEWER, Author("a test", 1))
    return {"authorization": f"Bearer {token}"}


def free_again(client: httpx.Client, **headers: str) -> bool:
    for _ in range(100):
        with client.stream("GET", "/events", headers=headers) as again:
            if again.status_code == 200:
                return True
        sleep(0.05)
    return False


@pytest.mark.slow
def test_nobody_takes_all_streams(changing: Served) -> None:
    """Before: one viewer opened 32 streams, and everybody else was answered 429."""
    greedy, other = bearer(changing, "greedy"), bearer(changing, "other")
    many = opened(changing.client, **greedy)
    statuses = list(islice(many, 2 * MAX_STREAMS_PER_CALLER))
    assert statuses == [200] * MAX_STREAMS_PER_CALLER + [429] * MAX_STREAMS_PER_CALLER
    for headers in (other, {}):
        few = opened(changing.client, **headers)
        assert next(few) == 200
        few.close()
    many.close()
    assert free_again(changing.client, **greedy)


@pytest.mark.slow
def test_all_callers_on_this_machine_count_as_one(changing: Served) -> None:
    streams = [opened(changing.client) for _ in range(9)]
    assert [next(stream) for stream in streams] == [200] * MAX_STREAMS_PER_CALLER + [429]
    for stream in streams:
        stream.close()


@pytest.mark.slow
def test_all_together_have_no_more_than_there_are(changing: Served) -> None:
    callers = [
        bearer(changing, f"viewer-{n}") for n in range(MAX_STREAMS // MAX_STREAMS_PER_CALLER)
    ]
    with httpx.Client(base_url=changing.client.base_url, limits=httpx.Limits(), timeout=30) as many:
        streams = [opened(many, **headers) for headers in callers]
        for stream in streams:
            assert set(islice(stream, MAX_STREAMS_PER_CALLER)) == {200}
        one_more = opened(many)
        assert next(one_more) == 429
        for stream in (one_more, *streams):
            stream.close()
        assert free_again(many)


def connected(served: Served, rest: str = "") -> socket.socket:
    """Open a stream by hand and read its first bytes."""
    address = urlsplit(served.url)
    raw = socket.create_connection((address.hostname or "", address.port or 0))
    raw.sendall(f"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n{rest}\r\n".encode())
    assert b" 200 " in raw.recv(1000)
    return raw


@pytest.mark.slow
def test_the_place_of_a_client_that_goes_without_a_word_is_free_again(
    changing: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "holdfast.web.api.events.POLL_SECONDS", 0.02
    )  # so a heartbeat comes every 0.3 s
    clients = [connected(changing) for _ in range(MAX_STREAMS_PER_CALLER)]
    assert next(opened(changing.client)) == 429
    for client in clients:
        try:  # a connection under repair is closed without a packet
            client.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        except PermissionError:
            parts.skip("right to close a connection without a word", "run the tests as root")
    for client in clients:
        client.close()
    assert free_again(changing.client)


@pytest.mark.slow
def test_a_client_that_takes_nothing_any_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.web.sse.SEND_TIMEOUT_SECONDS", 0.3)
    slots = Slots(1)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 16)
            await asyncio.sleep(0)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await EventResponse(endless(), slots)(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            with socket.create_connection(listener.getsockname()) as client:
                client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
                assert client.recv(12) == b"HTTP/1.1 200"
                with pytest.raises(BusyError), slots.take():
                    pass
                for _ in range(100):
                    sleep(0.05)
                    with suppress(BusyError), slots.take():
                        break
                else:
                    raise AssertionError("it waits for a client that reads nothing")
        finally:
            server.should_exit = server.force_exit = True
            thread.join()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="not on this system")
def test_a_connection_is_given_up_when_nobody_confirms_what_was_sent() -> None:
    listener = listen(WebSettings(("127.0.0.1", 0)))
    assert listener is not None
    with listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        connection, _ = listener.accept()
        with connection:
            limit = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert limit == 1000 * SEND_TIMEOUT_SECONDS
