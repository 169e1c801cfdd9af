"""Signed HTTP requests to one storage node: retries, time limits, and whether a request arrived."""

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from holdfast.errors import InputError, NodeError, UnansweredError, UnreachableError
from holdfast.node.clock import clock_signer
from holdfast.node.deadline import DeadlineTransport
from holdfast.node.identity import RequestKey
from holdfast.node.responses import refusal_error, refusal_of
from holdfast.node.signature import Head, Signer
from holdfast.node.time_limit import seconds_left, within
from holdfast.node.wire import Code, Message, NodeRefusedError, Reason

TIMEOUT_SECONDS = 60.0  # for each step of a request
MAX_ATTEMPTS = 4  # while the node is busy
MAX_ANSWER_BYTES = 64 << 20  # a thousand blocks of the widest kind have half of that
PIECE_BYTES = 1 << 18  # of a body that is sent
MAX_CLOCK_SKEW_SECONDS = 60.0  # by which a node's clock may differ from ours

# How a request ends on a connection that the node has closed.
_CLOSED = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


class Transport:
    """Sends one owner's requests to one node, signed with the owner's key."""

    def __init__(
        self,
        url: str,
        key: RequestKey,
        node: bytes,
        *,
        authority: Path | None,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self.url, self.node, self.owner = url, node, key.owner
        self._signer = Signer(key, node)
        self._clock, self._sleep = clock, sleep
        self._ahead = 0.0  # seconds that the node's clock is ahead of ours
        self._http = open_http(url, authority)

    def close(self) -> None:
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: bytes = b"",
        body_sha256: bytes | None = None,
        json: Message | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT_SECONDS,
        limit: float | None = None,
        attempts: int = MAX_ATTEMPTS,
    ) -> httpx.Response:
        """Return the whole answer; a busy node is asked up to `attempts` times.

        All attempts together take at most `limit` seconds, if it is given. A body whose SHA-256 is
        given is not hashed again.
        """
        body = body if json is None else json.model_dump_json(exclude_none=True).encode()
        with within(limit):
            return self._request(method, path, query, body, body_sha256, headers, timeout, attempts)

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: bytes,
        body_sha256: bytes | None,
        headers: Mapping[str, str] | None,
        timeout: float,
        attempts: int,
    ) -> httpx.Response:
        if len(body) > PIECE_BYTES:
            headers = {**(headers or {}), "content-length": str(len(body))}
        clock_set = False
        delivery = Delivery()
        for attempt in count(1):
            request = self._http.build_request(
                method,
                path,
                params=query,
                content=body if len(body) <= PIECE_BYTES else _pieces(body),
                headers=headers,
                timeout=timeout,
                extensions={"trace": delivery},
            )
            delivery.begin()
            head = Head(request.method, str(request.url), request.headers)
            self._signer.sign(head, body, self._clock() + self._ahead, sha256=body_sha256)
            try:
                with delivering(self.url, delivery):
                    answer = self._http.send(request, stream=True)
                    delivery.delivered = True
                    answer = read_body(answer)
            except NodeError as error:
                # A node may close an idle connection just when we use it. All requests may be
                # repeated, so they are, once and on a new connection.
                if attempt == 1 and delivery.may_repeat and isinstance(error.__cause__, _CLOSED):
                    continue
                raise
            if answer.is_success:
                return answer
            reason = refusal_of(answer)
            if reason.code == Code.CLOCK and not clock_set:
                self._set_clock(reason, request.headers["signature"])
                clock_set = True
            elif reason.code == Code.BUSY and attempt < attempts and seconds_left() > 0:
                self._sleep(min(attempt, seconds_left() / 4))  # time must be left for an answer
            else:
                raise refusal_error(reason, self.url)
        raise AssertionError  # counting has no end

    def _set_clock(self, reason: Reason, request_signature: str) -> None:
        """Sign by the node's clock from now on, if the node signed its time and is near ours."""
        seconds, signature = reason.time or 0.0, reason.signature or ""
        if clock_signer(signature, request_signature, seconds) != self.node:
            raise NodeError(
                f"{self.url} refused a request for its time, and the node you know did not sign "
                "the refusal: somebody may stand between you and the node"
            )
        ahead = seconds - self._clock()
        if abs(ahead) > MAX_CLOCK_SKEW_SECONDS:
            side = "ahead of" if ahead > 0 else "behind"
            raise NodeRefusedError(
                Code.CLOCK,
                f"the clock of the node at {self.url} is {abs(ahead):,.0f} s {side} this "
                "machine's: set the wrong one by NTP (`holdfast doctor` compares them)",
            )
        self._ahead = ahead


class Delivery:
    """Follows a request through httpx's trace, to know whether the node received it.

    A request counts as delivered once a connection was made for it and its bytes were handed over,
    or once the node answered anything. A node may close an idle connection without having seen the
    request on it: that alone is no delivery, and the request is repeated on a new connection.
    """

    def __init__(self) -> None:
        self.delivered = False
        self._reused = False  # whether the connection was kept from an earlier request
        self._sending = False

    @property
    def may_repeat(self) -> bool:
        return self._reused and not self.delivered

    def begin(self) -> None:
        """Begin an attempt."""
        self._reused, self._sending = True, False

    def __call__(self, event: str, _info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.started":
            self._reused = False
        elif event == "http11.send_request_headers.started":
            self._sending = True

    def fail(self, error: Exception) -> None:
        """Record that an attempt ended with this error."""
        closed = self._reused and isinstance(error, _CLOSED)
        self.delivered = self.delivered or (self._sending and not closed)


@contextmanager
def delivering(url: str, delivery: Delivery) -> Iterator[None]:
    """Raise httpx's errors as ours, by whether the request was delivered."""
    try:
        yield
    except httpx.HTTPError as error:
        delivery.fail(error)
        what = str(error) or type(error).__name__
        if delivery.delivered:
            raise UnansweredError(
                f"the node at {url} took the request and gave no answer: {what}"
            ) from error
        raise UnreachableError(f"can't reach the node at {url}: {what}") from error


def read_body(answer: httpx.Response) -> httpx.Response:
    """Return the answer with its body, which may not be longer than any answer is."""
    chunks: list[bytes] = []
    size = 0
    with closing(answer):
        for chunk in answer.iter_raw():
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_ANSWER_BYTES:
                raise NodeError(f"{answer.url} sends more than any answer has")
    return httpx.Response(answer.status_code, content=b"".join(chunks), request=answer.request)


def _pieces(body: bytes) -> Iterator[bytes]:
    """Yield a body in pieces: httpcore copies what is left of one whenever it has sent a part."""
    for start in range(0, len(body), PIECE_BYTES):
        yield body[start : start + PIECE_BYTES]


def open_http(url: str, authority: Path | None, timeout: float = TIMEOUT_SECONDS) -> httpx.Client:
    try:
        client = httpx.Client(
            base_url=url,
            headers={"accept-encoding": "identity"},
            transport=DeadlineTransport(_trust(url, authority)),
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
