"""An S3 server on loopback that leaves objects out, refuses them, or answers with a web page."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

import fsspec
import pytest

BUCKET = "bucket"
PAGE = b"<html>log in</html>"


@dataclass
class Lies:
    """What the server does wrong, by the names of objects."""

    unlisted: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)  # as if there were none of that name
    replaced: set[str] = field(default_factory=set)  # by a web page


class LyingS3(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, bytes] = {}
        self.lies = Lies()
        self.address = f"s3://{BUCKET}/data"

    def list_bucket(self, prefix: str) -> bytes:
        names = [f"data/{name}" for name in sorted(self.objects.keys() - self.lies.unlisted)]
        entries = "".join(
            f"<Contents><Key>{escape(name)}</Key><LastModified>2024-01-01T00:00:00.000Z"
            f"</LastModified><ETag>&quot;{_tag(name)}&quot;</ETag>"
            f"<Size>{len(self.objects[name.removeprefix('data/')])}</Size></Contents>"
            for name in names
            if name.startswith(prefix)
        )
        return (
            '<?xml version="1.0" encoding="UTF-8"?>'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><MaxKeys>1000</MaxKeys>"
            f"<IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
        ).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, LyingS3)
        url = urlsplit(self.path)
        key = url.path.strip("/").partition("/")[2]
        if not key:
            prefix = parse_qs(url.query).get("prefix", [""])[0]
            return self._send(200, server.list_bucket(prefix), "application/xml")
        name = key.removeprefix("data/")
        content = server.objects.get(name)
        if content is None or name in server.lies.refused:
            return self._send(404, b"<Error><Code>NoSuchKey</Code></Error>", "application/xml")
        if name in server.lies.replaced:
            return self._send(200, PAGE, "text/html")
        headers = {"ETag": f'"{_tag(key)}"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
        if wanted := self.headers.get("Range"):
            first, last = wanted.removeprefix("bytes=").split("-")
            start, end = int(first), min(int(last), len(content) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
            return self._send(206, content[start : end + 1], "application/octet-stream", headers)
        return self._send(200, content, "application/octet-stream", headers)

    def _send(
        self, code: int, body: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(code)
        for name, value in {"Content-Type": kind, "Content-Length": len(body)}.items():
            self.send_header(name, str(value))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
        pass


@contextmanager
def lying_s3() -> Iterator[LyingS3]:
    """Run the server, as the environment then says."""
    with LyingS3() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "tests")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "tests")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        fsspec.get_filesystem_class(
            "s3"
        ).clear_instance_cache()  # which may be connected to another server
        try:
            yield server
        finally:
            fsspec.get_filesystem_class("s3").clear_instance_cache()
            server.shutdown()
            thread.join()


def _tag(key: str) -> str:
    return hashlib.md5(key.encode(), usedforsecurity=False).hexdigest()
