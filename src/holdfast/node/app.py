"""The node as an ASGI application: its routes, and how errors are answered."""

from functools import cache
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from pydantic.json_schema import models_json_schema

import holdfast
from holdfast.node.auth import Context, context_of
from holdfast.node.clock import sign_clock
from holdfast.node.error_codes import ERRORS
from holdfast.node.metrics import MetricsMiddleware
from holdfast.node.node import Node
from holdfast.node.routes import router
from holdfast.node.wire import (
    STATUS,
    Code,
    CommitRequest,
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
    ERRORS.install(app, _answer)
    app.openapi = openapi_document  # type: ignore[method-assign] # FastAPI's way to extend it
    return app


@cache
def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document, with the messages that we parse ourselves."""
    schema = get_openapi(title=TITLE, version=holdfast.__version__, routes=router.routes)
    kinds = (UploadRequest, CommitRequest)
    _, definitions = models_json_schema(
        [(kind, "validation") for kind in kinds], ref_template="#/components/schemas/{model}"
    )
    schema["components"]["schemas"].update(definitions["$defs"])
    return schema


def _answer(request: Request, code: Code, message: str) -> Response:
    time = signature = None
    if code is Code.CLOCK:  # the owner's signature is valid, only its time is wrong
        node = context_of(request).node
        time = node.store.clock()
        signature = sign_clock(node.key.private, request.headers["signature"], time)
    refusal = Refusal(error=Reason(code=code, message=message, time=time, signature=signature))
    headers = {"retry-after": RETRY_AFTER} if code is Code.BUSY else None
    return JSONResponse(refusal.model_dump(exclude_none=True), STATUS[code], headers)
