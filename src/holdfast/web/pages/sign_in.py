"""Signing in from another machine: a cookie carries the token.

No script can read the cookie, and no page of another site makes a browser send it.
"""

from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.web import tokens
from holdfast.web.auth import check_place
from holdfast.web.context import RequestContext
from holdfast.web.errors import Code, WebRefusedError
from holdfast.web.pages.page import page_router

router = page_router()

COOKIE = "holdfast-token"


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
    check_place(request.headers, request.url.scheme, context.settings.web)
    form = parse_qs((await request.body()).decode("latin-1"))
    token = "".join(form.get("token", [])).strip()
    if tokens.find(context.reader, token) is None:
        raise WebRefusedError(Code.UNKNOWN_CALLER, "the token is not valid")
    answer = RedirectResponse("/", 303)
    # By the page's own origin, for a proxy may have taken the TLS off.
    origin = request.headers.get("origin") or str(request.url)
    secure = origin.lower().startswith("https:")
    answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure)
    return answer


@router.post("/sign-out")
async def sign_out(request: Request, context: RequestContext) -> Response:
    check_place(request.headers, request.url.scheme, context.settings.web)
    answer = RedirectResponse("/", 303)
    answer.delete_cookie(COOKIE)
    return answer
