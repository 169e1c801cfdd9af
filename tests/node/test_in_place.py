"""A sidecar: files that stay where they are, of which only the tags are brought."""

from pathlib import Path

import pytest
from tests.support.memory_holding import Holding
from tests.support.node_env import SEGMENT, Site

from holdfast.node.client import NodeClient, upload_request
from holdfast.node.layout import Part
from holdfast.node.objects import open_objects
from holdfast.node.wire import Code, Limits, NodeRefusedError, RepairTarget
from holdfast.pdp import Inventory
from holdfast.pdp.readers import Memory

NAME = "photos/März 2024.tar"


def bring(client: NodeClient, kept: Holding, path: str = NAME) -> Inventory:
    client.create(kept.key.public)
    data, tags = Memory(bytes(kept.contents[0])), Memory(bytes(kept.tags[0]))
    request = upload_request(data, tags, SEGMENT, in_place=path)
    sent: list[int] = []
    client.upload(
        kept.key.public.id, request, data, tags, kept.inventory.hash, on_progress=sent.append
    )
    assert sent[-1] == tags.size(), "only the tags are sent"
    return kept.inventory


@pytest.fixture
def share(tmp_path: Path) -> Path:
    path = tmp_path / "share"
    (path / NAME).parent.mkdir(parents=True)
    return path


@pytest.mark.parametrize("size", [0, 5000])
def test_a_file_in_place_is_proved_and_its_damage_is_found(
    site: Site, share: Path, size: int
) -> None:
    kept = Holding.of(size)
    (share / NAME).write_bytes(kept.contents[0])
    site.data = open_objects(str(share))
    site.limits = Limits(quota_bytes=len(kept.tags[0]))
    with site.client() as client:
        inventory = bring(client, kept)
        challenge, key_id = kept.challenge_all(), kept.key.public.id
        assert kept.verify(challenge, client.prove(key_id, challenge).proof)
        assert client.inventory(key_id) == inventory
        if size:
            read = client.read(key_id, kept.ids[0], Part.DATA, 0, size)
            assert read == kept.contents[0]
            kept.damage(3)
            (share / NAME).write_bytes(kept.contents[0])
            assert not kept.verify(challenge, client.prove(key_id, challenge).proof)
            (share / NAME).write_bytes(kept.contents[0][:-1])
            with pytest.raises(NodeRefusedError) as refused:
                client.prove(key_id, challenge)
            assert refused.value.code == Code.DAMAGED


def test_a_node_never_writes_where_files_are_kept_in_place(site: Site, share: Path) -> None:
    kept = Holding.of(5000)
    (share / NAME).write_bytes(kept.contents[0])
    site.data = open_objects(str(share))
    with site.client() as client:
        bring(client, kept)
        target = RepairTarget(kept.ids[0], 1, kept.inventory.hash)
        with pytest.raises(NodeRefusedError) as refused:
            client.replace_blocks(kept.key.public.id, target, [(0, 1)], bytes(kept.block_bytes))
        assert refused.value.code == Code.CONFLICT
        before, after = kept.inventory, kept.inventory.without_file(kept.ids[0])
        client.delete_file(kept.key.public.id, kept.ids[0], before.hash, after.hash)
    assert (share / NAME).read_bytes() == kept.contents[0]


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"x" * 4999, Code.CHECKSUM), (b"x" * 5000, Code.CHECKSUM), (None, Code.NOT_FOUND)],
)
def test_a_file_in_place_must_be_the_one_announced(
    site: Site, share: Path, content: bytes | None, code: Code
) -> None:
    if content is not None:
        (share / NAME).write_bytes(content)
    site.data = open_objects(str(share))
    with site.client() as client:
        with pytest.raises(NodeRefusedError) as refused:
            bring(client, Holding.of(5000))
        assert refused.value.code == code
        assert client.holdings()[0].files == 0


def test_a_node_without_such_storage_takes_nothing_in_place(site: Site) -> None:
    with site.client() as client:
        with pytest.raises(NodeRefusedError) as refused:
            bring(client, Holding.of(5000))
        assert refused.value.code == Code.FORBIDDEN


@pytest.mark.slow
def test_files_of_a_bucket_are_proved_in_place(site: Site, bucket: str, tmp_path: Path) -> None:
    kept = Holding.of(5000)
    site.data = open_objects(f"{bucket}/{tmp_path.name}")
    site.data.write(NAME, kept.contents[0])
    with site.client() as client:
        bring(client, kept)
        challenge = kept.challenge_all()
        answer = client.prove(kept.key.public.id, challenge)
        assert kept.verify(challenge, answer.proof)
