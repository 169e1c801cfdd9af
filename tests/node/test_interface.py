"""Whatever the OpenAPI document allows and forbids: the node answers by it, and never with 5xx."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schemathesis import Case
from tests.support.memory_holding import Holding
from tests.support.node_env import Site, put
from tests.support.openapi import BOUNDED, CHECKS, Document

from holdfast.node.app import openapi_document
from holdfast.node.objects import open_objects
from holdfast.node.signature import Head, Signer

DOCUMENT = Document(openapi_document())
OPEN = {"/v1/health", "/v1/node", "/v1/metrics"}


@dataclass(frozen=True)
class Target:
    """A node with a holding, and how its owner signs what is sent there."""

    url: str
    site: Site
    kept: Holding

    def sign(self, request: Any) -> Any:
        """Sign a request of the library by which Schemathesis sends."""
        body = request.body or b""
        body = body.encode() if isinstance(body, str) else body
        head = Head(request.method, request.url, request.headers)
        signer = Signer(self.site.owner, self.site.node_key.address)
        signer.sign(head, body, self.site.clock())
        return request

    def point(self, case: Case) -> None:
        """Let a case concern what exists, which no generator would guess."""
        names = {"key_id": self.kept.key.public.id, "file_id": self.kept.ids[0]}
        for name in names.keys() & case.path_parameters.keys():
            case.path_parameters[name] = names[name].hex()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    site = Site(open_objects(str(tmp_path_factory.mktemp("node") / "store")))
    kept = Holding.of(3000)
    with site.running() as running, running.client(site.owner, site.clock) as client:
        put(client, kept)
        yield Target(running.url, site, kept)


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENT.operations)
def test_what_an_owner_sends_is_answered_by_the_document(name: str, target: Target) -> None:
    @BOUNDED
    @given(case=DOCUMENT.cases(name), existing=st.booleans())
    def answered(case: Case, existing: bool) -> None:
        if existing:
            target.point(case)
        answer = case.call(base_url=target.url, auth=target.sign)
        assert answer.status_code != 401, answer.content
        case.validate_response(answer, checks=CHECKS)

    answered()


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENT.operations)
def test_what_nobody_has_signed_is_refused_by_the_document(name: str, target: Target) -> None:
    @BOUNDED
    @given(case=DOCUMENT.cases(name))
    def refused(case: Case) -> None:
        answer = case.call(base_url=target.url)
        assert case.path in OPEN or answer.status_code in {401, 404, 405}, answer.content
        case.validate_response(answer, checks=CHECKS)

    refused()
