"""The way to a chain's node, which can be cut."""

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class Gateway(ThreadingHTTPServer):
    """Passes on what is asked; while it is cut, it hangs up."""

    daemon_threads = True

    def __init__(self, chain: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passage)
        self.chain, self.cut = chain, False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Passage(BaseHTTPRequestHandler):
    server: Gateway

    def do_POST(self) -> None:
        question = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.cut:
            self.close_connection = True
            return
        asked = urllib.request.Request(  # noqa: S310 - the tests' own chain
            self.server.chain, question, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(asked) as answer:  # noqa: S310 - the same
            content = answer.read()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the base
        pass


@contextmanager
def gateway(chain: str) -> Iterator[Gateway]:
    with Gateway(chain) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
