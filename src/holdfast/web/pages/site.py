"""The dashboard as a part of the application: every view, and static files."""

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
    sign_in,
)
from holdfast.web.pages.page import FRESH

STATIC = Path(__file__).parent.parent / "static"
PAGES = (fleet, holding, policies, evidence, cost, plan, alerts, sign_in)


class _Files(StaticFiles):
    """Static files that a browser revalidates, so that an old script never meets a new page."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        answer = super().file_response(*arguments, **options)
        answer.headers.update(FRESH)
        return answer


def add_pages(app: FastAPI) -> None:
    for page in PAGES:
        app.include_router(page.router)
    app.add_middleware(sign_in.CookieToken)
    app.mount("/static", _Files(directory=STATIC))
