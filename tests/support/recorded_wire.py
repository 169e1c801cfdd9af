"""The wire between owner and node, where requests can be seen, kept and changed."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
from http_message_signatures import HTTPMessageSigner, MappingKeyResolver
from http_message_signatures.algorithms import ED25519
from tests.support.memory_holding import Holding
from tests.support.node_env import Running, Site

from holdfast.node.identity import RequestKey
from holdfast.node.signature import COVERED, TAG, WINDOW, Head, Signer
from holdfast.node.wire import NODE_HEADER

PUBLIC = Holding.of().key.public
PATH = f"/v1/holdings/{PUBLIC.id.hex()}"
QUERY = "?holding=" + "0" * 64


@dataclass
class Wire:
    """A node, and whoever sits between it and its owner."""

    site: Site
    running: Running
    http: httpx.Client

    def request(
        self, method: str = "PUT", path: str = PATH + QUERY, body: bytes | None = None
    ) -> httpx.Request:
        body = (PUBLIC.encode() if method == "PUT" else b"") if body is None else body
        return self.http.build_request(method, self.running.url + path, content=body)

    def signed(
        self,
        key: RequestKey | None = None,
        node: bytes | None = None,
        at: float | None = None,
        **asked: Any,
    ) -> httpx.Request:
        request = self.request(**asked)
        signer = Signer(key or self.site.owner, node or self.site.node_key.address)
        head = Head(request.method, str(request.url), request.headers)
        signer.sign(head, request.content, self.site.clock() if at is None else at)
        return request

    def signed_by_hand(self, life: int = WINDOW, **parameters: Any) -> httpx.Request:
        """Sign as the library lets one, with other parameters than ours."""
        request, now = self.request(), int(self.site.clock())
        request.headers[NODE_HEADER] = self.site.node_key.address.hex()
        name = self.site.owner.owner.hex()
        keys = MappingKeyResolver(public_keys={}, private_keys={name: self.site.owner.private})
        HTTPMessageSigner(signature_algorithm=ED25519, key_resolver=keys).sign(
            request,
            **{
                "key_id": name,
                "created": datetime.fromtimestamp(now, UTC),
                "expires": datetime.fromtimestamp(now + life, UTC),
                "nonce": secrets.token_hex(8),
                "tag": TAG,
                "covered_component_ids": COVERED,
                "body": request.content,
                **parameters,
            },
        )
        return request

    def send(self, request: httpx.Request) -> int:
        return self.http.send(request).status_code

    def refusal(self, request: httpx.Request) -> str:
        answer = self.http.send(request)
        assert answer.status_code in {401, 403}, answer.text
        return str(answer.json()["error"]["code"])


@contextmanager
def wire_to(site: Site, port: int = 0) -> Iterator[Wire]:
    with site.running(port) as running, httpx.Client() as http:
        yield Wire(site, running, http)
