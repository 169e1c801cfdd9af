"""The owner's HTTP client of one storage node: requests are signed, proofs' signatures checked.

What a node refuses is raised as `NodeRefusedError`, with the node's own code.
"""

import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.errors import NodeError
from holdfast.ledger import signing
from holdfast.ledger.interface import Answer
from holdfast.node.identity import RequestKey
from holdfast.node.layout import Part
from holdfast.node.proof_messages import AnswerTo, ProofAnswer, ProofRequest, signed_part
from holdfast.node.responses import expect_valid, parse_message
from holdfast.node.segments import MAX_SEGMENTS, count_segments, segment_range
from holdfast.node.transport import (
    TIMEOUT_SECONDS,
    Delivery,
    Transport,
    delivering,
    open_http,
    read_body,
)
from holdfast.node.wire import (
    CommitRequest,
    Committed,
    HoldingFacts,
    Holdings,
    NodeFacts,
    RepairTarget,
    UploadRequest,
    UploadState,
)
from holdfast.pdp import Challenge, Inventory, Proof, PublicKey, TagFile
from holdfast.pdp.readers import Reader, sha256_of
from holdfast.pdp.tags import TAG_BYTES

COMMIT_TIMEOUT_SECONDS = 3600.0  # a commit hashes the whole file
PROOF_TIMEOUT_SECONDS = 300.0  # for a whole answer, even while the connection stays alive

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Greeting:
    """Who a node says it is, what time it has, and until when its certificate is good."""

    facts: NodeFacts
    date: float | None  # seconds since 1970, whole ones
    certified_until: float | None


def greet(url: str, *, authority: Path | None = None, timeout: float = TIMEOUT_SECONDS) -> Greeting:
    """Ask a node who it is. Nothing proves the answer: compare the address, then pin it."""
    with (
        open_http(url, authority, timeout) as http,
        delivering(url, delivery := Delivery()),
        http.stream("GET", "/v1/node", extensions={"trace": delivery}) as answer,
    ):
        date = parsedate_to_datetime(answer.headers["date"]) if "date" in answer.headers else None
        tls = answer.extensions["network_stream"].get_extra_info("ssl_object")
        ends = tls.getpeercert()["notAfter"] if tls else None
        return Greeting(
            parse_message(NodeFacts, read_body(answer)),
            None if date is None else date.timestamp(),
            None if ends is None else float(ssl.cert_time_to_seconds(ends)),
        )


def node_facts(url: str, *, authority: Path | None = None) -> NodeFacts:
    return greet(url, authority=authority).facts


class NodeClient:
    """One owner's access to one node, whose address it has pinned."""

    def __init__(
        self,
        url: str,
        key: RequestKey,
        node: bytes,
        *,
        authority: Path | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        proof_seconds: float = PROOF_TIMEOUT_SECONDS,
    ) -> None:
        self.url, self.node = url, node
        self._proof_seconds = proof_seconds
        self._transport = Transport(url, key, node, authority=authority, clock=clock, sleep=sleep)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def facts(self, *, seconds: float | None = None) -> NodeFacts:
        return parse_message(NodeFacts, self._transport.request("GET", "/v1/node", limit=seconds))

    def holdings(self) -> list[HoldingFacts]:
        return parse_message(Holdings, self._transport.request("GET", "/v1/holdings")).holdings

    def create(self, public: PublicKey, holding: int | None = None) -> HoldingFacts:
        """Open a holding, `holding` being its id on the ledger that the node knows."""
        query = {} if holding is None else {"holding": f"{holding:064x}"}
        path = _holding(public.id)
        return parse_message(
            HoldingFacts, self._transport.request("PUT", path, query=query, body=public.encode())
        )

    def inventory(self, key_id: bytes) -> Inventory:
        answer = self._transport.request("GET", _holding(key_id))
        with expect_valid(self.url):
            return Inventory.decode(answer.content, f"the inventory from {self.url}")

    def remove(self, key_id: bytes) -> None:
        self._transport.request("DELETE", _holding(key_id))

    def segment_bytes(self, length: int) -> int:
        """Return in which segments the node wants that many bytes; raise if they are too many."""
        size = self.facts().segment_bytes
        if count_segments(length, size) > MAX_SEGMENTS:
            raise NodeError(
                f"{self.url} wants segments of {size} bytes, too small for a file of {length}: at "
                f"most {MAX_SEGMENTS} segments are sent"
            )
        return size

    def begin(self, key_id: bytes, request: UploadRequest) -> UploadState:
        return parse_message(
            UploadState,
            self._transport.request("POST", f"{_holding(key_id)}/uploads", json=request),
        )

    def send(self, key_id: bytes, upload: str, part: Part, segment: int, content: bytes) -> None:
        path = f"{_holding(key_id)}/uploads/{upload}/{part}/{segment}"
        self._transport.request("PUT", path, body=content)

    def commit(self, key_id: bytes, upload: str, inventory_hash: bytes) -> bytes:
        """Make the upload part of the holding; return the hash of the inventory after it."""
        path = f"{_holding(key_id)}/uploads/{upload}/commit"
        request = CommitRequest(inventory_hash=inventory_hash.hex())
        answer = self._transport.request("POST", path, json=request, timeout=COMMIT_TIMEOUT_SECONDS)
        return bytes.fromhex(parse_message(Committed, answer).inventory_hash)

    def abort(self, key_id: bytes, upload: str) -> None:
        self._transport.request("DELETE", f"{_holding(key_id)}/uploads/{upload}")

    def upload(
        self,
        key_id: bytes,
        request: UploadRequest,
        data: Reader,
        tags: Reader,
        inventory_hash: bytes,
        *,
        segment_bytes: int | None = None,
        on_progress: Progress = lambda _bytes: None,
    ) -> bytes:
        """Send what is missing of a file and commit it; `on_progress` gets the bytes sent.

        An interrupted call resumes when it is made again. No answer of the node makes it send a
        segment twice.
        """
        size = segment_bytes or self.segment_bytes(max(data.size(), tags.size()))
        state = self.begin(key_id, request)
        if state.upload != request.id(self._transport.owner, key_id).hex():
            raise NodeError(f"{self.url} names another upload than the one that was announced")
        wanted = (
            (Part.TAGS, tags, state.missing.tags),
            (Part.DATA, data, state.missing.data),
        )
        for _, reader, missing in wanted:
            self._check_missing(missing, count_segments(reader.size(), size))
        sent = 0
        for part, reader, missing in wanted:
            for number in missing:
                (content,) = reader.read_many([segment_range(number, reader.size(), size)])
                self.send(key_id, state.upload, part, number, bytes(content))
                sent += len(content)
                on_progress(sent)
        return self.commit(key_id, state.upload, inventory_hash)

    def prove(
        self,
        key_id: bytes,
        challenge: Challenge,
        to: AnswerTo | None = None,
        *,
        seconds: float | None = None,
    ) -> Answer:
        """Return the node's answer, whose signature is checked; whether it passes is not.

        The node has `seconds` for it, and no more than any proof may take.
        """
        request = ProofRequest(challenge=challenge.encode().decode(), answer_to=to)
        limit = self._proof_seconds if seconds is None else min(seconds, self._proof_seconds)
        with self._transport.within(limit):
            path = f"{_holding(key_id)}/proofs"
            response = self._transport.request("POST", path, json=request, limit=limit)
        answer = parse_message(ProofAnswer, response)
        with expect_valid(self.url):
            proof = Proof.decode(answer.proof.encode(), f"the proof from {self.url}")
        signature = bytes.fromhex(answer.signature)
        if proof.challenge_id != challenge.id:
            raise NodeError(f"{self.url} answered another challenge")
        if signing.signer(signature, *signed_part(key_id, challenge, to), proof) != self.node:
            raise NodeError(f"the answer from {self.url} is not signed by the node you know")
        return Answer(proof, signature)

    def read(self, key_id: bytes, file_id: bytes, part: Part, start: int, stop: int) -> bytes:
        """Return the bytes from `start` up to `stop`."""
        headers = {"range": f"bytes={start}-{stop - 1}"}
        answer = self._transport.request("GET", f"{_file(key_id, file_id)}/{part}", headers=headers)
        return self._check_length(answer.content, stop - start)

    def blocks(self, key_id: bytes, file_id: bytes, indices: Sequence[int]) -> bytes:
        """Return these blocks one after another, the file's last one without its padding."""
        path, query = f"{_file(key_id, file_id)}/blocks", {"index": list(indices)}
        return self._transport.request("GET", path, query=query).content

    def tags(self, key_id: bytes, file_id: bytes, indices: Sequence[int]) -> list[bytes]:
        path, query = f"{_file(key_id, file_id)}/block-tags", {"index": list(indices)}
        content = self._transport.request("GET", path, query=query).content
        self._check_length(content, TAG_BYTES * len(indices))
        return [content[at : at + TAG_BYTES] for at in range(0, len(content), TAG_BYTES)]

    def replace_blocks(
        self, key_id: bytes, target: RepairTarget, indices: Sequence[int], content: bytes
    ) -> None:
        """Put these blocks, one after another in `content`, back into their places."""
        path = f"{_file(key_id, target.file_id)}/blocks"
        self._transport.request(
            "PUT", path, query=target.query | {"index": list(indices)}, body=content
        )

    def replace_tags(
        self, key_id: bytes, target: RepairTarget, indices: Sequence[int], content: bytes
    ) -> None:
        path = f"{_file(key_id, target.file_id)}/block-tags"
        self._transport.request(
            "PUT", path, query=target.query | {"index": list(indices)}, body=content
        )

    def delete_file(self, key_id: bytes, file_id: bytes, before: bytes, after: bytes) -> None:
        """Take a file out of the holding, given the inventory's hash before and after that."""
        query = {"before": before.hex(), "after": after.hex()}
        self._transport.request("DELETE", _file(key_id, file_id), query=query)

    def _check_missing(self, numbers: Sequence[int], segments: int) -> None:
        once = list(numbers) == sorted(set(numbers))
        if not once or (numbers and not 0 <= numbers[0] <= numbers[-1] < segments):
            raise NodeError(
                f"{self.url} asks for segments twice, out of order or beyond the {segments} that "
                "there are"
            )

    def _check_length(self, content: bytes, length: int) -> bytes:
        if len(content) != length:
            raise NodeError(f"{self.url} sent {len(content)} bytes where {length} were asked for")
        return content


def upload_request(data: Reader, tags: Reader, *, in_place: str | None = None) -> UploadRequest:
    """Return the announcement of a file, hashing it and its tags, whose header names it."""
    header = TagFile(tags).header
    return UploadRequest(
        file_id=header.file_id.hex(),
        version=header.version,
        nonce=header.nonce.hex(),
        length=data.size(),
        data_sha256=sha256_of(data),
        tags_bytes=tags.size(),
        tags_sha256=sha256_of(tags),
        in_place=in_place,
    )


def _holding(key_id: bytes) -> str:
    return f"/v1/holdings/{key_id.hex()}"


def _file(key_id: bytes, file_id: bytes) -> str:
    return f"{_holding(key_id)}/files/{file_id.hex()}"
