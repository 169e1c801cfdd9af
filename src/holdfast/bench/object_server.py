"""An object store on loopback with as much of S3's interface as reading needs.

It answers after a delay, counts what it is asked for, and fails as it is told to: for benchmarks
and tests of storage that is far away or in trouble.
"""

import hashlib
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

PAGE_OBJECTS = 1000
MODIFIED = "2026-01-01T00:00:00.000Z"


class Fault(StrEnum):
    """What is wrong with the store."""

    NONE = "none"
    HANG = "hang"  # it takes requests and never answers
    UNAVAILABLE = "unavailable"
    FORBIDDEN = "forbidden"
    READ_ONLY = "read-only"


class ObjectServer:
    """Buckets in memory: `objects` maps `bucket/key` to content.

    An object that is changed there keeps its ETag, as on a disk that rots. `write` changes both.
    """

    def __init__(self, objects: Mapping[str, bytes], delay_seconds: float = 0.0) -> None:
        self.objects = dict(objects)
        self.delay_seconds, self.fault = delay_seconds, Fault.NONE
        self.requests: Counter[str] = Counter()  # by kind: list, get, head, put, delete
        self.reads: Counter[str] = Counter()  # by object
        self.etags = {name: _md5(content) for name, content in self.objects.items()}
        self.sent_bytes = 0  # of objects
        self.at_once = self.most_at_once = 0  # requests that are being answered
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"store": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def run(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def write(self, name: str, content: bytes) -> None:
        self.objects[name], self.etags[name] = content, _md5(content)

    def etag(self, name: str) -> str:
        if name not in self.etags:
            self.etags[name] = _md5(self.objects[name])
        return self.etags[name]

    def stop(self) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def enter(self, change: int) -> None:
        """Note that a request has come, or that it is answered."""
        with self._lock:
            self.at_once += change
            self.most_at_once = max(self.most_at_once, self.at_once)

    def count(self, kind: str, name: str = "", sent_bytes: int = 0) -> None:
        with self._lock:
            self.requests[kind] += 1
            self.sent_bytes += sent_bytes
            if kind == "get":
                self.reads[name] += 1


@contextmanager
def serving(objects: Mapping[str, bytes], delay_seconds: float = 0.0) -> Iterator[ObjectServer]:
    """Serve objects from threads of this process."""
    server = ObjectServer(objects, delay_seconds)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def serve_child(pipe: Connection, objects: Mapping[str, bytes], delay_seconds: float) -> None:
    """Serve objects from a process of their own; every message is answered by the counts so far."""
    with serving(objects, delay_seconds) as server:
        pipe.send(server.url)
        while pipe.recv():
            pipe.send((dict(server.requests), server.sent_bytes))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


class _Handler(BaseHTTPRequestHandler):
    store: ObjectServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer(self._list_or_get)

    def do_HEAD(self) -> None:
        self._answer(self._head)

    def do_PUT(self) -> None:
        self._answer(self._put)

    def do_DELETE(self) -> None:
        self._answer(self._delete)

    def do_POST(self) -> None:
        self._answer(self._delete_many)

    def log_message(self, *_arguments: Any) -> None:
        pass

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).strip("/")

    def _answer(self, answer: Any) -> None:
        body = self._body()
        self.store.enter(1)
        try:
            self._answer_late(answer, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # nobody waits for it any more
        finally:
            self.store.enter(-1)

    def _answer_late(self, answer: Any, body: bytes) -> None:
        time.sleep(self.store.delay_seconds)
        match self.store.fault:
            case Fault.HANG:
                self.store.stopped.wait()
                self.close_connection = True
            case Fault.UNAVAILABLE:
                self._refuse(503, "ServiceUnavailable")
            case Fault.FORBIDDEN:
                self._refuse(403, "AccessDenied")
            case _:
                answer(body)

    def _body(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if "aws-chunked" not in self.headers.get("content-encoding", ""):
            return body
        content = b""
        while size := int(body.partition(b"\r\n")[0].partition(b";")[0] or b"0", 16):
            start = body.index(b"\r\n") + 2
            content += body[start : start + size]
            body = body[start + size + 2 :]
        return content

    def _list_or_get(self, _body: bytes) -> None:
        if "list-type" in urlsplit(self.path).query:
            self._list()
            return
        content = self._content()
        if content is None:
            return
        start, stop = self._range(len(content))
        if start >= len(content) and stop > start:
            self._refuse(416, "InvalidRange")
            return
        part = content[start:stop]
        self.store.count("get", self._key, len(part))
        self._send(200 if len(part) == len(content) else 206, part, self._headers())

    def _head(self, _body: bytes) -> None:
        content = self._content()
        if content is not None:
            self.store.count("head")
            self._send(200, content, self._headers(), with_body=False)

    def _put(self, body: bytes) -> None:
        if self.store.fault is Fault.READ_ONLY:
            self._refuse(403, "AccessDenied")
            return
        self.store.count("put")
        self.store.write(self._key, body)
        self._send(200, b"", self._headers())

    def _delete(self, _body: bytes) -> None:
        self.store.count("delete")
        self.store.objects.pop(self._key, None)
        self._send(204, b"")

    def _delete_many(self, body: bytes) -> None:
        self.store.count("delete")
        for key in re.findall(rb"<Key>([^<]*)</Key>", body):
            self.store.objects.pop(f"{self._key}/{unescape(key.decode())}", None)
        self._send(200, b"<DeleteResult></DeleteResult>", {"content-type": "application/xml"})

    def _content(self) -> bytes | None:
        content = self.store.objects.get(self._key)
        if content is None:
            self._refuse(404, "NoSuchKey")
        return content

    def _headers(self) -> dict[str, str]:
        etag = self.store.etag(self._key)
        return {"etag": f'"{etag}"', "last-modified": "Thu, 01 Jan 2026 00:00:00 GMT"}

    def _entry(self, name: str, key: str) -> str:
        return (
            f"<Contents><Key>{quote(key)}</Key><LastModified>{MODIFIED}</LastModified>"
            f"<ETag>&quot;{self.store.etag(name)}&quot;</ETag>"
            f"<Size>{len(self.store.objects[name])}</Size></Contents>"
        )

    def _range(self, length: int) -> tuple[int, int]:
        text = self.headers.get("range", "").removeprefix("bytes=")
        start, _, last = text.partition("-")
        return int(start or 0), min(int(last) + 1, length) if last else length

    def _list(self) -> None:
        self.store.count("list")
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        bucket, after = self._key, query.get("continuation-token", "")
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        names = sorted(name.partition("/")[2] for name in self.store.objects if _in(name, bucket))
        if not names:
            self._refuse(404, "NoSuchBucket")
            return
        keys = [name for name in names if name.startswith(prefix) and name > after]
        folders: dict[str, None] = {}
        if delimiter:
            rest = {name: name[len(prefix) :].partition(delimiter) for name in keys}
            folders = {f"{prefix}{first}/": None for first, found, _ in rest.values() if found}
            keys = [name for name in keys if not rest[name][1]]
        page = keys[: min(PAGE_OBJECTS, int(query.get("max-keys", PAGE_OBJECTS)))]
        more = len(page) < len(keys)
        parts = [
            '<?xml version="1.0"?><ListBucketResult>',
            f"<Name>{escape(bucket)}</Name><KeyCount>{len(page) + len(folders)}</KeyCount>",
            f"<EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>",
            f"<NextContinuationToken>{quote(page[-1])}</NextContinuationToken>" if more else "",
            *(
                f"<CommonPrefixes><Prefix>{quote(name)}</Prefix></CommonPrefixes>"
                for name in folders
            ),
            *(self._entry(f"{bucket}/{name}", name) for name in page),
            "</ListBucketResult>",
        ]
        self._send(200, "".join(parts).encode(), {"content-type": "application/xml"})

    def _refuse(self, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        self._send(status, body, {"content-type": "application/xml"})

    def _send(
        self,
        status: int,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        with_body: bool = True,
    ) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body and self.command != "HEAD":
            self.wfile.write(body)


def _in(name: str, bucket: str) -> bool:
    return name.startswith(f"{bucket}/")


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
