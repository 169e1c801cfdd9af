"""A webhook on loopback that keeps what it receives."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

from holdfast.control.incidents.alerts import Webhook


class Receiver(HTTPServer):
    """Keeps what was posted to it; refuses it while `status` says so."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Post)
        self.status, self.bodies = 200, list[dict[str, Any]]()

    @property
    def sink(self) -> Webhook:
        return Webhook(f"http://127.0.0.1:{self.server_port}/secret")


class _Post(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.status == 200:
            self.server.bodies.append(json.loads(body))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the base
        pass


@contextmanager
def listening() -> Iterator[Receiver]:
    with Receiver() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
