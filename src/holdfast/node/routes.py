"""The node's HTTP interface, route by route."""

from functools import partial
from itertools import pairwise
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, StringConstraints
from starlette.concurrency import run_in_threadpool

import holdfast
from holdfast.node import uploads
from holdfast.node.auth import MAX_MESSAGE_BYTES, Signed, authenticate_unless_local, context_of
from holdfast.node.layout import Part
from holdfast.node.metrics import PROMETHEUS
from holdfast.node.proof_codec import MAX_REQUEST_BYTES, ProofRequest, encode_answers
from holdfast.node.segments import MAX_SEGMENT_BYTES
from holdfast.node.stream import stream
from holdfast.node.wire import (
    Code,
    CommitRequest,
    Committed,
    Health,
    Hex16,
    Hex32,
    HoldingFacts,
    Holdings,
    NodeFacts,
    NodeRefusedError,
    Refusal,
    RepairTarget,
    UploadRequest,
    UploadState,
)
from holdfast.pdp import PublicKey
from holdfast.pdp.keys import MAX_VERSION
from holdfast.pdp.spans import Span
from holdfast.pdp.tags import TAG_BYTES

MAX_SPANS_AT_ONCE = 512  # which fit in the head of a request
MAX_BLOCKS_BYTES = MAX_SEGMENT_BYTES  # of blocks that one request gets or replaces
OCTETS = "application/octet-stream"
HOLDING = "/v1/holdings/{key_id}"
UPLOAD = HOLDING + "/uploads/{upload}"
FILE = HOLDING + "/files/{file_id}"

Number = Annotated[int, Path(ge=0, lt=2**48)]
Version = Annotated[int, Query(ge=1, le=MAX_VERSION)]
SpanTexts = Annotated[
    list[Annotated[str, StringConstraints(pattern=r"^[0-9]{1,15}-[0-9]{1,15}$")]],
    Query(
        alias="span",
        min_length=1,
        max_length=MAX_SPANS_AT_ONCE,
        description="blocks from the first number up to the second, which is not among them",
    ),
]
_BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_BYTES: dict[str, Any] = {"content": {OCTETS: _BINARY}, "description": "the bytes"}

router = APIRouter(responses={"4XX": {"model": Refusal}, "5XX": {"model": Refusal}})


def _json(kind: type[BaseModel]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _raw(media: str = OCTETS) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media: _BINARY}}}


@router.get("/v1/health")
async def health() -> Health:
    return Health(status="ok")


@router.get(
    "/v1/metrics",
    dependencies=[Depends(authenticate_unless_local)],
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}, "description": "for Prometheus"}},
)
async def metrics(request: Request) -> Response:
    return Response(context_of(request).metrics.text(), media_type=PROMETHEUS)


@router.get("/v1/node")
async def facts(request: Request) -> NodeFacts:
    node = context_of(request).node
    return NodeFacts(
        version=holdfast.__version__,
        address=node.key.address.hex(),
        segment_bytes=node.store.segment_bytes,
        in_place=node.store.data is not None,
        limits=node.store.limits,
    )


@router.get("/v1/holdings")
async def holdings(caller: Signed) -> Holdings:
    return Holdings(holdings=await run_in_threadpool(caller.account.facts))


@router.put(HOLDING, openapi_extra=_raw("application/json"))
async def create(
    caller: Signed,
    key_id: Hex32,
    holding: Annotated[Hex32 | None, Query(description="its id on the ledger")] = None,
) -> HoldingFacts:
    public = PublicKey.decode(await caller.body(MAX_MESSAGE_BYTES))
    if public.id.hex() != key_id:
        raise NodeRefusedError(Code.MALFORMED, "the public key has another id than the path")
    await run_in_threadpool(caller.context.node.check_registered, holding, public)
    return (await run_in_threadpool(caller.account.create, public)).facts


@router.get(
    HOLDING,
    response_class=Response,
    responses={200: {"content": {"application/json": {}}, "description": "the inventory"}},
)
async def inventory(caller: Signed, key_id: Hex32) -> Response:
    content = await run_in_threadpool(caller.holding(key_id).record.inventory.encode)
    return Response(content, media_type="application/json")


@router.delete(HOLDING, status_code=204)
async def remove(caller: Signed, key_id: Hex32) -> None:
    await run_in_threadpool(caller.account.remove, bytes.fromhex(key_id))


@router.post(HOLDING + "/uploads", openapi_extra=_json(UploadRequest))
async def begin(caller: Signed, key_id: Hex32) -> UploadState:
    message = await caller.message(UploadRequest)
    return await run_in_threadpool(
        caller.account.begin, bytes.fromhex(key_id), message, caller.created
    )


@router.put(UPLOAD + "/{part}/{segment}", status_code=204, openapi_extra=_raw())
async def receive(
    caller: Signed, key_id: Hex32, upload: Hex32, part: Part, segment: Number
) -> None:
    holding, name = caller.holding(key_id), bytes.fromhex(upload)
    length = uploads.segment_length(holding, name, part, segment)
    with caller.context.receiving.take():
        body, now = caller.stream(length), caller.context.node.store.clock()
        pieces = body.pieces_in_thread()
        write = partial(uploads.receive, expected=caller.body_sha256)
        await run_in_threadpool(write, holding, name, part, segment, pieces, now)


@router.post(UPLOAD + "/commit", openapi_extra=_json(CommitRequest))
async def commit(caller: Signed, key_id: Hex32, upload: Hex32) -> Committed:
    message = await caller.message(CommitRequest)
    expected = bytes.fromhex(message.inventory_hash)
    after = await run_in_threadpool(
        uploads.commit, caller.holding(key_id), bytes.fromhex(upload), expected
    )
    return Committed(inventory_hash=after.hex())


@router.delete(UPLOAD, status_code=204)
async def abort(caller: Signed, key_id: Hex32, upload: Hex32) -> None:
    await run_in_threadpool(caller.account.abort, bytes.fromhex(key_id), bytes.fromhex(upload))


@router.post(
    "/v1/proofs",
    openapi_extra=_raw(),
    response_class=Response,
    responses={200: {"content": {OCTETS: _BINARY}, "description": "a proof or a refusal for each"}},
)
async def prove(caller: Signed) -> Response:
    request = ProofRequest.decode(await caller.body(MAX_REQUEST_BYTES))
    node = caller.context.node
    if len(request.questions) > node.store.limits.challenges:
        raise NodeRefusedError(
            Code.TOO_LARGE,
            f"this node takes at most {node.store.limits.challenges} challenges in one request",
        )
    with caller.context.proving.take():
        answers = await run_in_threadpool(
            node.prove_many, caller.account, request.questions, request.milliseconds / 1000
        )
    caller.context.metrics.count_proofs(answers)
    return Response(encode_answers(answers), media_type=OCTETS)


@router.delete(FILE, status_code=204)
async def delete_file(
    caller: Signed, key_id: Hex32, file_id: Hex16, before: Hex32, after: Hex32
) -> None:
    names = (bytes.fromhex(name) for name in (key_id, file_id, before, after))
    await run_in_threadpool(caller.account.delete_file, *names)


def _spans(caller: Signed, key_id: Hex32, span: SpanTexts) -> list[Span]:
    """Return the spans of a request, which ascend and are no more than one request moves."""
    spans: list[Span] = []
    for text in span:
        start, _, stop = text.partition("-")
        spans.append((int(start), int(stop)))
    if any(a >= b for a, b in spans) or any(b > a for (_, b), (a, _) in pairwise(spans)):
        raise NodeRefusedError(Code.MALFORMED, "spans of blocks must ascend and not overlap")
    size = caller.holding(key_id).record.public.layout.block_bytes
    if sum(b - a for a, b in spans) * size > MAX_BLOCKS_BYTES:
        raise NodeRefusedError(
            Code.TOO_LARGE, f"one request is for at most {MAX_BLOCKS_BYTES} bytes of blocks"
        )
    return spans


BlockSpans = Annotated[list[Span], Depends(_spans)]


@router.get(FILE + "/blocks", response_class=Response, responses={200: _BYTES})
async def blocks(caller: Signed, key_id: Hex32, file_id: Hex16, spans: BlockSpans) -> Response:
    holding = caller.holding(key_id)
    parts = await run_in_threadpool(holding.blocks, bytes.fromhex(file_id), spans)
    return Response(b"".join(parts), media_type=OCTETS)


@router.get(FILE + "/block-tags", response_class=Response, responses={200: _BYTES})
async def block_tags(caller: Signed, key_id: Hex32, file_id: Hex16, spans: BlockSpans) -> Response:
    holding = caller.holding(key_id)
    tags = await run_in_threadpool(holding.tags, bytes.fromhex(file_id), spans)
    return Response(tags, media_type=OCTETS)


def _repair_target(file_id: Hex16, version: Version, inventory_hash: Hex32) -> RepairTarget:
    return RepairTarget(bytes.fromhex(file_id), version, bytes.fromhex(inventory_hash))


Target = Annotated[RepairTarget, Depends(_repair_target)]


@router.put(FILE + "/blocks", status_code=204, openapi_extra=_raw())
async def replace_blocks(caller: Signed, key_id: Hex32, target: Target, spans: BlockSpans) -> None:
    holding = caller.holding(key_id)
    size = holding.record.public.layout.block_bytes
    with caller.context.receiving.take():
        content = await caller.body(sum(b - a for a, b in spans) * size)
        await run_in_threadpool(holding.repair, target, holding.replace_blocks, spans, content)


@router.put(FILE + "/block-tags", status_code=204, openapi_extra=_raw())
async def replace_tags(caller: Signed, key_id: Hex32, target: Target, spans: BlockSpans) -> None:
    holding = caller.holding(key_id)
    with caller.context.receiving.take():
        content = await caller.body(sum(b - a for a, b in spans) * TAG_BYTES)
        await run_in_threadpool(holding.repair, target, holding.replace_tags, spans, content)


@router.get(FILE + "/{part}", response_class=Response, responses={200: _BYTES, 206: _BYTES})
async def read(caller: Signed, key_id: Hex32, file_id: Hex16, part: Part) -> Response:
    holding = caller.holding(key_id)
    reader = holding.reader(holding.file(bytes.fromhex(file_id)), part)
    return await stream(reader, caller.request.headers.get("range"))
