"""The node as an ASGI application: its routes, and how errors are answered."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

import holdfast
from holdfast.errors import InputError, StorageError
from holdfast.node.auth import Context, context_of, first_error
from holdfast.node.clock import sign_clock
from holdfast.node.metrics import MetricsMiddleware
from holdfast.node.node import Node
from holdfast.node.objects import LostError
from holdfast.node.proof_messages import ProofRequest
from holdfast.node.routes import router
from holdfast.node.wire import (
    STATUS,
    Code,
    CommitRequest,
    NodeRefusedError,
    Reason,
    Refusal,
    UploadRequest,
)

TITLE = "Holdfast storage node"
RETRY_AFTER = "1"  # seconds


def build_app(node: Node) -> FastAPI:
    """Return the application that serves this node."""
    app = FastAPI(
        title=TITLE,
        version=holdfast.__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    app.state.context = context = Context(node)
    app.include_router(router)
    app.add_middleware(MetricsMiddleware, metrics=context.metrics)
    app.add_exception_handler(NodeRefusedError, _on_refusal)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(InputError, _respond_with(Code.MALFORMED))
    app.add_exception_handler(LostError, _respond_with(Code.DAMAGED))
    app.add_exception_handler(StorageError, _respond_with(Code.STORAGE))
    app.add_exception_handler(ClientDisconnect, _on_disconnect)
    app.openapi = openapi_document  # type: ignore[method-assign] # FastAPI's way to extend it
    return app


@cache
def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document, with the messages that we parse ourselves."""
    schema = get_openapi(title=TITLE, version=holdfast.__version__, routes=router.routes)
    kinds = (UploadRequest, CommitRequest, ProofRequest)
    _, definitions = models_json_schema(
        [(kind, "validation") for kind in kinds], ref_template="#/components/schemas/{model}"
    )
    schema["components"]["schemas"].update(definitions["$defs"])
    return schema


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, NodeRefusedError)  # noqa: S101 - what the handler is for
    return _answer(request, error.code, str(error))


async def _on_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as above
    return _answer(request, Code.MALFORMED, first_error(error.errors()))


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as above
    code = {404: Code.NOT_FOUND, 405: Code.METHOD}.get(error.status_code, Code.MALFORMED)
    return _answer(request, code, str(error.detail))


def _respond_with(code: Code) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def respond(request: Request, error: Exception) -> Response:
        return _answer(request, code, str(error))

    return respond


async def _on_disconnect(request: Request, _error: Exception) -> Response:
    return _answer(request, Code.SLOW, "the request ended before its body")


def _answer(request: Request, code: Code, message: str) -> Response:
    time = signature = None
    if code is Code.CLOCK:  # the owner's signature is valid, only its time is wrong
        node = context_of(request).node
        time = node.store.clock()
        signature = sign_clock(node.key.private, request.headers["signature"], time)
    refusal = Refusal(error=Reason(code=code, message=message, time=time, signature=signature))
    headers = {"retry-after": RETRY_AFTER} if code is Code.BUSY else None
    return JSONResponse(refusal.model_dump(exclude_none=True), STATUS[code], headers)
