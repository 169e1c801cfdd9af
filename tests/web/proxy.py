"""A reverse proxy on loopback that adds nothing to what it passes on, unless it is set to."""

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

OWN = {"host", "connection"}  # what every proxy writes anew


@contextmanager
def reverse_proxy(
    upstream: str, *, host: str | None = None, adds: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Yield the address of a proxy, which calls its upstream by `host`, else as it was called."""
    address = urlsplit(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            fields = {k: v for k, v in self.headers.items() if k.lower() not in OWN}
            fields |= {"Host": host or self.headers["host"], **(adds or {})}
            connection = http.client.HTTPConnection(address.hostname or "", address.port)
            try:
                connection.request(self.command, self.path, body or None, fields)
                answer = connection.getresponse()
                content = answer.read()
            finally:
                connection.close()
            self.close_connection = True
            self.send_response_only(answer.status)
            self.send_header("content-type", answer.headers["content-type"])
            self.send_header("content-length", str(len(content)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = pass_on  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
