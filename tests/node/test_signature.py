"""Requests: each honest one passes, and the same one altered, repeated or stale is refused."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import httpx
import pytest
from http_message_signatures import HTTPMessageSigner, MappingKeyResolver
from http_message_signatures.algorithms import ED25519
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.memory_holding import Holding
from tests.support.node_env import Clock, Site
from tests.support.recorded_wire import PUBLIC, Wire, wire_to

from holdfast.node.identity import NodeKey, RequestKey
from holdfast.node.signature import (
    COVERED,
    TAG,
    WINDOW,
    Checked,
    Gate,
    Head,
    Nonces,
    Signer,
    check_digest,
)
from holdfast.node.wire import NODE_HEADER, Code, NodeRefusedError


def test_a_request_without_a_signature_is_refused(wire: Wire) -> None:
    assert wire.send(wire.signed()) == 200
    assert wire.refusal(wire.request()) == Code.SIGNATURE


class Impostor(RequestKey):
    """Says it is somebody else."""

    claimed: bytes

    @cached_property
    def owner(self) -> bytes:
        return self.claimed


def test_a_signature_by_another_key_is_refused(wire: Wire) -> None:
    assert wire.send(wire.signed()) == 200
    impostor = Impostor.generate()
    object.__setattr__(impostor, "claimed", wire.site.owner.owner)
    assert wire.refusal(wire.signed(impostor)) == Code.SIGNATURE


def test_an_owner_whom_the_node_does_not_know_is_refused(wire: Wire) -> None:
    assert wire.send(wire.signed()) == 200
    assert wire.refusal(wire.signed(RequestKey.generate())) == Code.UNKNOWN_OWNER


def test_a_request_for_another_node_is_refused(wire: Wire) -> None:
    assert wire.send(wire.signed()) == 200
    other = NodeKey.generate().address
    assert wire.refusal(wire.signed(node=other)) == Code.SIGNATURE


Alteration = Callable[[Wire, httpx.Request], httpx.Request]


def replaced(**changes: Any) -> Alteration:
    def alter(wire: Wire, request: httpx.Request) -> httpx.Request:
        asked = {
            "method": request.method,
            "url": request.url,
            "content": request.content,
            "headers": request.headers,
            **changes,
        }
        if callable(asked["url"]):
            asked["url"] = asked["url"](request.url)
        return wire.http.build_request(**asked)

    return alter


def with_header(name: str, value: str) -> Alteration:
    def alter(_wire: Wire, request: httpx.Request) -> httpx.Request:
        request.headers[name] = value
        return request

    return alter


ALTERATIONS = {
    "body": replaced(content=Holding.of(seed=1).key.public.encode()),
    "method": replaced(method="DELETE"),
    "path": replaced(url=lambda url: url.copy_with(path="/v1/holdings/" + "0" * 64)),
    "query": replaced(url=lambda url: url.copy_with(query=b"holding=" + b"1" * 64)),
    "no query": replaced(url=lambda url: url.copy_with(query=None)),
    "host": with_header("host", "elsewhere.example"),
    "node": with_header(NODE_HEADER, "0" * 40),
    "digest": with_header("content-digest", "sha-256=:" + "A" * 43 + "=:"),
    "nonsense": with_header("signature-input", "holdfast=()"),
    "no structured field": with_header("signature", "\x7f"),
}


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_an_altered_request_is_refused(wire: Wire, alteration: str) -> None:
    assert wire.send(wire.signed()) == 200
    altered = ALTERATIONS[alteration](wire, wire.signed())
    assert wire.refusal(altered) == Code.SIGNATURE


PARAMETERS: dict[str, dict[str, Any]] = {
    "no expiry": {"expires": None},
    "a long life": {"life": WINDOW + 1},
    "no nonce": {"nonce": None},
    "a giant nonce": {"nonce": "0" * 65},
    "another tag": {"tag": "other"},
    "uncovered query": {"covered_component_ids": [c for c in COVERED if c != "@query"]},
    "uncovered node": {"covered_component_ids": [c for c in COVERED if c != NODE_HEADER]},
    "uncovered body": {"body": None},
}


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_a_signature_that_covers_too_little_or_lasts_too_long_is_refused(
    wire: Wire, parameter: str
) -> None:
    assert wire.send(wire.signed_by_hand()) == 200
    assert wire.refusal(wire.signed_by_hand(**PARAMETERS[parameter])) == Code.SIGNATURE


def test_an_expired_request_is_refused(wire: Wire) -> None:
    request = wire.signed()
    assert wire.send(wire.signed()) == 200
    wire.site.clock.now += WINDOW
    assert wire.refusal(request) == Code.CLOCK


def test_a_request_from_the_future_is_refused(wire: Wire) -> None:
    assert wire.send(wire.signed(at=wire.site.clock())) == 200
    assert wire.refusal(wire.signed(at=wire.site.clock() + 1)) == Code.CLOCK


def test_a_repeated_request_is_refused(wire: Wire) -> None:
    request = wire.signed()
    assert wire.send(request) == 200
    assert wire.refusal(request) == Code.SIGNATURE


@pytest.mark.slow
def test_a_request_repeated_after_a_restart_is_refused(site: Site) -> None:
    with wire_to(site) as wire:
        seen = wire.signed()
        assert wire.send(seen) == 200
        port = seen.url.port or 0
    with wire_to(site, port) as wire:
        assert str(wire.signed().url) == str(seen.url), "only the time tells them apart"
        assert wire.refusal(seen) == Code.CLOCK
        assert wire.send(wire.signed()) == 200


@pytest.mark.parametrize("off_by", [-60.0, -1.0, 1.0, 60.0])
def test_a_client_whose_clock_is_wrong_signs_again_by_the_nodes(site: Site, off_by: float) -> None:
    with (
        site.running() as running,
        running.client(site.owner, lambda: site.clock() + off_by) as client,
    ):
        assert client.holdings() == []


@pytest.mark.parametrize(("off_by", "side"), [(-3600.0, "ahead of"), (61.0, "behind")])
def test_a_clock_that_is_off_by_more_than_a_minute_is_named_and_not_followed(
    site: Site, off_by: float, side: str
) -> None:
    with (
        site.running() as running,
        running.client(site.owner, lambda: site.clock() + off_by) as client,
    ):
        with pytest.raises(NodeRefusedError) as refused:
            client.holdings()
        assert refused.value.code == Code.CLOCK
        assert f"is {abs(off_by):,.0f} s {side} this machine's" in str(refused.value)


def test_each_owner_has_its_own_holdings(site: Site) -> None:
    with site.running() as running:
        with running.client(site.owner, site.clock) as client:
            client.create(PUBLIC)
            assert len(client.holdings()) == 1
        with running.client(site.other, site.clock) as client:
            assert client.holdings() == []
            with pytest.raises(NodeRefusedError) as refused:
                client.inventory(PUBLIC.id)
            assert refused.value.code == Code.UNKNOWN_HOLDING


@given(
    started=st.integers(0, 10),
    created=st.integers(0, 100),
    life=st.integers(-5, 2 * WINDOW),
    now=st.floats(10, 100),
)
def test_a_gate_takes_what_was_created_since_it_opened_and_has_not_expired(
    started: int, created: int, life: int, now: float
) -> None:
    clock, node, key = Clock(started), NodeKey(b"\1" * 32), RequestKey(b"\2" * 32)
    gate = Gate(node.address, {key.owner.hex(): key.owner}, clock)
    clock.now = now
    head = Head("GET", "http://node/v1/holdings", {NODE_HEADER: node.address.hex()})
    keys = MappingKeyResolver(public_keys={}, private_keys={key.owner.hex(): key.private})
    HTTPMessageSigner(signature_algorithm=ED25519, key_resolver=keys).sign(
        head,
        key_id=key.owner.hex(),
        created=datetime.fromtimestamp(created, UTC),
        expires=datetime.fromtimestamp(created + life, UTC),
        nonce="once",
        tag=TAG,
        covered_component_ids=COVERED,
    )
    fresh = started < created <= now < created + life and life <= WINDOW
    try:
        assert gate.check(head, has_body=False) == Checked(key.owner, None, created)
        taken = True
    except NodeRefusedError:
        taken = False
    assert taken == fresh


WORD = st.lists(st.sampled_from([*"abz09-._~A!$&'()*+,;=:@", "%41", "%2f"]), max_size=9).map(
    "".join
)


@given(
    origin=st.sampled_from(
        ["http://node", "http://NODE:80", "https://node:443", "http://node:443", "https://[::1]:8"]
    ),
    path=WORD,
    query=st.none() | WORD,
    body=st.binary(max_size=20),
)
def test_what_an_owner_signs_holds_by_the_library_wherever_it_is_sent(
    origin: str, path: str, query: str | None, body: bytes
) -> None:
    clock, node, key = Clock(), NodeKey(b"\1" * 32), RequestKey(b"\2" * 32)
    gate = Gate(node.address, {key.owner.hex(): key.owner}, clock)
    clock.now += 1
    url = f"{origin}/v1/{path}" + ("" if query is None else f"?{query}")
    head = Head("POST", url, {})
    Signer(key, node.address).sign(head, body, clock())
    checked = gate.check(head, has_body=bool(body))
    assert (checked.owner, checked.created) == (key.owner, int(clock()))
    if body:
        assert checked.digest is not None
        check_digest(checked.digest, body)


@given(fields=st.lists(st.text(max_size=60), min_size=3, max_size=3), has_body=st.booleans())
@example(fields=["holdfast=()", "holdfast=::", ""], has_body=False)
@example(fields=['holdfast=("@x");tag="holdfast"', "holdfast=:AA==:", ""], has_body=False)
@example(
    fields=['a=();tag="holdfast", a=();tag="holdfast"', "a=:AA==:, a=:AA==:", ""], has_body=True
)
@example(fields=['a=();tag="holdfast";keyid=1', "a=:AA==:", "sha-256=:AA==:"], has_body=True)
def test_no_nonsense_gets_past_the_gate_or_breaks_it(fields: list[str], has_body: bool) -> None:
    node, key = NodeKey(b"\1" * 32), RequestKey(b"\2" * 32)
    gate = Gate(node.address, {key.owner.hex(): key.owner}, Clock())
    names = ("signature-input", "signature", "content-digest")
    headers = {NODE_HEADER: node.address.hex(), **dict(zip(names, fields, strict=True))}
    with pytest.raises(NodeRefusedError):
        gate.check(Head("GET", "http://node/v1/holdings", headers), has_body=has_body)


def test_nonces_take_bounded_memory_and_none_counts_twice_while_it_is_valid() -> None:
    nonces = Nonces(most=3)
    for name in "abc":
        nonces.spend(name, expires=10, now=0)
    for name, code in (("a", Code.SIGNATURE), ("d", Code.BUSY)):
        with pytest.raises(NodeRefusedError) as refused:
            nonces.spend(name, expires=10, now=9.9)
        assert refused.value.code == code
    nonces.spend("d", expires=20, now=10)
    nonces.spend("a", expires=20, now=10)
