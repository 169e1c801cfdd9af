"""The web server as an ASGI application: the API, the pages, and what is around them."""

from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi

import holdfast
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
from holdfast.web.errors import Refusal, add_error_handlers
from holdfast.web.pages.site import add_pages
from holdfast.web.security_headers import SecurityHeaders

TITLE = "Holdfast"
BASE = "/api/v1"
DESCRIPTION = "The state of your holdings and their audits, and commands about them."
RESOURCES = (
    *(fleet, holdings, posterior, confidence, audits, policies, promotion_job),
    *(evidence, verification_job, cost, plan, alerts, events),
)


def build_app(context: Context) -> FastAPI:
    """Return the application that serves a home's control plane."""
    app = FastAPI(
        title=TITLE,
        description=DESCRIPTION,
        version=holdfast.__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{BASE}/openapi.json",
    )
    app.state.context = context
    app.include_router(_api())
    add_pages(app)
    app.add_middleware(SecurityHeaders)
    add_error_handlers(app)
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
