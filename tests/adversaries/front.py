"""What stands before a node's store and decides whom to answer: a node that has lost blocks.

It passes on to a real node whatever it lets through, and can hang up or stop listening.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from urllib.parse import urlsplit

from holdfast.node.proof_codec import ProofRequest
from holdfast.pdp import Challenge

Refuses = Callable[[Challenge], bool]


class Front:
    """Listens in a node's place. `hangs_up_on` says at which challenges it hangs up."""

    def __init__(self, node: str, hangs_up_on: Refuses = lambda _challenge: False) -> None:
        parts = urlsplit(node)
        assert parts.port is not None
        self._node = ("127.0.0.1", parts.port)
        self._hangs_up_on = hangs_up_on
        self._over = Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._start()

    def come(self) -> None:
        """Listen, as it does at first."""
        if self._over.is_set():
            self._over = Event()
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self._start()

    def go(self) -> None:
        """Stop listening: whoever connects is refused."""
        if not self._over.is_set():
            self._over.set()
            self._thread.join()
            self._listener.close()

    def _start(self) -> None:
        self._listener.settimeout(0.01)
        self._thread = Thread(target=self._serve, args=(self._listener, self._over))
        self._thread.start()

    def _serve(self, listener: socket.socket, over: Event) -> None:
        while not over.is_set():
            with suppress(TimeoutError):
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.settimeout(5)
                    self._meet(connection)

    def _meet(self, connection: socket.socket) -> None:
        """Take one request, and pass it on or hang up."""
        head, body = _request(connection)
        if b"/proofs" in head.split(b"\r\n")[0]:
            questions = ProofRequest.decode(body).questions
            if any(self._hangs_up_on(question.challenge) for question in questions):
                return
        with socket.create_connection(self._node, timeout=5) as node:
            node.sendall(head.replace(b"\r\n", b"\r\nconnection: close\r\n", 1) + body)
            while piece := node.recv(1 << 16):
                connection.sendall(piece)


def _request(connection: socket.socket) -> tuple[bytes, bytes]:
    content = b""
    while b"\r\n\r\n" not in content:
        piece = connection.recv(1 << 16)
        if not piece:
            raise ConnectionError
        content += piece
    head, _, body = content.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or b"0")
    while len(body) < length:
        body += connection.recv(1 << 16)
    return head + b"\r\n\r\n", body


@contextmanager
def standing_before(node: str, hangs_up_on: Refuses = lambda _c: False) -> Iterator[Front]:
    front = Front(node, hangs_up_on)
    try:
        yield front
    finally:
        front.go()
