"""Authentication: a caller has a token, or is on this machine, and comes from no other site.

Behind a proxy every caller seems to come from loopback. So a caller on this machine is trusted only
if nothing shows that there is a proxy.

Another site's page may send a browser on this machine here. So a request must use one of our names
as its host (against DNS rebinding) and must not come from another site; a change must be JSON,
which no form of another site can send. One thing is allowed to other sites: a link that opens one
of our pages in a tab, which changes nothing and which the other site can't read.
"""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request

from holdfast.control.policies.aliases import Author
from holdfast.control.settings.models import WebSettings
from holdfast.web import tokens
from holdfast.web.context import Context, RequestContext
from holdfast.web.errors import Code, WebRefusedError
from holdfast.web.tokens import Role

LOOPBACK = "this machine"
# What a proxy adds: the caller that it speaks for is somewhere else.
FORWARDING = {
    *("forwarded", "via", "x-real-ip", "x-client-ip", "client-ip", "true-client-ip"),
    *("x-cluster-client-ip", "x-remote-ip", "x-remote-addr", "x-host", "x-scheme"),
    *("x-proxyuser-ip", "fastly-client-ip", "x-azure-clientip", "x-amzn-trace-id"),
    *("fly-client-ip", "cdn-loop"),
}
HOST = re.compile(r"(\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(:[0-9]{1,5})?")
FORWARDING_PREFIXES = ("x-forwarded", "x-original-", "x-envoy-", "cf-")


@dataclass(frozen=True)
class Caller:
    name: str
    role: Role
    key: str = LOOPBACK  # by which places are counted: a token's, or one for all on this machine

    def author(self, context: Context, reason: str = "") -> Author:
        return Author(self.name, context.clock(), reason)


def caller(request: Request, context: RequestContext) -> Caller:
    """Return the caller of the API; refuse one that can't be identified."""
    check_place(request, context.settings.web)
    return _identify(request, context)


def visitor(request: Request, context: RequestContext) -> Caller:
    """Return the caller of a page, who may have followed a link on another site."""
    check_place(request, context.settings.web, page=True)
    return _identify(request, context)


def _identify(request: Request, context: Context) -> Caller:
    given = request.headers.get("authorization")
    if given is not None:
        scheme, _, text = given.partition(" ")
        token = tokens.find(context.reader, text.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise WebRefusedError(Code.UNKNOWN_CALLER, "the token is not valid")
        return Caller(token.name, token.role, f"token {token.id}")
    return Caller(LOOPBACK, _loopback_role(request, context.settings.web))


def _loopback_role(request: Request, settings: WebSettings) -> Role:
    """Return the role of a caller without a token; refuse it unless it is on this machine."""
    if not _is_local(request):
        raise WebRefusedError(
            Code.UNKNOWN_CALLER, "from another machine a token is needed: Authorization: Bearer"
        )
    if settings.behind_proxy and not settings.trust_loopback:
        raise WebRefusedError(
            Code.UNKNOWN_CALLER,
            "a token is needed: with origin or hosts in [control.web], callers on this machine are "
            "trusted only if trust_loopback = true says so",
        )
    return Role.VIEWER if settings.trust_loopback is False else Role.ADMIN


def _require_role(request: Request, known: Caller, needed: Role) -> Caller:
    if not known.role.covers(needed):
        raise WebRefusedError(
            Code.FORBIDDEN, f"{known.name} is {known.role}: this needs a token of role {needed}"
        )
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise WebRefusedError(Code.NO_JSON, "a change must be sent as application/json")
    return known


def operator(request: Request, known: Annotated[Caller, Depends(caller)]) -> Caller:
    return _require_role(request, known, Role.OPERATOR)


def admin(request: Request, known: Annotated[Caller, Depends(caller)]) -> Caller:
    return _require_role(request, known, Role.ADMIN)


Known = Annotated[Caller, Depends(caller)]
Operator = Annotated[Caller, Depends(operator)]
Admin = Annotated[Caller, Depends(admin)]


def check_place(request: Request, settings: WebSettings, *, page: bool = False) -> None:
    """Refuse a request unless its host is a name of ours and it comes from no other site.

    A page may also be opened by a link on another site.
    """
    headers, host = request.headers, request.headers.get("host", "")
    if not _is_our_host(host, settings):
        raise WebRefusedError(
            Code.FORBIDDEN, "this server has no such name: add it to hosts in [control.web]"
        )
    ours = headers.get("sec-fetch-site", "none") in {"same-origin", "none"}
    if not ours and not (page and _opens_a_tab(request)):
        raise WebRefusedError(Code.FORBIDDEN, "requests from pages of another site are refused")
    origin, own = headers.get("origin"), f"{request.url.scheme}://{host}".lower()
    if origin is not None and origin.lower() not in {own, settings.origin}:
        raise WebRefusedError(Code.FORBIDDEN, "requests from pages of another origin are refused")


def _opens_a_tab(request: Request) -> bool:
    """Return whether a browser shows the answer in a tab, and not in a frame or to a script."""
    mode, destination = (request.headers.get(f"sec-fetch-{name}") for name in ("mode", "dest"))
    return (request.method, mode, destination) == ("GET", "navigate", "document")


def _is_our_host(host: str, settings: WebSettings) -> bool:
    """Return whether the host is a name of ours, or an IP address, which needs no DNS."""
    name = _name_of(host)
    public = None if settings.origin is None else urlsplit(settings.origin).hostname
    if name in {"localhost", public, *settings.hosts}:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _name_of(host: str) -> str:
    """Return a host without its port; an empty text if it is malformed."""
    known = HOST.fullmatch(host.lower())
    return (known["address"] or known["name"]) if known else ""


def _is_local(request: Request) -> bool:
    """Return whether the caller is on this machine and nothing shows that a proxy is between."""
    if request.client is None or any(map(_forwards, request.headers)):
        return False
    name = _name_of(request.headers.get("host", ""))
    return (name == "localhost" or _is_loopback(name)) and _is_loopback(request.client.host)


def _forwards(header: str) -> bool:
    name = header.replace("_", "-")
    return name in FORWARDING or name.startswith(FORWARDING_PREFIXES)


def _is_loopback(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
