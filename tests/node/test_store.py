"""What a node stores, on a folder, in memory and on a real S3 server alike."""

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from io import RawIOBase
from math import floor
from pathlib import Path

import pytest
from tests.support.memory_holding import Holding
from tests.support.node_env import SEGMENT, Site

from holdfast.errors import InputError, StorageError
from holdfast.node import uploads
from holdfast.node.client import upload_request
from holdfast.node.layout import Part
from holdfast.node.node import Node
from holdfast.node.objects import open_objects
from holdfast.node.segments import combine_digests, segment_range
from holdfast.node.wire import Code, Missing, NodeRefusedError, RepairTarget, UploadRequest
from holdfast.pdp import FileEntry, draw_challenge
from holdfast.pdp.readers import Memory


class Bench:
    """An owner at work on a node without the network between them."""

    def __init__(self, site: Site, node: Node, holding: Holding) -> None:
        self.own, self.clock = holding, site.clock
        self.account = node.store.account(site.owner.owner)
        self.kept = self.account.create(holding.key.public)

    def announce(self, number: int) -> UploadRequest:
        data, tags = (Memory(bytes(part[number])) for part in (self.own.contents, self.own.tags))
        file_id = self.own.ids[number].hex()
        return upload_request(data, tags, SEGMENT).model_copy(update={"file_id": file_id})

    def begin(self, number: int) -> tuple[bytes, Missing]:
        now = floor(self.clock())
        state = self.account.begin(self.own.key.public.id, self.announce(number), now)
        return bytes.fromhex(state.upload), state.missing

    def send(self, number: int, upload: bytes, part: Part, segment: int) -> None:
        content = bytes((self.own.contents if part is Part.DATA else self.own.tags)[number])
        start, length = segment_range(segment, len(content), SEGMENT)
        piece = content[start : start + length]
        uploads.receive(self.kept, upload, part, segment, [piece], self.clock())

    def send_all(self, number: int) -> bytes:
        upload, missing = self.begin(number)
        for part, segments in ((Part.DATA, missing.data), (Part.TAGS, missing.tags)):
            for segment in segments:
                self.send(number, upload, part, segment)
        return upload

    def hash_with(self, number: int) -> bytes:
        return self.kept.record.inventory.with_file(self.entry(number)).hash

    def entry(self, number: int) -> FileEntry:
        return self.own.inventory.files[number]

    def put(self, number: int) -> None:
        uploads.commit(self.kept, self.send_all(number), self.hash_with(number))

    def passes(self) -> bool:
        challenge = draw_challenge(self.kept.record.inventory, self.kept.record.inventory.blocks)
        return self.own.verify(challenge, self.kept.prove(challenge))

    def content(self, number: int, part: Part = Part.DATA) -> bytes:
        reader = self.kept.reader(self.kept.file(self.own.ids[number]), part)
        return reader.read_many([(0, reader.size())])[0]


SIZES = (0, 1, SEGMENT, 3 * SEGMENT + 500, 62 * 50)


@pytest.mark.slow
def test_what_was_stored_is_read_and_proved_by_the_next_process(anywhere: Site) -> None:
    own = Holding.of(*SIZES)
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        for number in range(len(SIZES)):
            bench.put(number)
        assert bench.kept.record.inventory == own.inventory
        assert bench.passes()
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        assert bench.kept.record.inventory == own.inventory
        assert bench.passes()
        for number, content in enumerate(own.contents):
            assert bench.content(number) == content
            assert bench.content(number, Part.TAGS) == own.tags[number]


def test_an_interrupted_upload_goes_on_where_it_was(anywhere: Site) -> None:
    own = Holding.of(3 * SEGMENT + 500)
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        upload, missing = bench.begin(0)
        assert missing.data == [0, 1, 2, 3]
        bench.send(0, upload, Part.DATA, 2)
        bench.send(0, upload, Part.TAGS, 0)
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        again, missing = bench.begin(0)
        assert (again, missing.data, missing.tags[0]) == (upload, [0, 1, 3], 1)
        assert not bench.kept.record.files, "nothing is part of the holding before its commit"
        bench.put(0)
        assert bench.passes()


def test_repeated_requests_change_nothing_more(anywhere: Site) -> None:
    own = Holding.of(SEGMENT + 5)
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        upload = bench.send_all(0)
        bench.send(0, upload, Part.DATA, 0)
        expected = bench.hash_with(0)
        assert uploads.commit(bench.kept, upload, expected) == expected
        assert uploads.commit(bench.kept, upload, expected) == expected
        assert bench.begin(0) == (upload, Missing(data=[], tags=[]))
        assert bench.kept.reserved_bytes == len(own.contents[0]) + len(own.tags[0])
        with pytest.raises(NodeRefusedError) as refused:
            bench.send(0, upload, Part.DATA, 0)
        assert refused.value.code == Code.CONFLICT
        empty = own.inventory.without_file(own.ids[0]).hash
        for _ in range(2):
            bench.kept.delete_file(own.ids[0], own.inventory.hash, empty)
        assert not bench.kept.record.files


def test_a_file_that_is_not_what_was_announced_is_dropped(anywhere: Site) -> None:
    own = Holding.of(SEGMENT + 5)
    honest = bytes(own.contents[0])
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        request = bench.announce(0)
        upload = bench.send_all(0)
        altered = b"\0" * (len(honest) - SEGMENT)
        uploads.receive(bench.kept, upload, Part.DATA, 1, [altered], 0)
        with pytest.raises(NodeRefusedError) as refused:
            uploads.commit(bench.kept, upload, bench.hash_with(0))
        assert refused.value.code == Code.CHECKSUM
        assert not bench.kept.record.files
        segments = (honest[:SEGMENT], honest[SEGMENT:])
        digests = b"".join(hashlib.sha256(segment).digest() for segment in segments)
        assert request.data_digest == hashlib.sha256(digests).hexdigest()
        assert bench.begin(0)[1].data == [0, 1], "nothing of it is kept"
        bench.put(0)
        assert bench.passes()


def test_a_segment_is_written_while_it_arrives_and_named_when_it_is_whole(site: Site) -> None:
    own = Holding.of(SEGMENT)
    drafts = Path(site.objects.address) / ".drafts"
    with site.node() as node:
        bench = Bench(site, node, own)
        upload, _ = bench.begin(0)
        content = bytes(own.contents[0])

        def arriving() -> Iterator[bytes]:
            yield content[:400]
            (draft,) = drafts.iterdir()
            assert draft.read_bytes() == content[:400], "it goes straight to the disk"
            assert bench.begin(0)[1].data == [0], "half a segment is none"
            yield content[400:]

        uploads.receive(bench.kept, upload, Part.DATA, 0, arriving(), 0)
        assert bench.begin(0)[1].data == []
        assert not list(drafts.iterdir())


@pytest.mark.parametrize("trouble", ["cut off", "too short", "another digest"])
def test_a_segment_that_does_not_arrive_as_signed_leaves_nothing(
    anywhere: Site, trouble: str
) -> None:
    own = Holding.of(SEGMENT)
    content = bytes(own.contents[0])

    def arriving() -> Iterator[bytes]:
        yield content[:400]
        if trouble == "cut off":
            raise ConnectionResetError
        yield content[400 : 999 if trouble == "too short" else SEGMENT]

    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        upload, _ = bench.begin(0)
        expected = hashlib.sha256(content if trouble != "another digest" else b"").digest()
        with pytest.raises((ConnectionResetError, StorageError, NodeRefusedError)):
            uploads.receive(bench.kept, upload, Part.DATA, 0, arriving(), 0, expected=expected)
        assert bench.begin(0)[1].data == [0]
        bench.put(0)
        assert bench.passes()


def test_a_segment_that_changed_before_a_restart_is_noticed_at_the_commit(anywhere: Site) -> None:
    own = Holding.of(SEGMENT + 5)
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        upload = bench.send_all(0)
        anywhere.objects.write(bench.kept.layout.segment(upload, Part.DATA, 0), bytes(SEGMENT))
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        with pytest.raises(NodeRefusedError) as refused:
            uploads.commit(bench.kept, upload, bench.hash_with(0))
        assert refused.value.code == Code.CHECKSUM


def test_a_commit_reads_nothing_again_that_was_hashed_on_arrival(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Holding.of(3 * SEGMENT)
    with site.node() as node:
        bench = Bench(site, node, own)
        upload = bench.send_all(0)
        monkeypatch.delattr(uploads, "hash_segment")
        uploads.commit(bench.kept, upload, bench.hash_with(0))
        assert bench.passes()


def test_a_segment_that_two_requests_write_at_once_is_read_again_at_the_commit(
    site: Site,
) -> None:
    """Whose bytes lie there is known only by reading them."""
    own = Holding.of(SEGMENT)
    content = bytes(own.contents[0])
    with site.node() as node:
        bench = Bench(site, node, own)
        upload = bench.send_all(0)

        def overtaken() -> Iterator[bytes]:
            yield content
            uploads.receive(bench.kept, upload, Part.DATA, 0, [bytes(SEGMENT)], 0)

        uploads.receive(bench.kept, upload, Part.DATA, 0, overtaken(), 0)
        assert (Part.DATA, 0) not in bench.kept.uploads[upload].digests
        assert not bench.kept.uploads[upload].writers
        uploads.commit(bench.kept, upload, bench.hash_with(0))
        assert bench.passes()


def test_tags_of_another_file_are_refused(anywhere: Site) -> None:
    own = Holding.of(500, 500)
    own.tags[0] = own.tags[1]
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        upload = bench.send_all(0)
        with pytest.raises(NodeRefusedError) as refused:
            uploads.commit(bench.kept, upload, bench.hash_with(0))
        assert refused.value.code == Code.CHECKSUM


def test_a_commit_needs_every_segment_and_the_expected_hash(anywhere: Site) -> None:
    own = Holding.of(SEGMENT + 5)
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        upload, _ = bench.begin(0)
        expected = bench.hash_with(0)
        with pytest.raises(NodeRefusedError) as refused:
            uploads.commit(bench.kept, upload, expected)
        assert refused.value.code == Code.INCOMPLETE
        bench.send_all(0)
        with pytest.raises(NodeRefusedError) as refused:
            uploads.commit(bench.kept, upload, bytes(32))
        assert refused.value.code == Code.INVENTORY
        assert uploads.commit(bench.kept, upload, expected) == expected


def test_a_bucket_that_cannot_be_written_is_refused_at_the_start(bucket: str) -> None:
    open_objects(f"{bucket}/prefix").claim()
    with pytest.raises(InputError, match="can't write s3://no-such-bucket/prefix"):
        open_objects("s3://no-such-bucket/prefix").claim()


def test_nothing_of_an_upload_changes_while_it_is_being_checked(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Holding.of(SEGMENT + 5)
    refusals: list[Code] = []
    with site.node() as node:
        bench = Bench(site, node, own)
        upload, expected = bench.send_all(0), bench.hash_with(0)

        def meddled(segments: Iterable[bytes]) -> bytes:
            for meddle in (
                partial(bench.send, 0, upload, Part.DATA, 0),
                partial(uploads.abort, bench.kept, upload),
                partial(uploads.commit, bench.kept, upload, expected),
            ):
                with pytest.raises(NodeRefusedError) as refused:
                    meddle()
                refusals.append(refused.value.code)
            return combine_digests(segments)

        monkeypatch.setattr(uploads, "combine_digests", meddled)
        assert uploads.commit(bench.kept, upload, expected) == expected
    assert refusals == [Code.CONFLICT] * 6


def test_nothing_is_committed_while_a_segment_is_being_written(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Holding.of(SEGMENT + 5)
    with site.node() as node:
        bench = Bench(site, node, own)
        upload, expected = bench.send_all(0), bench.hash_with(0)
        write = site.objects.write_pieces

        def hurried(name: str, pieces: Iterable[bytes]) -> None:
            with pytest.raises(NodeRefusedError, match="still being written"):
                uploads.commit(bench.kept, upload, expected)
            write(name, pieces)

        with monkeypatch.context() as patch:
            patch.setattr(site.objects, "write_pieces", hurried)
            bench.send(0, upload, Part.DATA, 0)
        assert uploads.commit(bench.kept, upload, expected) == expected


@pytest.mark.slow
def test_damage_fails_the_proof_until_the_blocks_are_replaced(anywhere: Site) -> None:
    own = Holding.of(3 * SEGMENT + 500)
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        bench.put(0)
        file = bench.kept.file(own.ids[0])
        size, tags = own.block_bytes, own.get_tags()
        damaged = [0, SEGMENT // size, len(tags) - 1]  # the second lies in two segments
        for index in damaged:
            whole = bench.kept.blocks(file.file_id, [(index, index + 1)])[0]
            bench.kept.replace_blocks(file.file_id, [(index, index + 1)], bytes(len(whole)))
            bench.kept.replace_tags(file.file_id, [(index, index + 1)], bytes(32))
        assert not bench.passes()
        for index in damaged:
            content = bytes(own.contents[0][index * size : (index + 1) * size])
            bench.kept.replace_blocks(file.file_id, [(index, index + 1)], content)
            bench.kept.replace_tags(file.file_id, [(index, index + 1)], tags[index])
        assert bench.passes()
        assert bench.content(0) == own.contents[0]
        assert bench.content(0, Part.TAGS) == own.tags[0]


@pytest.mark.slow
def test_segments_that_were_lost_are_put_back_block_by_block(anywhere: Site) -> None:
    own = Holding.of(2 * SEGMENT + 500)
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        bench.put(0)
        file, tags = bench.kept.file(own.ids[0]), own.get_tags()
        for part in Part:
            anywhere.objects.remove(bench.kept.layout.segment(file.upload, part, 0))
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        with pytest.raises(NodeRefusedError) as refused:
            bench.passes()
        assert refused.value.code == Code.DAMAGED
        size = own.block_bytes
        for index in range(len(tags)):
            content = bytes(own.contents[0][index * size : (index + 1) * size])
            bench.kept.replace_blocks(own.ids[0], [(index, index + 1)], content)
            bench.kept.replace_tags(own.ids[0], [(index, index + 1)], tags[index])
        assert bench.passes()
        assert bench.content(0, Part.TAGS) == own.tags[0]


def test_a_document_that_was_lost_is_written_again_by_the_next_proof(anywhere: Site) -> None:
    own = Holding.of(2 * SEGMENT + 500)
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        bench.put(0)
        anywhere.objects.remove(bench.kept.layout.document)
        assert bench.passes()
    with anywhere.node() as node:
        kept = node.store.account(anywhere.owner.owner).holding(own.key.public.id)
        anywhere.objects.write(kept.layout.document, b"cut")
        kept.prove(draw_challenge(own.inventory, own.inventory.blocks))
    with anywhere.node() as node:
        assert Bench(anywhere, node, own).passes()


def test_a_holding_that_was_lost_whole_outlasts_a_restart_after_its_repair(anywhere: Site) -> None:
    own = Holding.of(2 * SEGMENT + 500)
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        bench.put(0)
        assert bench.passes()
        anywhere.objects.remove(bench.kept.layout.prefix)
        target = RepairTarget(own.ids[0], 1, own.inventory.hash)
        span = [(0, own.inventory.blocks)]
        content, tags = bytes(own.contents[0]), b"".join(own.get_tags())
        bench.kept.repair(target, bench.kept.replace_blocks, span, content)
        bench.kept.repair(target, bench.kept.replace_tags, span, tags)
    with anywhere.node() as node:
        assert Bench(anywhere, node, own).passes()


def test_a_removed_holding_is_not_brought_back_by_a_late_request(site: Site) -> None:
    own = Holding.of(SEGMENT)
    with site.node() as node:
        bench = Bench(site, node, own)
        bench.account.remove(own.key.public.id)
        bench.kept.ensure_document()
        assert site.objects.read(bench.kept.layout.document) is None


def test_an_announcement_that_was_lost_is_written_again_when_it_is_repeated(anywhere: Site) -> None:
    own = Holding.of(2 * SEGMENT + 500)
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        upload, _ = bench.begin(0)
        anywhere.objects.remove(bench.kept.layout.request(upload))
        bench.send_all(0)
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        assert bench.begin(0)[1] == Missing(data=[], tags=[])


def test_a_deleted_or_replaced_file_leaves_nothing_behind(anywhere: Site) -> None:
    own = Holding.of(SEGMENT + 5, 100)
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        bench.put(0)
        bench.put(1)
        before = {entry.name for entry in anywhere.objects.list(bench.kept.layout.prefix)}
        gone = bench.kept.file(own.ids[0]).upload.hex()
        rest = own.inventory.without_file(own.ids[0])
        bench.kept.delete_file(own.ids[0], own.inventory.hash, rest.hash)
        after = {entry.name for entry in anywhere.objects.list(bench.kept.layout.prefix)}
        assert before - after == {gone}
        bench.kept.delete_file(own.ids[1], rest.hash, Holding.of().inventory.hash)
        bench.account.remove(own.key.public.id)
        assert not anywhere.objects.list(anywhere.owner.owner.hex())


def test_an_aborted_upload_leaves_nothing_behind(anywhere: Site) -> None:
    own = Holding.of(SEGMENT + 5)
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        upload = bench.send_all(0)
        uploads.abort(bench.kept, upload)
        uploads.abort(bench.kept, upload)
        names = [entry.name for entry in anywhere.objects.list(bench.kept.layout.prefix)]
        assert names == ["holding.json"]
        assert bench.kept.reserved_bytes == 0


def test_an_upload_that_nobody_continues_is_swept(anywhere: Site) -> None:
    own = Holding.of(SEGMENT + 5, 10)
    anywhere.clock.now = 4e9  # later than any storage's own clock
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        upload = bench.send_all(0)
        anywhere.clock.now += anywhere.limits.upload_seconds
        bench.begin(1)
        assert upload in bench.kept.uploads, "not before its time is over"
        anywhere.clock.now += 1
        bench.begin(1)
        assert upload not in bench.kept.uploads
        assert not anywhere.objects.list(bench.kept.layout.upload(upload))
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        assert not bench.kept.uploads, "and at the start what was left long ago"


def test_what_an_interrupted_deletion_left_is_removed_at_the_start(anywhere: Site) -> None:
    own = Holding.of(SEGMENT + 5)
    with anywhere.node() as node:
        bench = Bench(anywhere, node, own)
        bench.put(0)
        upload = bench.kept.layout.upload(bench.kept.file(own.ids[0]).upload)
        # As if the process had died between the document and the segments.
        emptied = bench.kept.record.without_file(own.ids[0])
        anywhere.objects.write(bench.kept.layout.document, emptied.encode())
    with anywhere.node() as node:
        assert not Bench(anywhere, node, own).kept.record.files
        assert not anywhere.objects.list(upload)


def test_a_segment_in_a_folder_is_replaced_whole_or_not_at_all(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Holding.of(2 * SEGMENT)
    with site.node() as node:
        bench = Bench(site, node, own)
        bench.put(0)
        write = Path.write_bytes

        def torn(path: Path, content: bytes) -> int:
            write(path, content[: len(content) // 2])
            raise OSError(28, "No space left on device")

        def torn_piece(file: RawIOBase, piece: memoryview) -> None:
            file.write(piece[: len(piece) // 2])
            if piece:
                raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_bytes", torn)
            patch.setattr("holdfast.node.objects._write_all", torn_piece)
            with pytest.raises(StorageError, match="No space left"):
                bench.kept.replace_blocks(own.ids[0], [(0, 1)], bytes(own.block_bytes))
            rest = own.inventory.without_file(own.ids[0])
            with pytest.raises(StorageError, match="No space left"):
                bench.kept.delete_file(own.ids[0], own.inventory.hash, rest.hash)
        assert bench.passes()
    left = Path(site.objects.address) / ".drafts" / ".segment.part"
    left.write_bytes(b"what a killed process had begun")
    with site.node() as node:
        assert Bench(site, node, own).passes()
        assert not left.exists()
