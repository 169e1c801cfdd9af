"""Signing in from afar: a browser can't show a token by itself, so a cookie carries it.

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
from holdfast.web.pages.page import view

router = view()

COOKIE = "holdfast-token"


class Carried:
    """Shows the cookie's token at the door, as if the browser had."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            token = _carried(headers.get("cookie", ""))
            if token is not None and "authorization" not in headers:
                shown = (b"authorization", f"Bearer {token}".encode("latin-1", "replace"))
                scope = {**scope, "headers": [*scope["headers"], shown]}
        await self._app(scope, receive, send)


def _carried(cookies: str) -> str | None:
    try:
        found = SimpleCookie(cookies).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


@router.post("/sign-in")
async def sign_in(request: Request, desk: RequestContext) -> Response:
    check_place(request.headers, request.url.scheme, desk.settings.web)
    form = parse_qs((await request.body()).decode("latin-1"))
    token = "".join(form.get("token", [])).strip()
    if tokens.find(desk.reader, token) is None:
        raise WebRefusedError(Code.UNKNOWN_CALLER, "the token is not valid")
    answer = RedirectResponse("/", 303)
    # By the page's own origin, for a proxy may have taken the TLS off.
    origin = request.headers.get("origin") or str(request.url)
    secure = origin.lower().startswith("https:")
    answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure)
    return answer


@router.post("/sign-out")
async def sign_out(request: Request, desk: RequestContext) -> Response:
    check_place(request.headers, request.url.scheme, desk.settings.web)
    answer = RedirectResponse("/", 303)
    answer.delete_cookie(COOKIE)
    return answer
