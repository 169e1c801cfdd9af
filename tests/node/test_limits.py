"""What a node takes from its owners, and what it says when that is too much."""

import threading
from functools import partial

import pytest
from tests.support.memory_holding import Holding
from tests.support.node_env import SEGMENT, Site, put, put_file
from tests.support.recorded_wire import Wire, wire_to

from holdfast.node.client import NodeClient, upload_request
from holdfast.node.holding import Holding as Kept
from holdfast.node.layout import Part
from holdfast.node.proof_codec import ProofRequest
from holdfast.node.proof_messages import ProofQuestion
from holdfast.node.transport import MAX_ATTEMPTS
from holdfast.node.wire import Code, Limits, NodeRefusedError
from holdfast.pdp import Challenge, Proof, draw_challenge
from holdfast.pdp.readers import Memory


def code_of(refused: pytest.ExceptionInfo[NodeRefusedError]) -> Code:
    return refused.value.code


def test_a_proof_of_more_blocks_than_the_cap_is_refused(site: Site) -> None:
    site.limits = Limits(samples=10)
    kept = Holding.of(62 * 50)
    with site.client() as client:
        inventory = put(client, kept)
        client.prove(kept.key.public.id, draw_challenge(inventory, 10))
        with pytest.raises(NodeRefusedError) as refused:
            client.prove(kept.key.public.id, draw_challenge(inventory, 11))
        assert code_of(refused) == Code.SAMPLE_CAP
        assert client.facts().limits.samples == 10


def test_an_owners_quota_counts_what_is_stored_and_what_is_announced(site: Site) -> None:
    kept = Holding.of(3000, 3000, 3000)
    file_bytes = 3000 + len(kept.tags[0])
    site.limits = Limits(quota_bytes=2 * file_bytes)
    with site.running() as running, running.client(site.owner, site.clock) as client:
        client.create(kept.key.public)
        inventory = put_file(client, kept, 0, client.inventory(kept.key.public.id))
        announced = [
            upload_request(Memory(bytes(kept.contents[n])), Memory(bytes(kept.tags[n])))
            for n in (1, 2)
        ]
        upload = client.begin(kept.key.public.id, announced[0]).upload
        with pytest.raises(NodeRefusedError) as refused:
            client.begin(kept.key.public.id, announced[1])
        assert code_of(refused) == Code.QUOTA
        assert refused.value.status == 507
        client.begin(kept.key.public.id, announced[0])
        client.abort(kept.key.public.id, upload)
        site.clock.now += 1  # what was announced in the second of the abort could be a replay
        client.begin(kept.key.public.id, announced[1])
        assert client.inventory(kept.key.public.id) == inventory
        with running.client(site.other, site.clock) as other:
            put(other, Holding.of(3000))  # a quota is each owner's own


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(files=1), Code.QUOTA),
        (Limits(uploads=1), Code.BUSY),
        (Limits(holdings=1), Code.QUOTA),
    ],
)
def test_what_an_owner_may_have_is_counted(site: Site, limits: Limits, code: Code) -> None:
    site.limits = limits
    kept = Holding.of(100, 100)
    with site.node() as node:
        account = node.store.account(site.owner.owner)
        account.create(kept.key.public)
        requests = [
            upload_request(Memory(bytes(content)), Memory(bytes(tags)))
            for content, tags in zip(kept.contents, kept.tags, strict=True)
        ]
        account.begin(kept.key.public.id, requests[0], 0)
        account.begin(kept.key.public.id, requests[0], 0)
        one_more = (
            partial(account.create, Holding.of(seed=1).key.public)
            if limits.holdings == 1
            else partial(account.begin, kept.key.public.id, requests[1], 0)
        )
        with pytest.raises(NodeRefusedError) as refused:
            one_more()
        assert code_of(refused) == code


class Gatekeeper:
    """Holds proofs up until it is told to let them go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.open = threading.Event(), threading.Event()
        prove = Kept.prove

        def held(kept: Kept, challenge: Challenge) -> Proof:
            self.entered.set()
            assert self.open.wait(60)
            return prove(kept, challenge)

        monkeypatch.setattr(Kept, "prove", held)


def test_a_node_that_proves_all_it_can_asks_to_come_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.limits = Limits(proofs_at_once=1)
    kept, gate = Holding.of(500), Gatekeeper(monkeypatch)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == MAX_ATTEMPTS:
            gate.open.set()

    with site.running() as running, running.client(site.owner, site.clock) as client:
        put(client, kept)
        challenge = kept.challenge_all()
        first = threading.Thread(target=client.prove, args=(kept.key.public.id, challenge))
        first.start()
        assert gate.entered.wait(60)
        hasty = NodeClient(
            running.url, site.owner, site.node_key.address, clock=site.clock, sleep=sleep
        )
        with hasty:
            with pytest.raises(NodeRefusedError) as refused:
                hasty.prove(kept.key.public.id, challenge)
            assert (code_of(refused), len(slept)) == (Code.BUSY, MAX_ATTEMPTS - 1)
            answered = hasty.holdings()
            assert len(answered) == 1, "only proofs have to wait"
            gate.open.set()
            first.join()
            assert kept.verify(challenge, hasty.prove(kept.key.public.id, challenge).proof)


def test_busy_is_429_with_the_time_to_wait(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, gate = Holding.of(500), Gatekeeper(monkeypatch)
    with wire.running.client(wire.site.owner, wire.site.clock) as client:
        put(client, kept)
        key_id, challenge = kept.key.public.id, kept.challenge_all()
        clients = [
            threading.Thread(target=client.prove, args=(key_id, challenge))
            for _ in range(wire.site.limits.proofs_at_once)
        ]
        for thread in clients:
            gate.entered.clear()
            thread.start()
            assert gate.entered.wait(60)
        message = ProofRequest((ProofQuestion(key_id, challenge),), 1000).encode()
        answer = wire.http.send(wire.signed(method="POST", path="/v1/proofs", body=message))
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        gate.open.set()
        for thread in clients:
            thread.join()


def test_a_body_is_refused_by_its_declared_length_before_it_is_read(wire: Wire) -> None:
    assert wire.http.send(wire.signed()).status_code == 200
    giant = wire.signed(body=b"x" * (1 << 18))
    answer = wire.http.send(giant)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, Code.TOO_LARGE)


def test_a_segment_of_another_length_is_refused(site: Site) -> None:
    kept = Holding.of(1500)
    data, tags = Memory(bytes(kept.contents[0])), Memory(bytes(kept.tags[0]))
    with site.client() as client:
        key_id = bytes.fromhex(client.create(kept.key.public).key_id)
        request = upload_request(data, tags, SEGMENT)
        upload = client.begin(key_id, request).upload
        for segment, content, code in (
            (0, b"x" * 999, Code.MALFORMED),
            (0, b"x" * 1001, Code.TOO_LARGE),
            (1, b"x" * 1000, Code.TOO_LARGE),
            (2, b"x", Code.NOT_FOUND),
        ):
            with pytest.raises(NodeRefusedError) as refused:
                client.send(key_id, upload, Part.DATA, segment, content)
            assert code_of(refused) == code
        client.send(key_id, upload, Part.DATA, 1, b"x" * 500)
        assert client.begin(key_id, request).missing.data == [0]


@pytest.mark.slow
def test_an_upload_has_no_more_lanes_than_the_node_receives_segments(site: Site) -> None:
    site.limits = Limits(segments_at_once=1)
    kept, slept = Holding.of(20 * SEGMENT), list[float]()
    with (
        site.running() as running,
        NodeClient(
            running.url, site.owner, site.node_key.address, clock=site.clock, sleep=slept.append
        ) as client,
    ):
        assert put(client, kept) == kept.inventory
    assert not slept, "it was never too busy"


@pytest.mark.slow
def test_metrics_count_requests_by_route(site: Site) -> None:
    with wire_to(site) as wire:
        assert wire.send(wire.signed()) == 200
        assert wire.http.get(f"{wire.running.url}/nowhere/{'0' * 64}").status_code == 404
        text = wire.http.get(f"{wire.running.url}/v1/metrics").text
    counted = 'method="PUT",route="/v1/holdings/{key_id}",status="200"} 1.0'
    assert f"holdfast_node_requests_total{{{counted}" in text
    assert "holdfast_node_holdings 1.0" in text
    assert "0" * 64 not in text, "addresses of strangers must not grow the metrics"
