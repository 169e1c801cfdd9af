"""Whether a request was delivered: what the client says when no answer comes."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

import pytest
from tests.support.node_env import Site

from holdfast.errors import NodeError, UnansweredError, UnreachableError
from holdfast.node.client import NodeClient, greet
from holdfast.node.proof_messages import ProofQuestion
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.pdp import Challenge

FACTS = b'{"protocol": 1}'  # no node's, but a whole answer
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(FACTS), FACTS)
Way = Callable[[socket.socket], None]


@contextmanager
def listening(*ways: Way) -> Iterator[str]:
    """Meet one connection after the other in these ways; after the last one nobody listens."""
    listener, over = socket.create_server(("127.0.0.1", 0)), Event()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def serve() -> None:
        for number, way in enumerate(ways, start=1):
            with suppress(OSError):
                connection, _ = listener.accept()
                if number == len(ways):
                    listener.close()
                with connection:
                    way(connection)
                    over.wait(0 if way in BRIEF or connection.fileno() < 0 else 10)

    thread = Thread(target=serve, daemon=True)
    if ways:
        thread.start()
    else:
        listener.close()
    yield url
    over.set()
    listener.close()
    if ways:
        thread.join(10)


def read_request(connection: socket.socket) -> None:
    content = b""
    while b"\r\n\r\n" not in content:
        content += connection.recv(1 << 16)


def hang_up(connection: socket.socket) -> None:
    read_request(connection)


def reset(connection: socket.socket) -> None:
    """Break the connection off as soon as a byte of the request is there."""
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def keep_silent(connection: socket.socket) -> None:
    read_request(connection)


def begin_to_answer(connection: socket.socket) -> None:
    read_request(connection)
    connection.sendall(WHOLE[:-3])


def answer_once(connection: socket.socket) -> None:
    """Answer, and close the connection when the next request comes."""
    read_request(connection)
    connection.sendall(WHOLE)
    connection.recv(1)


BRIEF = (hang_up, reset, answer_once)  # after which the connection is closed at once


def client(site: Site, url: str) -> NodeClient:
    return NodeClient(url, site.owner, site.node_key.address)


@pytest.mark.slow
@pytest.mark.parametrize("way", [hang_up, reset, keep_silent, begin_to_answer])
def test_a_node_that_took_the_request_is_not_out_of_reach(site: Site, way: Way) -> None:
    with listening(way) as url, client(site, url) as node:
        began = time.monotonic()
        with pytest.raises(UnansweredError, match="took the request and gave no answer"):
            node.facts(seconds=0.5)
        assert time.monotonic() - began < 2


def test_a_port_where_nobody_listens_is_out_of_reach(site: Site) -> None:
    with listening() as url:
        pass
    with client(site, url) as node, pytest.raises(UnreachableError, match="can't reach the node"):
        node.facts()
    with pytest.raises(UnreachableError):
        greet(url)


def test_a_node_that_can_show_no_certificate_is_out_of_reach(site: Site) -> None:
    def no_tls(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with listening(no_tls) as url:
        place = url.replace("http:", "https:")
        with client(site, place) as node, pytest.raises(UnreachableError, match="SSL"):
            node.facts(seconds=5)


def test_an_idle_connection_that_is_closed_is_no_delivery(site: Site) -> None:
    with listening(answer_once) as url, client(site, url) as node:
        with pytest.raises(NodeError, match="makes no sense"):
            node.facts()
        with pytest.raises(UnreachableError, match="can't reach the node"):
            node.facts()


def test_a_request_on_a_closed_connection_is_repeated_on_a_new_one(site: Site) -> None:
    with listening(answer_once, hang_up) as url, client(site, url) as node:
        with pytest.raises(NodeError, match="makes no sense"):
            node.facts()
        with pytest.raises(UnansweredError):
            node.facts()


def test_a_delivery_counts_though_the_next_attempt_meets_nobody(site: Site) -> None:
    """A node that is busy first and gone then has had the request."""
    body = b'{"error": {"code": "busy", "message": "later", "time": null}}'
    busy = b"HTTP/1.1 429 Busy\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)

    def refuse(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(busy + body)

    with listening(refuse) as url:
        node = NodeClient(url, site.owner, site.node_key.address, sleep=lambda _seconds: None)
        with node, pytest.raises(UnansweredError):
            node.facts()


def test_a_busy_node_is_asked_again_within_the_time_that_it_has(site: Site) -> None:
    body = b'{"error": {"code": "busy", "message": "later", "time": null}}'
    busy = b"HTTP/1.1 429 Busy\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)

    def refuse(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(busy + body)
        connection.close()

    slept: list[float] = []
    with listening(refuse, hang_up) as url:
        node = NodeClient(url, site.owner, site.node_key.address, sleep=slept.append)
        with node, pytest.raises(UnansweredError):
            node.facts(seconds=0.8)
    assert slept == [pytest.approx(0.2, abs=0.1)]


@pytest.mark.slow
def drip(content: bytes) -> Way:
    """Return a way to answer one byte at a time, so that no single read takes long."""

    def way(connection: socket.socket) -> None:
        read_request(connection)
        for byte in content:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)

    return way


@pytest.mark.slow
@pytest.mark.parametrize(
    "way",
    [keep_silent, drip(b"HTTP/1.1 200 OK\r\nx: " + b"x" * 100), drip(WHOLE * 2)],
    ids=["silence", "a head that never ends", "a body that takes long"],
)
def test_proofs_take_no_longer_than_they_may(site: Site, way: Way) -> None:
    question = ProofQuestion(b"k" * 32, Challenge(b"s" * 32, b"i" * 32, 10, 3, 0, 10))
    with listening(way) as url, client(site, url) as node:
        began, threads = time.monotonic(), threading.active_count()
        with pytest.raises(UnansweredError, match="timed out"):
            node.prove_many([question], seconds=0.4)
        assert 0.3 < time.monotonic() - began < 1.5
        assert threading.active_count() <= threads, "no thread is left behind"


def test_a_busy_node_is_asked_for_proofs_only_once(site: Site) -> None:
    body = b'{"error": {"code": "busy", "message": "later"}}'
    busy = b"HTTP/1.1 429 Busy\r\ncontent-length: %d\r\n\r\n" % len(body)

    def refuse(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(busy + body)

    def sleep(_seconds: float) -> None:
        raise AssertionError("it does not sleep")

    question = ProofQuestion(b"k" * 32, Challenge(b"s" * 32, b"i" * 32, 10, 3, 0, 10))
    with (
        listening(refuse) as url,
        NodeClient(url, site.owner, site.node_key.address, sleep=sleep) as node,
        pytest.raises(NodeRefusedError) as refused,
    ):
        node.prove_many([question], seconds=5)
    assert refused.value.code is Code.BUSY
