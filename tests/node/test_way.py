"""The way of a file over HTTP: brought, proved, fetched, repaired, deleted."""

from collections.abc import Iterator

import pytest
from tests.support.memory_holding import Holding, tag_in_memory
from tests.support.node_env import SEGMENT, Site, put
from tests.support.recorded_wire import Wire

from holdfast.errors import NodeError
from holdfast.ledger.interface import Domain
from holdfast.node.client import NodeClient, node_facts, upload_request
from holdfast.node.identity import NodeKey
from holdfast.node.layout import Part
from holdfast.node.wire import Code, NodeRefusedError, RepairTarget
from holdfast.pdp import draw_challenge, verify_with_key
from holdfast.pdp.readers import Memory

DOMAIN = Domain(31337, b"\7" * 20)


@pytest.fixture
def kept() -> Holding:
    return Holding.of(5000, 0, 62 * 40, 777)


@pytest.fixture
def client(site: Site) -> Iterator[NodeClient]:
    with site.client() as client:
        yield client


def refusal(error: pytest.ExceptionInfo[NodeRefusedError]) -> Code:
    return error.value.code


@pytest.mark.slow
def test_a_proof_over_http_verifies(client: NodeClient, kept: Holding) -> None:
    inventory = put(client, kept)
    assert inventory == kept.inventory == client.inventory(kept.key.public.id)
    challenge = kept.challenge_all()
    answer = client.prove(kept.key.public.id, challenge)
    assert verify_with_key(kept.key, inventory, challenge, answer.proof)
    (facts,) = client.holdings()
    assert (facts.files, facts.blocks) == (4, inventory.blocks)
    assert facts.bytes == sum(map(len, kept.contents))
    assert facts.inventory_hash == inventory.hash.hex()


@pytest.mark.slow
def test_a_challenge_for_another_inventory_is_refused(client: NodeClient, kept: Holding) -> None:
    put(client, kept)
    fewer = kept.inventory.without_file(kept.ids[0])
    with pytest.raises(NodeRefusedError) as refused:
        client.prove(kept.key.public.id, draw_challenge(fewer, 1))
    assert refusal(refused) == Code.INVENTORY


@pytest.mark.slow
def test_damage_fails_the_audit_until_it_is_repaired(client: NodeClient, kept: Holding) -> None:
    put(client, kept)
    key_id, file_id, size = kept.key.public.id, kept.ids[0], kept.block_bytes
    good = client.blocks(key_id, file_id, [(3, 4)])
    assert good == kept.contents[0][3 * size : 4 * size]
    challenge = kept.challenge_all()
    target = RepairTarget(file_id, 1, kept.inventory.hash)
    client.replace_blocks(key_id, target, [(3, 4)], bytes(size))
    assert not kept.verify(challenge, client.prove(key_id, challenge).proof)
    client.replace_blocks(key_id, target, [(3, 4)], good)
    assert kept.verify(challenge, client.prove(key_id, challenge).proof)
    tag = client.tags(key_id, file_id, [(3, 4)])
    client.replace_tags(key_id, target, [(3, 4)], bytes(32))
    assert not kept.verify(challenge, client.prove(key_id, challenge).proof)
    client.replace_tags(key_id, target, [(3, 4)], tag)
    assert kept.verify(challenge, client.prove(key_id, challenge).proof)
    with pytest.raises(NodeRefusedError) as refused:
        client.replace_blocks(key_id, target, [(3, 4)], good[1:])
    assert refusal(refused) == Code.MALFORMED


@pytest.mark.slow
def test_a_file_comes_back_whole_by_range_by_blocks_and_with_its_tags(
    client: NodeClient, kept: Holding
) -> None:
    put(client, kept)
    key_id = kept.key.public.id
    for file_id, content, tags in zip(kept.ids, kept.contents, kept.tags, strict=True):
        if content:  # an empty file has no range
            assert client.read(key_id, file_id, Part.DATA, 0, len(content)) == content
        assert client.read(key_id, file_id, Part.TAGS, 0, len(tags)) == tags
    whole = bytes(kept.contents[0])
    for start, stop in ((0, 1), (990, 1010), (0, 5000), (4999, 5000)):
        assert client.read(key_id, kept.ids[0], Part.DATA, start, stop) == whole[start:stop]
    last = len(whole) // kept.block_bytes
    blocks = [whole[at * 62 : at * 62 + 62] for at in (0, 16, 17, last)]
    spans = [(0, 1), (16, 18), (last, last + 1)]
    assert client.blocks(key_id, kept.ids[0], spans) == b"".join(blocks)
    all_tags = kept.get_tags()
    assert client.tags(key_id, kept.ids[0], [(0, 1), (9, 12)]) == b"".join(
        all_tags[at] for at in (0, 9, 10, 11)
    )
    with pytest.raises(NodeRefusedError) as refused:
        client.blocks(key_id, kept.ids[0], [(last, last + 2)])
    assert refusal(refused) == Code.NOT_FOUND


@pytest.mark.parametrize(
    ("asked", "status", "content"),
    [
        (None, 200, slice(0, None)),
        ("bytes=10-", 206, slice(10, None)),
        ("bytes=-10", 206, slice(-10, None)),
        ("bytes=0-99999", 206, slice(0, None)),
        ("bytes=5000-", 416, None),
        ("bytes=9-8", 416, None),
        ("bytes=0-1,3-4", 416, None),
        ("bytes=-", 416, None),
        ("blocks=0-1", 416, None),
    ],
)
def test_ranges_are_those_of_http(
    wire: Wire, kept: Holding, asked: str | None, status: int, content: slice | None
) -> None:
    with wire.running.client(wire.site.owner, wire.site.clock) as client:
        put(client, kept)
    path = f"/v1/holdings/{kept.key.public.id.hex()}/files/{kept.ids[0].hex()}/data"
    request = wire.signed(method="GET", path=path)
    if asked is not None:
        request.headers["range"] = asked
    answer = wire.http.send(request)
    assert answer.status_code == status
    if content is not None:
        assert answer.content == kept.contents[0][content]


def test_an_empty_file_is_served_empty(wire: Wire) -> None:
    empty = Holding.of(0, seed=5)
    with wire.running.client(wire.site.owner, wire.site.clock) as client:
        put(client, empty)
    path = f"/v1/holdings/{empty.key.public.id.hex()}/files/{empty.ids[0].hex()}/data"
    answer = wire.http.send(wire.signed(method="GET", path=path))
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.slow
def test_a_deleted_file_is_gone_and_the_rest_is_still_proved(
    client: NodeClient, kept: Holding
) -> None:
    put(client, kept)
    key_id = kept.key.public.id
    before, after = kept.inventory.hash, kept.inventory.without_file(kept.ids[1])
    with pytest.raises(NodeRefusedError) as refused:
        client.delete_file(key_id, kept.ids[1], before, before)
    assert refusal(refused) == Code.INVENTORY
    client.delete_file(key_id, kept.ids[1], before, after.hash)
    client.delete_file(key_id, kept.ids[1], before, after.hash)
    assert client.inventory(key_id) == after
    challenge = draw_challenge(after, after.blocks)
    proof = client.prove(key_id, challenge).proof
    assert verify_with_key(kept.key, after, challenge, proof)
    with pytest.raises(NodeRefusedError) as refused:
        client.remove(key_id)
    assert refusal(refused) == Code.CONFLICT


def test_an_empty_holding_can_be_removed_and_opened_again(client: NodeClient) -> None:
    kept = Holding.of(10)
    client.create(kept.key.public)
    client.create(kept.key.public)
    client.remove(kept.key.public.id)
    assert client.holdings() == []
    put(client, kept)
    assert client.inventory(kept.key.public.id) == kept.inventory


@pytest.mark.slow
def test_a_new_version_takes_the_place_of_the_old_one(client: NodeClient) -> None:
    old, changed = Holding.of(100, 3000, 50), b"changed" * 500
    inventory = put(client, old)
    header, content = tag_in_memory(old.key, changed, old.ids[1], version=2, nonce=b"n" * 32)
    data, tags, entry = Memory(changed), Memory(content), header.entry
    request = upload_request(data, tags, SEGMENT)
    after = inventory.with_file(entry)
    key_id = old.key.public.id
    client.upload(key_id, request, data, tags, after.hash)
    assert client.inventory(key_id) == after
    assert client.read(key_id, entry.file_id, Part.DATA, 0, len(changed)) == changed
    challenge = draw_challenge(after, after.blocks)
    assert verify_with_key(old.key, after, challenge, client.prove(key_id, challenge).proof)


def test_other_tags_under_a_version_that_is_held_are_refused(client: NodeClient) -> None:
    kept = Holding.of(3000)
    put(client, kept)
    _, content = tag_in_memory(kept.key, b"changed" * 500, kept.ids[0], nonce=b"n" * 32)
    request = upload_request(Memory(b"changed" * 500), Memory(content), SEGMENT)
    with pytest.raises(NodeRefusedError, match="a changed file needs a new version") as caught:
        client.begin(kept.key.public.id, request)
    assert caught.value.code is Code.CONFLICT


@pytest.mark.slow
def test_an_answer_that_the_pinned_node_did_not_sign_is_found_out(
    site: Site, kept: Holding
) -> None:
    with site.running() as running, running.client(site.owner, site.clock) as client:
        assert node_facts(running.url).address == site.node_key.address.hex()
        put(client, kept)
        client.prove(kept.key.public.id, kept.challenge_all())
        object.__setattr__(running.node, "key", NodeKey.generate())
        with pytest.raises(NodeError, match="not signed by the node you know"):
            client.prove(kept.key.public.id, kept.challenge_all())


def test_a_node_out_of_reach_is_an_error_of_one_sentence(site: Site) -> None:
    with site.running() as running:
        url = running.url
    with (
        NodeClient(url, site.owner, site.node_key.address) as client,
        pytest.raises(NodeError, match="can't reach the node at"),
    ):
        client.holdings()
