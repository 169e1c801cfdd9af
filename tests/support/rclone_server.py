"""`rclone serve` on loopback, behind a proxy by which tests act between two requests."""

import http.client
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from threading import Thread

from tests.support import parts
from tests.support.processes import running

Hook = Callable[[str], None]  # called with the path of a request before it is answered
STARTUP_SECONDS = 60.0


class Proxy(ThreadingHTTPServer):
    """Passes requests on; once it is cut, nobody can connect any more."""

    daemon_threads = True

    def __init__(self, port: int, hook: Hook) -> None:
        super().__init__(("127.0.0.1", 0), _Forward)
        self.target, self.hook, self.is_cut = port, hook, False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def cut(self) -> None:
        """Let the server die, in the middle of what it sends."""
        self.is_cut = True
        self.shutdown()  # else its thread would spin on a closed socket until the tests end
        self.socket.close()


class _Forward(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        self.server.hook(self.path)
        if self.server.is_cut:
            self.close_connection = True
            return
        length = int(self.headers.get("Content-Length") or 0)
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.target)) as backend:
            backend.request(self.command, self.path, self.rfile.read(length), dict(self.headers))
            answer = backend.getresponse()
            content = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name not in {"Connection", "Transfer-Encoding", "Content-Length"}:
                self.send_header(name, value)
        size = answer.getheader("Content-Length") if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(content)

    do_HEAD = do_POST = do_DELETE = do_PROPFIND = do_GET  # noqa: N815 - named by the base

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by the base
        pass


@contextmanager
def serving(folder: Path, protocol: str, hook: Hook = lambda _path: None) -> Iterator[Proxy]:
    """Serve a folder by `restic`, `webdav` or another protocol of rclone's."""
    port = _free_port()
    command = [parts.program("rclone"), "serve", protocol, "--addr", f"127.0.0.1:{port}"]
    if protocol == "webdav":
        command += ["--dir-cache-time", "0s"]
    with running([*command, folder], stderr=subprocess.DEVNULL):
        _wait_for_port(port)
        with Proxy(port, hook) as proxy:
            thread = Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
            thread.start()
            try:
                yield proxy
            finally:
                proxy.shutdown()
                thread.join()


def _free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for_port(port: int) -> None:
    give_up = time.monotonic() + STARTUP_SECONDS
    while True:
        with socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < give_up, "the server does not start"
        time.sleep(0.05)
