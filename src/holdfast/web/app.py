"""The API as an ASGI application: its resources, and how every error leaves it."""

from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

import holdfast
from holdfast.errors import InputError, StorageError
from holdfast.web.api import (
    alerts,
    audits,
    confidence,
    cost,
    events,
    evidence,
    fleet,
    holdings,
    plan,
    policies,
    posterior,
    promotion_job,
    verification_job,
)
from holdfast.web.auth import caller
from holdfast.web.context import Context
from holdfast.web.errors import STATUS, Code, Refusal, WebRefusedError
from holdfast.web.pages.site import add_pages
from holdfast.web.security_headers import Shield

TITLE = "Holdfast"
BASE = "/api/v1"
DESCRIPTION = "How the audits of your holdings stand, what came of them, and what you may order."
RESOURCES = (
    *(fleet, holdings, posterior, confidence, audits, policies, promotion_job),
    *(evidence, verification_job, cost, plan, alerts, events),
)


def build_app(desk: Context) -> FastAPI:
    """Return the application that serves a home's control plane."""
    app = FastAPI(
        title=TITLE,
        description=DESCRIPTION,
        version=holdfast.__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{BASE}/openapi.json",
    )
    app.state.desk = desk
    app.include_router(_api())
    add_pages(app)
    app.add_middleware(Shield)
    app.add_exception_handler(WebRefusedError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _unrouted)
    app.add_exception_handler(InputError, _malformed)
    app.add_exception_handler(StorageError, _unavailable)
    app.add_exception_handler(ClientDisconnect, _left)
    return app


def interface() -> dict[str, Any]:
    """Return the OpenAPI document."""
    return get_openapi(title=TITLE, version=holdfast.__version__, routes=_api().routes)


def _api() -> APIRouter:
    api = APIRouter(
        prefix=BASE,
        dependencies=[Depends(caller)],
        responses={"4XX": {"model": Refusal}, "5XX": {"model": Refusal}},
    )
    for resource in RESOURCES:
        api.include_router(resource.router)
    return api


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, WebRefusedError)  # noqa: S101 - what the handler is for
    return _answer(error.code, str(error))


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as above
    first: Any = error.errors()[0]
    where = ".".join(str(step) for step in first["loc"])
    return _answer(Code.MALFORMED, f"{where}: {first['msg']}")


async def _unrouted(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as above
    codes = {STATUS[code]: code for code in Code}
    return _answer(codes.get(error.status_code, Code.MALFORMED), str(error.detail))


async def _malformed(_request: Request, error: Exception) -> Response:
    return _answer(Code.MALFORMED, str(error))


async def _unavailable(_request: Request, error: Exception) -> Response:
    return _answer(Code.STORAGE, str(error))


async def _left(_request: Request, _error: Exception) -> Response:
    return _answer(Code.MALFORMED, "the request ended before its body")


def _answer(code: Code, message: str) -> Response:
    headers = {
        Code.UNKNOWN_CALLER: {"www-authenticate": "Bearer"},
        Code.BUSY: {"retry-after": "60"},
    }
    content = {"error": {"code": code, "message": message}}
    return JSONResponse(content, STATUS[code], headers.get(code))
