"""The owner's end of the wire: the one HTTP client of a storage node.

Every request is signed, every proof must come with the signature of the node that the owner has
pinned. What a node refuses is raised as `NodeRefusedError`, with the node's own code.
"""

import hashlib
import math
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import count
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import ValidationError

from holdfast.errors import InputError, NodeError, UnansweredError, UnreachableError
from holdfast.ledger import signing
from holdfast.ledger.interface import Answer
from holdfast.node.clock import clock_signer
from holdfast.node.identity import RequestKey
from holdfast.node.layout import Part
from holdfast.node.proof_messages import AnswerTo, ProofAnswer, ProofRequest, signed_part
from holdfast.node.segments import MAX_SEGMENTS, count_segments, segment_range
from holdfast.node.signature import Head, Signer
from holdfast.node.wire import (
    Code,
    CommitRequest,
    Committed,
    HoldingFacts,
    Holdings,
    Message,
    NodeFacts,
    NodeRefusedError,
    Reason,
    Refusal,
    RepairTarget,
    UploadRequest,
    UploadState,
)
from holdfast.pdp import Challenge, Inventory, Proof, PublicKey, TagFile
from holdfast.pdp.readers import Reader
from holdfast.pdp.tags import TAG_BYTES

TIMEOUT = 60.0  # seconds for each step of a request; a commit hashes the whole file meanwhile
COMMIT_TIMEOUT = 3600.0
STRIDE = 4 << 20
ATTEMPTS = 4  # while the node is busy
PROOF_SECONDS = 300.0  # for a whole answer, however alive the connection is kept meanwhile
SHORTEST_SECONDS = 0.001  # httpx takes 0 for no time-out at all in some steps
DRIP_SECONDS = 0.25  # beyond its time, after which an answer that still drips is cut off
MAX_ANSWER_BYTES = 64 << 20  # a thousand blocks of the widest kind have half of that
MAX_WORDS = 500  # letters of a node's reason that are passed on
MAX_CLOCK_SECONDS = 60.0  # by which a node's clock may differ from ours

M = TypeVar("M", bound=Message)
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Greeting:
    """Who a node says it is, what time it has, and until when its certificate is good."""

    facts: NodeFacts
    date: float | None  # seconds since 1970, whole ones
    certified_until: float | None


def greet(url: str, *, authority: Path | None = None, timeout: float = TIMEOUT) -> Greeting:
    """Ask a node who it is. Nothing proves the answer: compare the address, then pin it."""
    with (
        _http(url, authority, timeout) as http,
        _delivering(url, delivery := Delivery()),
        http.stream("GET", "/v1/node", extensions={"trace": delivery}) as answer,
    ):
        date = parsedate_to_datetime(answer.headers["date"]) if "date" in answer.headers else None
        tls = answer.extensions["network_stream"].get_extra_info("ssl_object")
        ends = tls.getpeercert()["notAfter"] if tls else None
        return Greeting(
            _parsed(NodeFacts, _whole(answer)),
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
        proof_seconds: float = PROOF_SECONDS,
    ) -> None:
        self.url, self.node = url, node
        self._authority, self._proof_seconds = authority, proof_seconds
        self._signer = Signer(key, node)
        self._clock, self._sleep = clock, sleep
        self._ahead = 0.0  # seconds that the node's clock is ahead of ours
        self._http = _http(url, authority)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def facts(self, *, seconds: float | None = None) -> NodeFacts:
        return _parsed(NodeFacts, self._ask("GET", "/v1/node", limit=seconds))

    def holdings(self) -> list[HoldingFacts]:
        return _parsed(Holdings, self._ask("GET", "/v1/holdings")).holdings

    def create(self, public: PublicKey, holding: int | None = None) -> HoldingFacts:
        """Open a holding, `holding` being its id on the ledger that the node knows."""
        query = {} if holding is None else {"holding": f"{holding:064x}"}
        path = _holding(public.id)
        return _parsed(HoldingFacts, self._ask("PUT", path, query=query, body=public.encode()))

    def inventory(self, key_id: bytes) -> Inventory:
        answer = self._ask("GET", _holding(key_id))
        with _sensible(self.url):
            return Inventory.decode(answer.content, f"the inventory from {self.url}")

    def remove(self, key_id: bytes) -> None:
        self._ask("DELETE", _holding(key_id))

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
        return _parsed(UploadState, self._ask("POST", f"{_holding(key_id)}/uploads", json=request))

    def send(self, key_id: bytes, upload: str, part: Part, segment: int, content: bytes) -> None:
        path = f"{_holding(key_id)}/uploads/{upload}/{part}/{segment}"
        self._ask("PUT", path, body=content)

    def commit(self, key_id: bytes, upload: str, inventory_hash: bytes) -> bytes:
        """Make the upload part of the holding; return the hash of the inventory after it."""
        path = f"{_holding(key_id)}/uploads/{upload}/commit"
        request = CommitRequest(inventory_hash=inventory_hash.hex())
        answer = self._ask("POST", path, json=request, timeout=COMMIT_TIMEOUT)
        return bytes.fromhex(_parsed(Committed, answer).inventory_hash)

    def abort(self, key_id: bytes, upload: str) -> None:
        self._ask("DELETE", f"{_holding(key_id)}/uploads/{upload}")

    def upload(
        self,
        key_id: bytes,
        request: UploadRequest,
        data: Reader,
        tags: Reader,
        inventory_hash: bytes,
        *,
        segment_bytes: int | None = None,
        progress: Progress = lambda _bytes: None,
    ) -> bytes:
        """Send what is missing of a file and commit it; `progress` is told the bytes sent.

        An interrupted call resumes when it is made again. No answer of the node makes it send a
        segment twice.
        """
        size = segment_bytes or self.segment_bytes(max(data.size(), tags.size()))
        state = self.begin(key_id, request)
        if state.upload != request.id(self._signer.key.owner, key_id).hex():
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
                progress(sent)
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
        with self._within(limit):
            path = f"{_holding(key_id)}/proofs"
            told = self._ask("POST", path, json=request, timeout=TIMEOUT, limit=limit)
        answer = _parsed(ProofAnswer, told)
        with _sensible(self.url):
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
        answer = self._ask("GET", f"{_file(key_id, file_id)}/{part}", headers=headers)
        return self._exactly(answer.content, stop - start)

    def pieces(self, key_id: bytes, file_id: bytes, part: Part) -> Iterator[bytes]:
        """Yield the whole file or its tags, as they come."""
        answer = self._send("GET", f"{_file(key_id, file_id)}/{part}")
        with _answering(self.url), closing(answer):
            yield from answer.iter_bytes()

    def blocks(self, key_id: bytes, file_id: bytes, indices: Sequence[int]) -> bytes:
        """Return these blocks one after another, the file's last one without its padding."""
        path, query = f"{_file(key_id, file_id)}/blocks", {"index": list(indices)}
        return self._ask("GET", path, query=query).content

    def tags(self, key_id: bytes, file_id: bytes, indices: Sequence[int]) -> list[bytes]:
        path, query = f"{_file(key_id, file_id)}/block-tags", {"index": list(indices)}
        content = self._ask("GET", path, query=query).content
        self._exactly(content, TAG_BYTES * len(indices))
        return [content[at : at + TAG_BYTES] for at in range(0, len(content), TAG_BYTES)]

    def replace_blocks(
        self, key_id: bytes, target: RepairTarget, indices: Sequence[int], content: bytes
    ) -> None:
        """Put these blocks, one after another in `content`, back into their places."""
        path = f"{_file(key_id, target.file_id)}/blocks"
        self._ask("PUT", path, query=target.query | {"index": list(indices)}, body=content)

    def replace_tags(
        self, key_id: bytes, target: RepairTarget, indices: Sequence[int], content: bytes
    ) -> None:
        path = f"{_file(key_id, target.file_id)}/block-tags"
        self._ask("PUT", path, query=target.query | {"index": list(indices)}, body=content)

    def delete_file(self, key_id: bytes, file_id: bytes, before: bytes, after: bytes) -> None:
        """Take a file out of the holding, given the inventory's hash before and after that."""
        query = {"before": before.hex(), "after": after.hex()}
        self._ask("DELETE", _file(key_id, file_id), query=query)

    def _check_missing(self, numbers: Sequence[int], segments: int) -> None:
        once = list(numbers) == sorted(set(numbers))
        if not once or (numbers and not 0 <= numbers[0] <= numbers[-1] < segments):
            raise NodeError(
                f"{self.url} asks for segments twice, out of order or beyond the {segments} that "
                "there are"
            )

    def _exactly(self, content: bytes, length: int) -> bytes:
        if len(content) != length:
            raise NodeError(f"{self.url} sent {len(content)} bytes where {length} were asked for")
        return content

    def _ask(self, method: str, path: str, **how: Any) -> httpx.Response:
        answer = self._send(method, path, **how)
        with _answering(self.url):
            return _whole(answer)

    @contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        """Hang up after that time: a read's time-out begins anew with every byte that drips in."""
        http = self._http
        timer = Timer(seconds + DRIP_SECONDS, http.close)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            if http.is_closed:
                self._http = _http(self.url, self._authority)

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: bytes = b"",
        json: Message | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
        limit: float | None = None,
    ) -> httpx.Response:
        """Return an answer that is not read yet, having tried again where that may help.

        All attempts together take `limit` seconds at most, if it is given.
        """
        body = body if json is None else json.model_dump_json(exclude_none=True).encode()
        clock_set = False
        delivery = Delivery(limit)
        for attempt in count(1):
            request = self._http.build_request(
                method,
                path,
                params=query,
                content=body,
                headers=headers,
                timeout=timeout,
                extensions={"trace": delivery},
            )
            delivery.begin(request.extensions["timeout"])
            head = Head(request.method, str(request.url), request.headers)
            self._signer.sign(head, body, self._clock() + self._ahead)
            try:
                with _delivering(self.url, delivery):
                    answer = self._http.send(request, stream=True)
                    delivery.delivered = True
                    if answer.is_success:
                        return answer
                    answer = _whole(answer)
            except NodeError as error:
                # A node may close an idle connection just when we use it. All requests may be
                # repeated, so they are, once and on a new connection.
                if attempt == 1 and delivery.stale and isinstance(error.__cause__, _CLOSED):
                    continue
                raise
            reason = _reason(answer)
            if reason.code == Code.CLOCK and not clock_set:
                self._set_clock(reason, request.headers["signature"])
                clock_set = True
            elif reason.code == Code.BUSY and attempt < ATTEMPTS and delivery.left > 0:
                self._sleep(min(attempt, delivery.left / 4))  # time must be left for an answer
            else:
                raise NodeRefusedError(_code(reason, self.url), reason.message)
        raise AssertionError  # counting has no end

    def _set_clock(self, reason: Reason, request_signature: str) -> None:
        """Sign by the node's clock from now on, if the node itself says so and it is near ours."""
        seconds, signature = reason.time or 0.0, reason.signature or ""
        if clock_signer(signature, request_signature, seconds) != self.node:
            raise NodeError(
                f"{self.url} refused a request for its time, and the node you know did not sign "
                "the refusal: somebody may stand between you and the node"
            )
        ahead = seconds - self._clock()
        if abs(ahead) > MAX_CLOCK_SECONDS:
            side = "ahead of" if ahead > 0 else "behind"
            raise NodeRefusedError(
                Code.CLOCK,
                f"the clock of the node at {self.url} is {abs(ahead):,.0f} s {side} this "
                "machine's: set the wrong one by NTP (`holdfast doctor` compares them)",
            )
        self._ahead = ahead


def upload_request(data: Reader, tags: Reader, *, in_place: str | None = None) -> UploadRequest:
    """Return the announcement of a file, hashing it and its tags, whose header names it."""
    header = TagFile(tags).header
    return UploadRequest(
        file_id=header.file_id.hex(),
        version=header.version,
        nonce=header.nonce.hex(),
        length=data.size(),
        data_sha256=_sha256(data),
        tags_bytes=tags.size(),
        tags_sha256=_sha256(tags),
        in_place=in_place,
    )


def _holding(key_id: bytes) -> str:
    return f"/v1/holdings/{key_id.hex()}"


def _file(key_id: bytes, file_id: bytes) -> str:
    return f"{_holding(key_id)}/files/{file_id.hex()}"


def _http(url: str, authority: Path | None, timeout: float = TIMEOUT) -> httpx.Client:
    try:
        client = httpx.Client(
            base_url=url,
            headers={"accept-encoding": "identity"},
            verify=_trust(url, authority),
            timeout=timeout,
            trust_env=False,
        )
    except (OSError, httpx.InvalidURL) as error:
        raise InputError(f"can't use {url} with {authority or 'the usual CAs'}: {error}") from error
    if client.base_url.scheme not in {"http", "https"} or not client.base_url.host:
        client.close()
        raise InputError(f"a node's address begins with http:// or https://, not as {url!r}")
    return client


def _trust(url: str, authority: Path | None) -> ssl.SSLContext:
    if authority is None and url.startswith("http://"):
        # It trusts nobody: the usual CAs take 40 ms to load, and no TLS will ask for them.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return ssl.create_default_context(cafile=authority)


# How a request ends on a connection that the node has closed.
_CLOSED = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


class Delivery:
    """Follows a request on its way, as httpx traces it: it says whether the node took it.

    It counts as delivered once a connection was made for it and its bytes were handed over, or the
    node answered anything. On a connection that was kept from before, a node that closes it may
    never have seen the request: that alone is no delivery. The request is repeated on a new one.
    """

    def __init__(self, limit: float | None = None) -> None:
        self.delivered = False
        self.stale = False  # whether the connection was kept from an earlier request
        self._sending = False
        self._end = math.inf if limit is None else time.monotonic() + limit
        self._timeouts: MutableMapping[str, float] = {}

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self._end - time.monotonic()

    def begin(self, timeouts: MutableMapping[str, float]) -> None:
        """Begin an attempt, the steps of which get no more time than is left."""
        self.stale, self._sending, self._timeouts = True, False, timeouts

    def __call__(self, event: str, _info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.started":
            self.stale = False
        elif event == "http11.send_request_headers.started":
            self._sending = True
        if event.endswith(".started"):
            left = max(self.left, SHORTEST_SECONDS)
            for step, seconds in self._timeouts.items():
                self._timeouts[step] = min(seconds, left)

    def failed(self, error: Exception) -> None:
        """Take note that an attempt has ended by this error."""
        closed = self.stale and isinstance(error, _CLOSED)
        self.delivered = self.delivered or (self._sending and not closed)


@contextmanager
def _delivering(url: str, delivery: Delivery) -> Iterator[None]:
    try:
        yield
    except (httpx.HTTPError, RuntimeError) as error:  # the latter by httpx, once we have hung up
        delivery.failed(error)
        what = str(error) or type(error).__name__
        if delivery.delivered:
            raise UnansweredError(_no_answer(url, what)) from error
        raise UnreachableError(f"can't reach the node at {url}: {what}") from error


@contextmanager
def _answering(url: str) -> Iterator[None]:
    """Guard the rest of an answer that has begun."""
    try:
        yield
    except (httpx.HTTPError, RuntimeError) as error:
        raise UnansweredError(_no_answer(url, str(error) or type(error).__name__)) from error


def _no_answer(url: str, what: str) -> str:
    return f"the node at {url} took the request and gave no answer: {what}"


@contextmanager
def _sensible(url: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise NodeError(f"the answer from {url} makes no sense: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        what = f"{where}: {first['msg']}" if where else first["msg"]
        raise NodeError(f"the answer from {url} makes no sense: {what}") from error


def _whole(answer: httpx.Response) -> httpx.Response:
    """Return the answer with its body, of which a node may send more than there is memory."""
    content = bytearray()
    with closing(answer):
        for chunk in answer.iter_raw():
            content += chunk
            if len(content) > MAX_ANSWER_BYTES:
                raise NodeError(f"{answer.url} sends more than any answer has")
    return httpx.Response(answer.status_code, content=bytes(content), request=answer.request)


def _parsed(kind: type[M], answer: httpx.Response) -> M:
    with _sensible(str(answer.url)):
        return kind.model_validate_json(answer.content)


def _reason(answer: httpx.Response) -> Reason:
    try:
        reason = Refusal.model_validate_json(answer.content).error
    except ValidationError as error:
        raise NodeError(f"{answer.url} answered with status {answer.status_code}") from error
    # A node's words reach terminals and logs: one line of letters, whatever it has sent.
    plain = "".join(letter if letter.isprintable() else " " for letter in reason.message)
    return reason.model_copy(update={"message": plain[:MAX_WORDS]})


def _code(reason: Reason, url: str) -> Code:
    try:
        return Code(reason.code)
    except ValueError as error:
        raise NodeError(f"{url} refused ({reason.code}): {reason.message}") from error


def _sha256(reader: Reader) -> str:
    digest = hashlib.sha256()
    for start in range(0, reader.size(), STRIDE):
        (content,) = reader.read_many([(start, min(STRIDE, reader.size() - start))])
        digest.update(content)
    return digest.hexdigest()
