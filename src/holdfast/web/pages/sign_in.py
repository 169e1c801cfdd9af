"""Signing in from another machine: a cookie carries the token.

No script can read the cookie. Another site can make a browser send it only with a link that opens a
page in a tab.
"""

import re
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.web import tokens
from holdfast.web.auth import check_place
from holdfast.web.context import RequestContext
from holdfast.web.errors import Code
from holdfast.web.pages.page import page_router, refuse

router = page_router()

COOKIE = "holdfast-token"
HOME = "/"
MAX_TARGET_LENGTH = 1000
# Paths of pages have plain segments, so nothing that a browser could take for a host gets through.
_TARGET = re.compile(
    r"/((?!api/|static/|sign-)[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*)?(\?[\w.~%+&=-]*)?", re.ASCII
)


class CookieToken:
    """Middleware that passes the cookie's token on as a bearer token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            token = _token_in(headers.get("cookie", ""))
            if token is not None and "authorization" not in headers:
                header = (b"authorization", f"Bearer {token}".encode("latin-1", "replace"))
                scope = {**scope, "headers": [*scope["headers"], header]}
        await self._app(scope, receive, send)


def _token_in(cookies: str) -> str | None:
    try:
        cookie = SimpleCookie(cookies).get(COOKIE)
    except CookieError:
        return None
    return None if cookie is None else cookie.value


@router.post("/sign-in")
async def sign_in(request: Request, context: RequestContext) -> Response:
    check_place(request, context.settings.web)
    form = parse_qs((await request.body()).decode("latin-1"))
    token = "".join(form.get("token", [])).strip()
    target = page_path("".join(form.get("target", [])))
    if tokens.find(context.reader, token) is None:
        return refuse(Code.UNKNOWN_CALLER, "the token is not valid", target)
    answer = RedirectResponse(target, 303)
    # By the page's own origin, for a proxy may have taken the TLS off.
    origin = request.headers.get("origin") or str(request.url)
    secure = origin.lower().startswith("https:")
    answer.set_cookie(COOKIE, token, httponly=True, samesite="lax", secure=secure)
    return answer


@router.post("/sign-out")
async def sign_out(request: Request, context: RequestContext) -> Response:
    check_place(request, context.settings.web)
    answer = RedirectResponse(HOME, 303)
    answer.delete_cookie(COOKIE)
    return answer


def page_path(target: str) -> str:
    """Return the path of the page that someone wanted to see, or "/" if it is no page of ours."""
    known = len(target) <= MAX_TARGET_LENGTH and _TARGET.fullmatch(target)
    return target if known else HOME
