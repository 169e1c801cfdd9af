"""The owner's HTTP client of one storage node: requests are signed, proofs' signatures checked.

What a node refuses is raised as `NodeRefusedError`, with the node's own code.
"""

import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.errors import NodeError
from holdfast.ledger import signing
from holdfast.ledger.interface import Answer
from holdfast.node.identity import RequestKey
from holdfast.node.lanes import LANES, lanes
from holdfast.node.layout import Part
from holdfast.node.proof_codec import ProofRequest, decode_answers
from holdfast.node.proof_messages import AnswerTo, ProofQuestion
from holdfast.node.responses import expect_valid, parse_message, refusal_error
from holdfast.node.segments import (
    MAX_SEGMENTS,
    SEGMENT_BYTES,
    combine_digests,
    count_segments,
    hash_segments,
    segment_range,
)
from holdfast.node.transport import (
    MAX_ATTEMPTS,
    TIMEOUT_SECONDS,
    Delivery,
    Transport,
    delivering,
    open_http,
    read_body,
)
from holdfast.node.wire import (
    Code,
    CommitRequest,
    Committed,
    HoldingFacts,
    Holdings,
    NodeFacts,
    NodeRefusedError,
    Reason,
    RepairTarget,
    UploadRequest,
    UploadState,
)
from holdfast.pdp import Challenge, Inventory, PublicKey, TagFile
from holdfast.pdp.field import Q
from holdfast.pdp.readers import Reader
from holdfast.pdp.spans import Span

COMMIT_TIMEOUT_SECONDS = 3600.0  # a commit may hash the whole file
MAX_BUSY_ROUNDS = 10  # of attempts to send a segment, each of some seconds
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
        self._known_facts: NodeFacts | None = None
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
        size = self._upload_facts().segment_bytes
        if count_segments(length, size) > MAX_SEGMENTS:
            raise NodeError(
                f"{self.url} wants segments of {size} bytes, too small for a file of {length}: at "
                f"most {MAX_SEGMENTS} segments are sent"
            )
        return size

    def _upload_facts(self) -> NodeFacts:
        """Return how the node takes uploads, which it is asked for once."""
        if self._known_facts is None:
            self._known_facts = self.facts()
        return self._known_facts

    def begin(self, key_id: bytes, request: UploadRequest) -> UploadState:
        return parse_message(
            UploadState,
            self._transport.request("POST", f"{_holding(key_id)}/uploads", json=request),
        )

    def send(
        self,
        key_id: bytes,
        upload: str,
        part: Part,
        segment: int,
        content: bytes,
        sha256: bytes | None = None,
    ) -> None:
        path = f"{_holding(key_id)}/uploads/{upload}/{part}/{segment}"
        self._transport.request("PUT", path, body=content, body_sha256=sha256)

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
        digests: Mapping[Part, Sequence[bytes]] | None = None,
        on_progress: Progress = lambda _bytes: None,
    ) -> bytes:
        """Send what is missing of a file and commit it; `on_progress` gets the bytes sent.

        Segments are sent side by side, and not hashed again if their `digests` are given. An
        interrupted call resumes when it is made again. No answer of the node makes it send a
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

        def send(job: tuple[Part, Reader, int]) -> int:
            part, reader, number = job
            (content,) = reader.read_many([segment_range(number, reader.size(), size)])
            sha256 = digests[part][number] if digests else None
            segment = (key_id, state.upload, part, number, bytes(content), sha256)
            _while_busy(lambda: self.send(*segment))
            return len(content)

        jobs = ((part, reader, number) for part, reader, missing in wanted for number in missing)
        with lanes(send, jobs, min(LANES, self._upload_facts().limits.segments_at_once)) as sizes:
            for sent in accumulate(sizes):
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

        The node has `seconds` for it, and no more than any proof may take. A busy node is asked
        again within that time.
        """
        limit = self._proof_seconds if seconds is None else seconds
        question = ProofQuestion(key_id, challenge, to)
        (answer,) = self._prove([question], limit, MAX_ATTEMPTS)
        if not isinstance(answer, Answer):
            raise answer
        return answer

    def prove_many(
        self, questions: Sequence[ProofQuestion], *, seconds: float
    ) -> list[Answer | NodeRefusedError | NodeError]:
        """Ask for many proofs by one request; return what came of each question, in order.

        Signatures are checked; whether a proof passes is not. An error of the whole request is
        raised, "busy" too: this call neither sleeps nor asks again. It ends within `seconds`, and
        within the time that any proof may take.
        """
        return self._prove(questions, seconds, attempts=1) if questions else []

    def _prove(
        self, questions: Sequence[ProofQuestion], seconds: float, attempts: int
    ) -> list[Answer | NodeRefusedError | NodeError]:
        limit = min(seconds, self._proof_seconds)
        body = ProofRequest(tuple(questions), round(1000 * limit)).encode()
        response = self._transport.request(
            "POST", "/v1/proofs", body=body, limit=limit, attempts=attempts
        )
        with expect_valid(self.url):
            answers = decode_answers(response.content, len(questions))
        return [
            refusal_error(answer, self.url)
            if isinstance(answer, Reason)
            else self._check_answer(question, answer)
            for question, answer in zip(questions, answers, strict=True)
        ]

    def _check_answer(self, question: ProofQuestion, answer: Answer) -> Answer | NodeError:
        proof = answer.proof
        if proof.challenge_id != question.challenge.id:
            return NodeError(f"{self.url} answered another challenge")
        if max(proof.sigma, *proof.mu) >= Q:
            return NodeError(f"the proof from {self.url} has a number that is not below q")
        if signing.signer(answer.signature, *question.signed_part, proof) != self.node:
            return NodeError(f"the answer from {self.url} is not signed by the node you know")
        return answer

    def read(self, key_id: bytes, file_id: bytes, part: Part, start: int, stop: int) -> bytes:
        """Return the bytes from `start` up to `stop`."""
        headers = {"range": f"bytes={start}-{stop - 1}"}
        answer = self._transport.request("GET", f"{_file(key_id, file_id)}/{part}", headers=headers)
        return self._check_length(answer.content, stop - start)

    def blocks(self, key_id: bytes, file_id: bytes, spans: Iterable[Span]) -> bytes:
        """Return these blocks one after another, the file's last one without its padding."""
        path = f"{_file(key_id, file_id)}/blocks"
        return self._transport.request("GET", path, query=_query(spans)).content

    def tags(self, key_id: bytes, file_id: bytes, spans: Iterable[Span]) -> bytes:
        """Return the tags of these blocks one after another."""
        path = f"{_file(key_id, file_id)}/block-tags"
        return self._transport.request("GET", path, query=_query(spans)).content

    def replace_blocks(
        self, key_id: bytes, target: RepairTarget, spans: Iterable[Span], content: bytes
    ) -> None:
        """Put these blocks, one after another in `content`, back into their places."""
        path = f"{_file(key_id, target.file_id)}/blocks"
        self._transport.request("PUT", path, query=target.query | _query(spans), body=content)

    def replace_tags(
        self, key_id: bytes, target: RepairTarget, spans: Iterable[Span], content: bytes
    ) -> None:
        path = f"{_file(key_id, target.file_id)}/block-tags"
        self._transport.request("PUT", path, query=target.query | _query(spans), body=content)

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


def upload_request(
    data: Reader,
    tags: Reader,
    segment_bytes: int = SEGMENT_BYTES,
    *,
    in_place: str | None = None,
) -> UploadRequest:
    """Return the announcement of a file, hashing it and its tags, whose header names it."""
    header = TagFile(tags).header
    return UploadRequest(
        file_id=header.file_id.hex(),
        version=header.version,
        nonce=header.nonce.hex(),
        length=data.size(),
        data_digest=combine_digests(hash_segments(data, segment_bytes)).hex(),
        tags_bytes=tags.size(),
        tags_digest=combine_digests(hash_segments(tags, segment_bytes)).hex(),
        in_place=in_place,
    )


def _while_busy(send: Callable[[], None]) -> None:
    """Try again while the node has no slot free, because it receives from others, too."""
    for last in range(MAX_BUSY_ROUNDS):
        try:
            return send()
        except NodeRefusedError as error:
            if error.code is not Code.BUSY or last == MAX_BUSY_ROUNDS - 1:
                raise
    return None


def _query(spans: Iterable[Span]) -> dict[str, list[str]]:
    return {"span": [f"{start}-{stop}" for start, stop in spans]}


def _holding(key_id: bytes) -> str:
    return f"/v1/holdings/{key_id.hex()}"


def _file(key_id: bytes, file_id: bytes) -> str:
    return f"{_holding(key_id)}/files/{file_id.hex()}"
