"""Many blocks and tags put back by one request."""

from collections.abc import Iterator

import pytest
from tests.support.memory_holding import Holding
from tests.support.node_env import Site, put

from holdfast.node.client import NodeClient
from holdfast.node.wire import Code, NodeRefusedError, RepairTarget
from holdfast.pdp.spans import Span
from holdfast.pdp.tags import TAG_BYTES


@pytest.fixture
def kept() -> Holding:
    return Holding.of(100, 5000)


@pytest.fixture
def client(site: Site) -> Iterator[NodeClient]:
    with site.client() as client:
        yield client


def test_blocks_and_tags_are_put_back_by_the_dozen(client: NodeClient, kept: Holding) -> None:
    put(client, kept)
    where, challenge = (kept.key.public.id, kept.ids[1]), kept.challenge_all()
    target = (kept.key.public.id, RepairTarget(kept.ids[1], 1, kept.inventory.hash))
    count = kept.inventory.files[1].blocks
    spans = [*((at, at + 2) for at in range(0, count - 2, 3)), (count - 1, count)]
    blocks, tags = client.blocks(*where, spans), client.tags(*where, spans)
    client.replace_blocks(*target, spans, bytes(len(blocks)))
    assert client.blocks(*where, spans) == bytes(len(blocks))
    assert not kept.verify(challenge, client.prove(where[0], challenge).proof)
    client.replace_blocks(*target, spans, blocks)
    assert kept.verify(challenge, client.prove(where[0], challenge).proof)
    client.replace_tags(*target, spans, bytes(len(tags)))
    assert not kept.verify(challenge, client.prove(where[0], challenge).proof)
    client.replace_tags(*target, spans, tags)
    assert kept.verify(challenge, client.prove(where[0], challenge).proof)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spans", "blocks", "code"),
    [
        ([(0, 2)], 1, Code.MALFORMED),
        ([(0, 1)], 2, Code.TOO_LARGE),
        ([(0, 1), (10**6, 10**6 + 1)], 2, Code.NOT_FOUND),
        ([(3, 3)], 1, Code.MALFORMED),
        ([(4, 5), (3, 4)], 2, Code.MALFORMED),
        ([(3, 5), (4, 6)], 4, Code.MALFORMED),
        ([(0, 10**9)], 1, Code.TOO_LARGE),
    ],
)
def test_what_does_not_fit_changes_nothing(
    client: NodeClient, kept: Holding, spans: list[Span], blocks: int, code: Code
) -> None:
    put(client, kept)
    key_id, target = kept.key.public.id, RepairTarget(kept.ids[1], 1, kept.inventory.hash)
    for replace, size in (
        (client.replace_blocks, kept.block_bytes),
        (client.replace_tags, TAG_BYTES),
    ):
        with pytest.raises(NodeRefusedError) as refused:
            replace(key_id, target, spans, bytes(blocks * size))
        assert refused.value.code is code
    challenge = kept.challenge_all()
    assert kept.verify(challenge, client.prove(key_id, challenge).proof)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "another_inventory", "code"),
    [(2, False, Code.CONFLICT), (1, True, Code.INVENTORY)],
)
def test_a_repair_of_another_version_or_inventory_changes_nothing(
    client: NodeClient, kept: Holding, version: int, another_inventory: bool, code: Code
) -> None:
    put(client, kept)
    inventory = kept.inventory.without_file(kept.ids[0]) if another_inventory else kept.inventory
    key_id, target = kept.key.public.id, RepairTarget(kept.ids[1], version, inventory.hash)
    for replace, size in (
        (client.replace_blocks, kept.block_bytes),
        (client.replace_tags, TAG_BYTES),
    ):
        with pytest.raises(NodeRefusedError) as refused:
            replace(key_id, target, [(0, 1)], bytes(size))
        assert refused.value.code is code
    challenge = kept.challenge_all()
    assert kept.verify(challenge, client.prove(key_id, challenge).proof)
