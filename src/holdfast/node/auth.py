"""Authentication: who sent a signed request, known by its headers before its body is read."""

import asyncio
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, TypeVar

from anyio import from_thread
from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError
from starlette.concurrency import run_in_threadpool

from holdfast import jsontext
from holdfast.http_errors import describe_validation
from holdfast.node.holding import Holding
from holdfast.node.metrics import Metrics
from holdfast.node.node import Node
from holdfast.node.signature import Head, check_digest, sha256_in
from holdfast.node.store import Account
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.slots import Slots

MAX_MESSAGE_BYTES = 1 << 17  # a public key of 1,024 points has 70 KiB
BATCH_BYTES = 1 << 20  # of a body, that are handed to another thread at once

EMPTY_SHA256 = hashlib.sha256().digest()

M = TypeVar("M", bound=BaseModel)


class Context:
    """A running node, its metrics and its slots for concurrent work."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.proving = Slots(node.store.limits.proofs_at_once)
        self.receiving = Slots(node.store.limits.segments_at_once)
        self.metrics = Metrics(node.store)


@dataclass(frozen=True)
class Caller:
    """An owner's request, whose body must have the digest that was signed."""

    context: Context
    account: Account
    request: Request
    digest: str | None
    created: int  # when it was signed, in seconds

    def holding(self, key_id: str) -> Holding:
        return self.account.holding(bytes.fromhex(key_id))

    async def body(self, max_bytes: int) -> bytes:
        if self.digest is None:
            return b""
        stream, pieces = self.stream(max_bytes), []
        while batch := await stream.read_batch():
            pieces += batch
        received = b"".join(pieces)
        if len(received) > MAX_MESSAGE_BYTES:
            await run_in_threadpool(check_digest, self.digest, received)
        else:  # faster here than in another thread
            check_digest(self.digest, received)
        return received

    def stream(self, max_bytes: int) -> "BodyStream":
        """Return the body as it arrives, its digest not yet checked."""
        declared = self.request.headers.get("content-length", "0")
        if int(declared) > max_bytes:
            raise _too_large(max_bytes)
        return BodyStream(self.request, max_bytes, self.context.node.store.limits.body_seconds)

    @property
    def body_sha256(self) -> bytes:
        """The SHA-256 that was signed for the body."""
        return EMPTY_SHA256 if self.digest is None else sha256_in(self.digest)

    async def message(self, kind: type[M]) -> M:
        content = await self.body(MAX_MESSAGE_BYTES)
        try:
            return kind.model_validate(jsontext.loads(content.decode()))
        except ValidationError as error:
            raise NodeRefusedError(Code.MALFORMED, describe_validation(error.errors())) from error
        except (ValueError, RecursionError) as error:
            raise NodeRefusedError(Code.MALFORMED, f"the body is not JSON: {error}") from error


class BodyStream:
    """A request's body, read piece by piece within its length and its time."""

    def __init__(self, request: Request, max_bytes: int, seconds: float) -> None:
        self._chunks = request.stream()
        self._max_bytes, self._left = max_bytes, max_bytes
        self._seconds, self._end = seconds, asyncio.get_running_loop().time() + seconds

    async def read_batch(self) -> list[bytes]:
        """Return the next pieces, about a megabyte; none at the end."""
        batch: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout_at(self._end):
                async for chunk in self._chunks:
                    batch.append(chunk)
                    size += len(chunk)
                    if size > self._left:
                        raise _too_large(self._max_bytes)
                    if size >= BATCH_BYTES:
                        break
        except TimeoutError as error:
            raise NodeRefusedError(
                Code.SLOW, f"the body did not come within {self._seconds} s"
            ) from error
        self._left -= size
        return batch if size else []

    def pieces_in_thread(self) -> Iterator[bytes]:
        """Yield the pieces to a worker thread, while the event loop serves others."""
        while batch := from_thread.run(self.read_batch):
            yield from batch


def context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


async def authenticate(request: Request) -> Caller:
    """Return who signed the request; refuse it if nobody whom the node serves did."""
    context, headers = context_of(request), request.headers
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    checked = context.node.gate.check(_head(request), has_body=has_body)
    account = context.node.store.account(checked.owner)
    return Caller(context, account, request, checked.digest if has_body else None, checked.created)


async def authenticate_unless_local(request: Request) -> None:
    """Let in any request from this machine, and signed ones from elsewhere."""
    try:
        local = ip_address(request.client.host).is_loopback if request.client else False
    except ValueError:
        local = False
    if not local:
        await authenticate(request)


Signed = Annotated[Caller, Depends(authenticate)]


def _head(request: Request) -> Head:
    scope = request.scope
    path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
    host = request.headers.get("host", "")
    url = f"{scope['scheme']}://{host}{path}" + (f"?{query}" if query else "")
    return Head(request.method, url, request.headers)


def _too_large(max_bytes: int) -> NodeRefusedError:
    return NodeRefusedError(Code.TOO_LARGE, f"the body may have at most {max_bytes} bytes")
