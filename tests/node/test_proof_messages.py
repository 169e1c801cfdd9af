"""What a node signs: answers to the very challenge that is open on a ledger, and no others."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from tests.support.memory_holding import Holding
from tests.support.node_env import Site, put, serving

from holdfast.ledger.interface import Batch, Domain, Entry, Opening, batch_seed, holding_id
from holdfast.ledger.local import LocalLedger
from holdfast.ledger.local_reader import registered_key
from holdfast.ledger.signing import signer
from holdfast.node.client import NodeClient
from holdfast.node.node import Node
from holdfast.node.proof_messages import AnswerTo
from holdfast.node.serving import RunningNode
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.pdp import Challenge, draw_challenge

DOMAIN = Domain(31337, b"\7" * 20)


@pytest.fixture
def kept() -> Holding:
    return Holding.of(5000, 777)


@pytest.fixture
def client(site: Site) -> Iterator[NodeClient]:
    with site.client() as client:
        yield client


def refusal(error: pytest.ExceptionInfo[NodeRefusedError]) -> Code:
    return error.value.code


def test_an_answer_to_a_ledger_is_signed_for_what_is_open_there(
    client: NodeClient, kept: Holding
) -> None:
    """The node itself works out the name, from all that an owner could open anew or otherwise."""
    put(client, kept)
    challenge, holding = kept.challenge_all(), holding_id(b"\5" * 20, 3)
    opening = Opening(b"\6" * 20, 2**40)
    answer = client.prove(kept.key.public.id, challenge, AnswerTo.of(DOMAIN, holding, opening))

    def signed_for(opening: Opening, asked: Challenge) -> bool:
        name = opening.name(holding, asked)
        return signer(answer.signature, DOMAIN, holding, name, answer.proof) == client.node

    assert signed_for(opening, challenge)
    assert not signed_for(replace(opening, deadline=2**40 + 1), challenge)
    assert not signed_for(replace(opening, target=b"\7" * 20), challenge)
    assert not signed_for(opening, kept.challenge_all())
    part = draw_challenge(kept.inventory, 1, span=(0, 1))
    with pytest.raises(NodeRefusedError) as refused:
        client.prove(kept.key.public.id, part, AnswerTo.of(DOMAIN, holding, opening))
    assert refusal(refused) == Code.MALFORMED


def test_an_answer_to_a_batch_is_signed_for_what_is_open_there(
    client: NodeClient, kept: Holding
) -> None:
    inventory = put(client, kept)
    word = Entry(b"\6" * 20, 3, 5, inventory.hash[:4]).encode()
    batch = Batch(b"\5" * 20, b"\4" * 32, 2**40, (b"\1" * 32, word))
    holding = batch.holding(1)
    challenge = draw_challenge(inventory, 5, seed=batch_seed(batch.seed, holding))
    to = AnswerTo.of(DOMAIN, holding, Opening(b"\6" * 20, 2**40, batch.seed))
    answer = client.prove(kept.key.public.id, challenge, to)
    signed = (DOMAIN, holding, batch.challenge_id(1), answer.proof)
    assert signer(answer.signature, *signed) == client.node
    assert kept.verify(challenge, answer.proof)
    with pytest.raises(NodeRefusedError) as refused:
        client.prove(kept.key.public.id, kept.challenge_all(), to)
    assert refusal(refused) == Code.MALFORMED


def test_a_node_that_knows_a_ledger_takes_only_the_key_registered_there(
    site: Site, kept: Holding, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, owner = tmp_path_factory.mktemp("ledger") / "ledger", b"\5" * 20
    ledger = LocalLedger(path, owner, site.clock, sectors=2)
    ledger.register(kept.key.public, site.node_key.address)
    ledger.close()
    with site.node() as node:
        knowing = Node(node.key, node.store, node.gate, partial(registered_key, path))
        with (
            serving(RunningNode(knowing, "127.0.0.1", 0)) as url,
            NodeClient(url, site.owner, site.node_key.address, clock=site.clock) as client,
        ):
            client.create(kept.key.public, holding_id(owner, 0))
            for key, holding, code in (
                (kept.key.public, None, Code.MALFORMED),
                (kept.key.public, holding_id(owner, 1), Code.CONFLICT),
                (Holding.of(seed=1).key.public, holding_id(owner, 0), Code.CONFLICT),
            ):
                with pytest.raises(NodeRefusedError) as refused:
                    client.create(key, holding)
                assert refusal(refused) == code
