"""The dashboard as a part of the application: every view, and the files that they ask for."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from holdfast.web.pages import (
    alerts,
    cost,
    evidence,
    fleet,
    holding,
    plan,
    policies,
    rails,
    sign_in,
)
from holdfast.web.pages.page import FRESH

STATIC = Path(__file__).parent.parent / "static"
PAGES = (fleet, holding, rails, policies, evidence, cost, plan, alerts, sign_in)


class _Files(StaticFiles):
    """Files that a browser asks for again, lest an old script meet a new page."""

    def file_response(self, *given: Any, **more: Any) -> Response:
        answer = super().file_response(*given, **more)
        answer.headers.update(FRESH)
        return answer


def add_pages(app: FastAPI) -> None:
    for page in PAGES:
        app.include_router(page.router)
    app.add_middleware(sign_in.Carried)
    app.mount("/static", _Files(directory=STATIC))
