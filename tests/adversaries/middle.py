"""A man in the middle: a proxy on loopback that sees, keeps, answers and replays requests."""

import http.client
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Captured:
    """A request as it came, signature and all."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def created(self) -> int:
        """When its signer says that it was signed, in seconds."""
        fields = {name.lower(): value for name, value in self.headers}
        match = re.search(r"created=(\d+)", fields["signature-input"])
        assert match is not None
        return int(match[1])


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes = b""

    @property
    def code(self) -> str | None:
        """The code of a refusal."""
        return json.loads(self.body)["error"]["code"] if self.status >= 400 else None


Tactic = Callable[[Captured], Reply | None]  # no reply: the connection is cut


@dataclass
class ManInTheMiddle:
    """Forwards everything to the node, unless a tactic decides otherwise."""

    node_url: str
    url: str = ""
    seen: list[Captured] = field(default_factory=list)
    tactic: Tactic | None = None

    def forward(self, request: Captured) -> Reply:
        address = urlsplit(self.node_url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        try:
            connection.putrequest(
                request.method, request.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in request.headers:
                connection.putheader(name, value)
            connection.endheaders(request.body)
            answer = connection.getresponse()
            return Reply(answer.status, answer.read())
        finally:
            connection.close()

    def handle(self, request: Captured) -> Reply | None:
        self.seen.append(request)
        return self.forward(request) if self.tactic is None else self.tactic(request)

    def withhold_first(self, wanted: Callable[[Captured], bool]) -> list[Captured]:
        """Keep one of every two wanted requests from the node.

        The client takes the cut for a connection that was kept too long, and repeats itself.
        Return the list to which the withheld ones are added.
        """
        withheld: list[Captured] = []
        known: set[tuple[str, str]] = set()

        def tactic(request: Captured) -> Reply | None:
            name = (request.method, request.path)
            if wanted(request) and name not in known:
                known.add(name)
                withheld.append(request)
                return None
            return self.forward(request)

        self.tactic = tactic
        return withheld


@contextmanager
def man_in_the_middle(node_url: str) -> Iterator[ManInTheMiddle]:
    middle = ManInTheMiddle(node_url)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            request = Captured(self.command, self.path, tuple(self.headers.items()), body)
            reply = middle.handle(request)
            if reply is None:
                self.close_connection = True
                return
            self.send_response_only(reply.status)
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        middle.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield middle
        finally:
            server.shutdown()
            thread.join()
