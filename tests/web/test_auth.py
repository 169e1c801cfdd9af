"""Who may come in, who may change things, and what another site's page can't make a browser do."""

import socket
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from sqlalchemy import insert, select
from tests.support.live_web import Served
from tests.support.simulated_operation import operation
from tests.web.remote import FAR, NEAR, Door

from holdfast.control.incidents.alerts import Alerts
from holdfast.control.policies.aliases import Author
from holdfast.control.settings.models import ControlSettings, WebSettings
from holdfast.errors import InputError
from holdfast.evidence import leaf
from holdfast.model.scenario import PAPER
from holdfast.storage.database import transaction
from holdfast.storage.schema import holdings, leaves
from holdfast.storage.schema import tokens as stored
from holdfast.web import tokens
from holdfast.web.server import listen, open_context
from holdfast.web.tokens import Role

CHANGES = {
    "/holdings/1/audit-now": Role.OPERATOR,
    "/holdings/1/release": Role.OPERATOR,
    "/alerts/1/acknowledge": Role.OPERATOR,
    "/holdings/1/set-url": Role.ADMIN,
    "/holdings/1/rename": Role.ADMIN,
    "/holdings/1/remove": Role.ADMIN,
    "/policies/ffff/promote": Role.ADMIN,
    "/policies/ffff/challenge": Role.ADMIN,
    "/policies/rollback": Role.ADMIN,
    "/policies/withdraw": Role.ADMIN,
}
READS = ("/fleet", "/holdings", "/audits", "/evidence/leaves", "/alerts", "/policies")


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("door")
    work = operation(folder, PAPER, 2)
    Alerts(work.engine, work.clock).raise_alert("node-offline", "attic", "no answer")
    work.engine.dispose()
    web = WebSettings(hosts=("audits.example.org",), trust_loopback=True)
    with open_context(
        folder, ControlSettings(scenario=PAPER, web=web), clock=work.clock
    ) as context:
        yield Door(context)


@pytest.fixture
def wary(door: Door) -> Door:
    """Return a door that no proxy stands before, and that does not trust this machine."""
    web = WebSettings(trust_loopback=False)
    return Door(replace(door.context, settings=replace(door.context.settings, web=web)))


@pytest.mark.slow
def test_every_change_is_among_those_tested_here(door: Door) -> None:
    paths = door.app.openapi()["paths"]
    changes = {path for path, methods in paths.items() if set(methods) - {"get"}}
    patterns = {"/api/v1" + path.replace("/1/", "/{x}/").replace("ffff", "{x}") for path in CHANGES}
    for name in ("holding", "alert", "version"):
        changes = {each.replace(f"{{{name}}}", "{x}") for each in changes}
    assert changes == patterns


@pytest.mark.slow
def test_whoever_is_on_this_machine_may_look(door: Door, wary: Door) -> None:
    for path in READS:
        assert door.status("GET", path) == 200
        assert wary.status("GET", path) == 200
        assert door.status("GET", path, origin="::1") == 200
        assert door.status("GET", path, origin="::ffff:127.0.0.1") == 200


def test_from_elsewhere_nothing_goes_without_a_token(door: Door) -> None:
    before = door.written()
    for path in READS:
        answer = door.ask("GET", path, origin=FAR)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    for path in CHANGES:
        assert door.order(path, origin=FAR) == 401
    assert door.written() == before


@pytest.mark.parametrize("name", ["forwarded", "x-forwarded-for", "x-real-ip", "via"])
def test_who_comes_by_a_proxy_on_this_machine_is_elsewhere(name: str, door: Door) -> None:
    assert door.status("GET", "/fleet", headers={name: "203.0.113.5"}) == 401


@pytest.mark.slow
def test_a_role_may_do_what_is_its_own_and_no_more(door: Door) -> None:
    for role in Role:
        headers = {"authorization": f"Bearer {door.token(role)}"}
        for origin in (NEAR, FAR):
            assert door.status("GET", "/fleet", origin=origin, headers=headers) == 200
            before = door.written()
            for path, needed in CHANGES.items():
                status = door.order(path, origin=origin, headers=headers)
                assert (status == 403) == (not role.covers(needed)), (role, path, status)
                assert status != 401
            if role is Role.VIEWER:
                assert door.written() == before
        tokens.revoke(door.context.writer, f"a-{role}", Author("a test", 2))
        assert door.status("GET", "/fleet", headers=headers) == 401, "revoked, at once"


def test_a_wrong_token_opens_nothing_not_even_here(door: Door) -> None:
    token = door.token(Role.ADMIN)
    number = token.split("_")[1]
    before = door.written()
    for wrong in (
        *("", "x", token[:-1], token + "x", token.upper(), f"holdfast_{number}_{'A' * 43}"),
        *("holdfast_999_" + "A" * 43, "holdfast_" + "9" * 18 + "_" + "A" * 43, "\xff" * 9),
    ):
        for origin in (NEAR, FAR):
            headers = {"authorization": f"Bearer {wrong}".encode("latin-1")}
            assert door.status("GET", "/fleet", origin=origin, headers=headers) == 401
            assert door.order("/holdings/1/audit-now", origin=origin, headers=headers) == 401
    basic = {"authorization": f"Basic {token}"}
    assert door.status("GET", "/fleet", headers=basic) == 401
    assert door.written() == before


def test_of_a_token_only_its_digest_is_kept_and_it_is_told_nowhere(
    door: Door, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tokens.create(door.context.writer, "b", Role.VIEWER, Author("a test", 1))
    secret = token.split("_", 2)[2].encode()
    with transaction(door.context.reader) as connection:
        rows = connection.execute(select(stored)).all()
        bodies = connection.execute(select(leaves.c.body)).scalars().all()
    assert not any(secret in bytes(str(row), "utf-8") for row in rows)
    assert not any(secret in bytes(body) for body in bodies)
    headers = {"authorization": f"Bearer {token}x"}
    assert secret.decode() not in door.ask("GET", "/fleet", headers=headers).text
    said = capsys.readouterr()
    assert secret.decode() not in said.out + said.err


def test_changes_from_this_machine_can_be_left_to_tokens(wary: Door) -> None:
    before = wary.written()
    for path in CHANGES:
        assert wary.order(path) == 403
    assert wary.written() == before


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9472"},
        {"origin": "https://localhost:9471"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_page_of_another_site_can_order_nothing(headers: dict[str, str], door: Door) -> None:
    before = door.written()
    for path in CHANGES:
        assert door.order(path, headers=headers) == 403
    assert door.status("GET", "/evidence/verify", headers=headers) == 403
    assert door.written() == before


@pytest.mark.parametrize(
    "media",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""],
)
def test_what_a_form_can_send_orders_nothing(media: str, door: Door) -> None:
    before = door.written()
    for path in CHANGES:
        headers = {"content-type": media} if media else {}
        assert door.order(path, json=None, content=b"{}", headers=headers) == 415
    assert door.written() == before


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example:9471", "127.0.0.1.nip.io"]
)
def test_a_name_that_was_made_to_point_here_is_refused(host: str, door: Door) -> None:
    before = door.written()
    assert door.status("GET", "/fleet", host=host) == 403
    headers = {"origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    assert door.order("/holdings/1/audit-now", host=host, headers=headers) == 403
    assert door.written() == before


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:9471", "[::1]:9471", "192.168.1.5", "AUDITS.example.org:8080"]
)
def test_names_of_ours_are_answered(host: str, door: Door) -> None:
    headers = {"origin": f"http://{host}".lower(), "sec-fetch-site": "same-origin"}
    near = host.startswith(("localhost", "127.", "[::1]"))
    assert door.status("GET", "/fleet", host=host, headers=headers) == (200 if near else 401)
    token = tokens.create(door.context.writer, f"t-{hash(host)}", Role.VIEWER, Author("a test", 1))
    headers["authorization"] = f"Bearer {token}"
    assert door.status("GET", "/fleet", host=host, headers=headers) == 200


def test_behind_a_proxy_that_speaks_tls_the_declared_origin_is_ours(door: Door) -> None:
    web = replace(door.context.settings.web, origin="https://watch.example.org")
    behind = Door(replace(door.context, settings=replace(door.context.settings, web=web)))
    bearer = {"authorization": f"Bearer {door.token(Role.OPERATOR)}", "via": "1.1 a-proxy"}
    ours = bearer | {"origin": "https://watch.example.org", "sec-fetch-site": "same-origin"}
    order = "/holdings/1/audit-now"
    for host in ("watch.example.org", "127.0.0.1:9471"):
        assert behind.order(order, host=host, headers=ours) == 200
    before = behind.written()
    for origin in ("http://watch.example.org", "https://watch.example.org.evil.example", "null"):
        assert behind.order(order, headers=ours | {"origin": origin}) == 403
    assert door.order(order, host="127.0.0.1:9471", headers=ours) == 403, "nobody declared it"
    assert behind.written() == before
    tokens.revoke(door.context.writer, f"a-{Role.OPERATOR}", Author("a test", 2))


def test_the_evidence_names_the_token_or_this_machine_and_no_name_that_a_caller_claims(
    door: Door,
) -> None:
    token = tokens.create(door.context.writer, "bob", Role.ADMIN, Author("a test", 1))
    order, bearer = "/holdings/1/audit-now", f"Bearer {token}"
    for headers, told in (({}, "this machine"), ({"authorization": bearer}, "bob")):
        assert door.order(order, headers={"holdfast-user": "ada", **headers}) == 200
        assert leaf.decode(door.written()[-1][-1].body).by == told  # type: ignore[union-attr]


def test_every_answer_keeps_a_browser_from_harm(door: Door) -> None:
    for path, host in (("/fleet", "localhost"), ("/nothing", "localhost"), ("/fleet", "evil.org")):
        headers = door.ask("GET", path, host=host).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "a\x00b\x1b[31m\r\nset-cookie: x=1",
    "\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe",
    "%s%n{0}{{7*7}}${7*7}",
    "'; DROP TABLE holdings; --",
    "x" * 1_000_000,
)


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_do_no_harm_as_input(name: str, door: Door) -> None:
    count = len(door.written()[0])
    for query in ("search", "sort", "health", "page"):
        assert door.status("GET", "/holdings", params={query: name[:20_000]}) in {200, 400}
    for query in ("outcome", "after", "since", "holding"):
        assert door.status("GET", "/audits", params={query: name[:20_000]}) == 400
    answer = door.ask("POST", "/holdings/2/audit-now", json={"reason": name})
    assert answer.status_code in {200, 400, 409, 413}
    assert answer.headers["content-type"] == "application/json"
    assert len(answer.content) < 2000
    assert len(door.written()[0]) == count


@pytest.mark.slow
def test_hostile_names_are_told_as_data_alone(changing: Served) -> None:
    name = "<script>alert(1)</script>\x1b[31m\r\n\N{RIGHT-TO-LEFT OVERRIDE}"
    with transaction(changing.engine) as connection:
        like = connection.execute(select(holdings).where(holdings.c.id == 1)).one()
        values = {column.name: getattr(like, column.name) for column in holdings.c}
        connection.execute(insert(holdings), [values | {"id": 77, "name": name}])
    Alerts(changing.engine, changing.clock).raise_alert("node-offline", name, name * 1000)
    for path in ("/holdings", "/holdings/77", "/alerts", "/status"):
        answer = changing.client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert b"\x1b" not in answer.content
        assert name in str(answer.json()) or repr(name)[1:-1] in str(answer.json())
    assert changing.client.post("/holdings/77/audit-now", json={}).status_code == 200
    changing.operation.sequencer.sequence()
    assert changing.client.get("/evidence/leaves").status_code == 200


@pytest.mark.slow
def test_what_never_ends_is_cut_off(changing: Served) -> None:
    def endless() -> Iterator[bytes]:
        yield b'{"reason": "'
        for _ in range(1000):
            yield b"x" * 10_000

    headers = {"content-type": "application/json"}
    try:
        answer = changing.client.post("/holdings/1/audit-now", content=endless(), headers=headers)
    except httpx.TransportError:
        return  # it was cut off while it spoke
    assert answer.status_code == 413


def test_a_port_that_was_chosen_and_is_taken_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match="can't listen"):
            listen(WebSettings(("127.0.0.1", port)))
    assert listen(WebSettings(None)) is None
