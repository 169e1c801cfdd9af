"""Many proofs by one signed request: each question has its own answer, refusal or error."""

import time
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from tests.support.memory_holding import Holding
from tests.support.node_env import Running, Site, put

from holdfast.errors import InputError, NodeError
from holdfast.ledger.interface import Answer, Domain, Opening, holding_id
from holdfast.node.client import NodeClient
from holdfast.node.holding import Holding as Kept
from holdfast.node.identity import NodeKey
from holdfast.node.layout import Part
from holdfast.node.node import Node
from holdfast.node.proof_messages import AnswerTo, ProofQuestion
from holdfast.node.wire import Code, Limits, NodeRefusedError
from holdfast.pdp import Challenge, Proof, draw_challenge
from holdfast.pdp.field import Q

DOMAIN = Domain(31337, b"\7" * 20)


@pytest.fixture
def running(site: Site) -> Iterator[Running]:
    with site.running() as running:
        yield running


@pytest.fixture
def client(site: Site, running: Running) -> Iterator[NodeClient]:
    with running.client(site.owner, site.clock) as client:
        yield client


@pytest.fixture
def holdings(client: NodeClient) -> list[Holding]:
    stored = [Holding.of(5000, 777, seed=seed) for seed in range(3)]
    for holding in stored:
        put(client, holding)
    return stored


def question(holding: Holding, samples: int = 5) -> ProofQuestion:
    return ProofQuestion(holding.key.public.id, draw_challenge(holding.inventory, samples))


def codes(answers: list[Answer | NodeRefusedError | NodeError]) -> list[Code | None]:
    return [answer.code if isinstance(answer, NodeRefusedError) else None for answer in answers]


def test_one_request_proves_challenges_over_several_holdings_in_order(
    client: NodeClient, holdings: list[Holding]
) -> None:
    asked = [holdings[n % 3] for n in range(64)]
    questions = [question(holding) for holding in asked]
    answers = client.prove_many(questions, seconds=30)
    for holding, asks, answer in zip(asked, questions, answers, strict=True):
        assert isinstance(answer, Answer)
        assert holding.verify(asks.challenge, answer.proof)


def test_nothing_asked_is_nothing_answered(client: NodeClient) -> None:
    assert client.prove_many([], seconds=1) == []


def test_more_challenges_than_a_request_may_have_are_refused(
    client: NodeClient, holdings: list[Holding]
) -> None:
    with pytest.raises(InputError, match="1 to 64 challenges, not 65"):
        client.prove_many([question(holdings[0])] * 65, seconds=1)


def test_a_node_may_take_fewer_challenges_and_says_so(site: Site) -> None:
    site.limits = Limits(challenges=2)
    holding = Holding.of(500)
    with site.client() as client:
        put(client, holding)
        assert client.facts().limits.challenges == 2
        client.prove_many([question(holding, 1)] * 2, seconds=5)
        with pytest.raises(NodeRefusedError, match="at most 2 challenges") as refused:
            client.prove_many([question(holding, 1)] * 3, seconds=5)
        assert refused.value.code is Code.TOO_LARGE


def test_each_refusal_stands_in_its_place_and_spoils_no_other(
    running: Running, client: NodeClient, holdings: list[Holding], site: Site
) -> None:
    sound, damaged, other = holdings
    kept = running.node.store.account(site.owner.owner).holding(damaged.key.public.id)
    for file in kept.record.files:
        kept.layout.objects.remove(kept.layout.segment(file.upload, Part.DATA, 0))
    elsewhere = Holding.of(5000, seed=9)
    opening = Opening(b"\6" * 20, 2**40, b"\4" * 32)  # of a batch that the challenge is not from
    to = AnswerTo.of(DOMAIN, holding_id(b"\5" * 20, 3), opening)
    answers = client.prove_many(
        [
            question(sound),
            question(elsewhere),
            replace(question(sound), challenge=question(other).challenge),
            ProofQuestion(damaged.key.public.id, damaged.challenge_all()),
            replace(question(other), to=to),
            question(other),
        ],
        seconds=30,
    )
    assert codes(answers) == [
        None,
        Code.UNKNOWN_HOLDING,
        Code.INVENTORY,
        Code.DAMAGED,
        Code.MALFORMED,
        None,
    ]
    assert isinstance(answers[0], Answer)
    assert isinstance(answers[-1], Answer)
    counted = httpx.get(f"{running.url}/v1/metrics").text
    assert 'holdfast_node_proofs_total{result="proved"} 2.0' in counted
    assert 'holdfast_node_proofs_total{result="damaged"} 1.0' in counted


def test_another_owners_holding_is_not_there(
    site: Site, running: Running, holdings: list[Holding]
) -> None:
    with running.client(site.other, site.clock) as stranger:
        answers = stranger.prove_many([question(holdings[0])], seconds=5)
    assert codes(answers) == [Code.UNKNOWN_HOLDING]


@pytest.mark.slow
def test_an_answer_that_is_not_the_nodes_is_an_error_in_its_place(
    client: NodeClient, holdings: list[Holding], monkeypatch: pytest.MonkeyPatch
) -> None:
    prove, numbers = Node.prove, iter(range(4))

    def lie(node: Node, kept: Kept, asked: ProofQuestion) -> Answer:
        honest, number = prove(node, kept, asked), next(numbers)
        if number == 1:
            return prove(replace(node, key=NodeKey.generate()), kept, asked)
        if number == 2:
            return prove(node, kept, replace(asked, challenge=question(holdings[0]).challenge))
        return replace(honest, proof=replace(honest.proof, sigma=Q)) if number == 3 else honest

    monkeypatch.setattr(Node, "prove", lie)
    answers = client.prove_many([question(holdings[0]) for _ in range(4)], seconds=30)
    assert isinstance(answers[0], Answer)
    assert [str(answer).partition(client.url)[2] for answer in answers[1:]] == [
        " is not signed by the node you know",
        " answered another challenge",
        " has a number that is not below q",
    ]
    assert all(isinstance(answer, NodeError) for answer in answers[1:])


@pytest.mark.slow
def test_what_finds_no_time_is_refused_as_busy_and_the_rest_arrives_in_time(
    client: NodeClient, holdings: list[Holding], monkeypatch: pytest.MonkeyPatch
) -> None:
    prove = Kept.prove

    def slow(kept: Kept, challenge: Challenge) -> Proof:
        time.sleep(0.3)
        return prove(kept, challenge)

    monkeypatch.setattr(Kept, "prove", slow)
    answers = client.prove_many([question(holdings[0]) for _ in range(64)], seconds=2)
    refused = codes(answers)
    assert refused[0] is None
    assert refused[-1] is Code.BUSY
    assert refused == sorted(refused, key=bool), "what comes first is proved first"


@pytest.mark.slow
def test_no_proof_begins_that_would_make_the_others_late(
    client: NodeClient, holdings: list[Holding], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node whose disk is slow sends what it has, instead of all of it too late."""
    prove = Kept.prove

    def slow(kept: Kept, challenge: Challenge) -> Proof:
        time.sleep(0.9)
        return prove(kept, challenge)

    monkeypatch.setattr(Kept, "prove", slow)
    answers = client.prove_many([question(holdings[0]) for _ in range(3)], seconds=2)
    assert codes(answers) == [None, Code.BUSY, Code.BUSY]


@pytest.mark.slow
def test_a_node_bounds_the_time_of_a_request_by_its_own_limit(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.limits = Limits(proof_seconds=1)
    holding, proved = Holding.of(500), []

    def slow(_kept: Kept, challenge: Challenge) -> Proof:
        proved.append(challenge)
        time.sleep(0.8)
        return Proof(challenge.id, 0, (0, 0))

    with site.client() as client:
        put(client, holding)
        monkeypatch.setattr(Kept, "prove", slow)
        answers = client.prove_many([question(holding, 1)] * 5, seconds=60)
    assert codes(answers) == [None] + 4 * [Code.BUSY]
    assert len(proved) == 1


def test_all_proofs_of_a_request_have_no_more_blocks_than_one_may_have(site: Site) -> None:
    """Else one owner could keep a slot for a minute by one request."""
    site.limits = Limits(samples=10)
    holding = Holding.of(62 * 50)
    with site.client() as client:
        put(client, holding)
        asked = [question(holding, samples) for samples in (6, 4, 1)]
        assert codes(client.prove_many(asked, seconds=5)) == [None, None, Code.BUSY]
        assert codes(client.prove_many([question(holding, 11)], seconds=5)) == [Code.SAMPLE_CAP]
