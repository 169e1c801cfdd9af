"""Behind a reverse proxy on this machine, loopback is nobody's identity."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count

import httpx
import pytest
from tests.support.live_web import Served, serving
from tests.web.proxy import reverse_proxy

from holdfast.control.policies.aliases import Author
from holdfast.control.settings.models import WebSettings
from holdfast.web import tokens
from holdfast.web.auth import _name_of
from holdfast.web.tokens import Role

NAME = "audits.example.org"
REFUSED, TAKEN = (401, 401), (200, 200)
ANY_PORT = ("127.0.0.1", 0)
BEHIND = {
    "origin": WebSettings(ANY_PORT, origin=f"https://{NAME}"),
    "hosts": WebSettings(ANY_PORT, hosts=(NAME,)),
}

NUMBERS = count()
Start = Callable[[WebSettings], Served]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Return what serves an API of these settings, once for all tests of the file."""
    running: dict[WebSettings, Served] = {}
    with ExitStack() as opened:

        def start(web: WebSettings) -> Served:
            if web not in running:
                folder = tmp_path_factory.mktemp("proxied")
                place = str(folder / "holdfast.db")
                running[web] = opened.enter_context(
                    serving(folder, place, count=2, days=2, web=web)
                )
            return running[web]

        yield start


def attempt(url: str, **headers: str) -> tuple[int, int]:
    """Look and change something, as a visitor of the proxy; return the statuses of both."""
    look = httpx.get(f"{url}/api/v1/fleet", headers=headers)
    change = httpx.post(f"{url}/api/v1/holdings/1/audit-now", headers=headers, json={})
    return look.status_code, change.status_code


@pytest.mark.slow
@pytest.mark.parametrize("setting", BEHIND)
@pytest.mark.parametrize("rewritten", [None, "127.0.0.1:9471", "localhost"])
def test_who_comes_by_a_proxy_that_adds_nothing_needs_a_token(
    start: Start, setting: str, rewritten: str | None
) -> None:
    """Before: every visitor of the proxy looked and changed things as admin (200, 200)."""
    api = start(BEHIND[setting])
    with reverse_proxy(api.url, host=rewritten) as url:
        assert attempt(url, host=NAME) == REFUSED
        name = f"visitor-{next(NUMBERS)}"
        token = tokens.create(api.engine, name, Role.OPERATOR, Author("a test", 1))
        assert attempt(url, host=NAME, authorization=f"Bearer {token}") == TAKEN


@pytest.mark.slow
@pytest.mark.parametrize("setting", BEHIND)
def test_behind_a_proxy_this_machine_needs_a_token_too_unless_a_setting_trusts_it(
    start: Start, setting: str
) -> None:
    settings = BEHIND[setting]
    assert attempt(start(settings).url) == REFUSED
    untrusting = WebSettings(ANY_PORT, settings.hosts, False, settings.origin)
    assert attempt(start(untrusting).url) == REFUSED
    trusting = WebSettings(ANY_PORT, settings.hosts, True, settings.origin)
    assert attempt(start(trusting).url) == TAKEN
    with reverse_proxy(start(trusting).url) as url:
        assert attempt(url, host=NAME) == REFUSED, "it is called by another name than loopback"


@pytest.mark.slow
def test_without_origin_and_hosts_this_machine_is_trusted_unless_a_setting_says_no(
    start: Start,
) -> None:
    assert attempt(start(WebSettings(ANY_PORT)).url) == TAKEN
    assert attempt(start(WebSettings(ANY_PORT, trust_loopback=False)).url) == (200, 403)


@pytest.mark.slow
@pytest.mark.parametrize(
    "header",
    [
        *("Forwarded", "Via", "X-Real-IP", "X-Client-IP", "True-Client-IP", "CF-Connecting-IP"),
        *("X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Server"),
        *("X-Original-Forwarded-For", "X-Envoy-External-Address"),
    ],
)
def test_any_forwarding_header_shows_a_proxy_whatever_the_settings(
    start: Start, header: str
) -> None:
    """Before: with X-Forwarded-Proto alone, every visitor was admin."""
    with reverse_proxy(start(WebSettings(ANY_PORT)).url, adds={header: "x"}) as url:
        assert attempt(url) == REFUSED
    trusting = WebSettings(ANY_PORT, trust_loopback=True, origin=f"https://{NAME}")
    with reverse_proxy(start(trusting).url, host="localhost", adds={header: "x"}) as url:
        assert attempt(url) == REFUSED


@pytest.mark.slow
def test_a_public_address_as_host_shows_a_proxy(start: Start) -> None:
    """Before: a proxy that passed an address on as host brought everybody in as admin."""
    with reverse_proxy(start(WebSettings(ANY_PORT)).url) as url:
        assert attempt(url, host="203.0.113.9") == REFUSED
        assert attempt(url, host="[2001:db8::9]:443") == REFUSED
        assert attempt(url, host="[::1]:9471") == TAKEN, (
            "which is what remains: see docs/security.md"
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "host", ["127.0.0.1:9471@evil", "127.0.0.1:1, evil", "localhost:1/evil", "[::1", "::1", ""]
)
def test_a_host_that_is_none_is_no_loopback(host: str) -> None:
    assert _name_of(host) == ""
