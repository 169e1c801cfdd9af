"""Input that means harm: answered with 4xx or cut off, and the node goes on serving."""

import json
import socket
from typing import Any

import pytest
from tests.support.memory_holding import Holding
from tests.support.node_env import Site
from tests.support.recorded_wire import PATH, Wire, wire_to

from holdfast.node.objects import open_objects
from holdfast.node.wire import Code, UploadRequest

UPLOADS = f"{PATH}/uploads"
HEAD = f"PUT {PATH} HTTP/1.1\r\nHost: node\r\n".encode()
RAW = {
    "no HTTP at all": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "a giant header": HEAD + b"X: " + b"x" * 100_000 + b"\r\n\r\n",
    "many headers": HEAD + b"".join(b"X%d: x\r\n" % n for n in range(10_000)) + b"\r\n",
    "a giant path": b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: node\r\n\r\n",
    "chunked garbage": HEAD + b"Transfer-Encoding: chunked\r\n\r\nnot a length\r\n",
    "an endless chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
    "two lengths": HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "no number as length": HEAD + b"Content-Length: one\r\n\r\n",
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n",
    "a giant length": HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "length and chunks": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "no host": b"GET /v1/holdings HTTP/1.1\r\n\r\n",
    "an old version without host": b"GET /v1/holdings HTTP/1.0\r\n\r\n",
    "a broken escape": b"GET /v1/holdings/%zz?%=& HTTP/1.1\r\nHost: node\r\n\r\n",
    "no text in the path": b"GET /v1/holdings/%ff%00 HTTP/1.1\r\nHost: node\r\n\r\n",
    "a strange host": b"GET /v1/holdings HTTP/1.1\r\nHost: \x7f]:x\r\n\r\n",
}


def answer_to(wire: Wire, content: bytes) -> bytes:
    """Return the first line of the answer to these bytes, empty if the node hung up."""
    with socket.create_connection(("127.0.0.1", int(wire.running.url.rpartition(":")[2]))) as line:
        try:
            line.sendall(content)
            line.shutdown(socket.SHUT_WR)
            return line.recv(64).partition(b"\r\n")[0]
        except (ConnectionResetError, BrokenPipeError):
            return b""


@pytest.mark.parametrize("what", RAW)
def test_what_is_no_proper_request_is_refused(wire: Wire, what: str) -> None:
    line = answer_to(wire, RAW[what])
    assert not line or line.startswith(b"HTTP/1.1 4"), line
    assert wire.send(wire.signed()) == 200


UPLOAD: dict[str, Any] = {
    "file_id": "0" * 32,
    "version": 1,
    "nonce": "0" * 64,
    "length": 0,
    "data_digest": "0" * 64,
    "tags_bytes": 0,
    "tags_digest": "0" * 64,
}
BODIES = {
    "nothing": b"",
    "no JSON": b"{",
    "no text": b"\xff\xfe",
    "great depth": b"[" * 60_000,
    "great depth in order": b"[" * 60_000 + b"]" * 60_000,
    "a huge integer": json.dumps({**UPLOAD, "length": 10**300}).encode(),
    "more digits than Python reads": b'{"length": ' + b"9" * 5000 + b"}",
    "a float": json.dumps({**UPLOAD, "length": 1.5}).encode(),
    "not a number": b'{"length": NaN}',
    "truth as a number": json.dumps({**UPLOAD, "version": True}).encode(),
    "a negative length": json.dumps({**UPLOAD, "length": -1}).encode(),
    "an unknown field": json.dumps({**UPLOAD, "more": 1}).encode(),
    "a list": b"[]",
    "null": b"null",
    "half a pair of surrogates": json.dumps({**UPLOAD, "in_place": "\ud800"}).encode(),
    "tags of another length": json.dumps(UPLOAD).encode(),
}


@pytest.mark.parametrize("what", BODIES)
def test_a_message_that_is_none_is_malformed(wire: Wire, what: str) -> None:
    assert wire.send(wire.signed()) == 200
    answer = wire.http.send(wire.signed(method="POST", path=UPLOADS, body=BODIES[what]))
    assert answer.status_code in {400, 403}, answer.text
    assert wire.send(wire.signed(method="GET", path="/v1/holdings")) == 200


@pytest.mark.parametrize("what", ["challenge", "key"])
def test_documents_are_refused_by_one_clear_sentence(wire: Wire, what: str) -> None:
    assert wire.send(wire.signed()) == 200
    request = (
        wire.signed(body=b'{"holdfast": "public-key"}')
        if what == "key"
        else wire.signed(method="POST", path="/v1/proofs", body=b'{"challenge": "{}"}')
    )
    error = wire.http.send(request).json()["error"]
    assert error["code"] == Code.MALFORMED
    assert "is not" in error["message"]


PATHS = ["../secret", "/etc/passwd", "a/../../secret", ".", "a//b", "a\\b", "a\0b", "link", ""]


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_a_path_in_place_never_leads_out(
    site: Site, path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("share")
    kept = Holding.of(500)
    (root / "data").mkdir()
    for name in ("secret", "data/honest"):
        (root / name).write_bytes(kept.contents[0])
    (root / "data/link").symlink_to(root / "secret")
    site.data = open_objects(str(root / "data"))
    announced = {
        **UPLOAD,
        "length": 500,
        "tags_bytes": len(kept.tags[0]),
    }
    with site.node() as node:
        account = node.store.account(site.owner.owner)
        account.create(kept.key.public)
        honest = UploadRequest.model_validate({**announced, "in_place": "honest"})
        assert account.begin(kept.key.public.id, honest, 0).missing.data == []
    with wire_to(site) as wire:
        body = json.dumps({**announced, "in_place": path}).encode()
        where = f"/v1/holdings/{kept.key.public.id.hex()}/uploads"
        answer = wire.http.send(wire.signed(method="POST", path=where, body=body))
        assert answer.status_code in {400, 404}, answer.text
