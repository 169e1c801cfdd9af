"""The pages without a browser: their figures, their words, their queries, and who may see them."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, event, insert
from tests.support.live_web import Served
from tests.web.remote import FAR, NEAR

from holdfast.bench.query_plans import record_statements, scanned
from holdfast.bench.web import SIMULATED, pages
from holdfast.control.audits.contacts import Contacts
from holdfast.control.policies.aliases import Author
from holdfast.control.queries.fleet import EvidenceFigures, FleetFigures, Health
from holdfast.control.scheduling.claims import Lag
from holdfast.control.settings.models import ControlSettings
from holdfast.durations import HOUR
from holdfast.model.estimate import Figure
from holdfast.model.scenario import PAPER
from holdfast.owner.losses import FileLoss, encode_losses
from holdfast.storage.database import transaction
from holdfast.storage.home_schema import catalogue
from holdfast.storage.inference_schema import confidences
from holdfast.storage.schema import responses
from holdfast.web import tokens
from holdfast.web.app import build_app
from holdfast.web.context import Context
from holdfast.web.pages import words
from holdfast.web.pages.chart import LABELS, Columns, Series, scale
from holdfast.web.pages.sign_in import page_path
from holdfast.web.pages.summary import headline
from holdfast.web.server import open_context
from holdfast.web.services.baselines import Costs
from holdfast.web.services.dial_sweep import SweepProgress, notch_of
from holdfast.web.tokens import Role

WITHOUT_SIMULATION = [
    path for name, path in pages(4, 30).items() if f"pages.{name}" not in SIMULATED
]


class Front:
    """The real application, at whose front anyone may come from anywhere."""

    def __init__(self, context: Context) -> None:
        self.context, self.app = context, build_app(context)

    def ask(
        self, path: str, method: str = "GET", origin: str = NEAR, **options: Any
    ) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, client=(origin, 50_000))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as to:
                return await to.request(method, path, **options)

        return asyncio.run(asked())

    def token(self, name: str) -> str:
        return tokens.create(self.context.writer, name, Role.VIEWER, Author("a test", 1))


@pytest.fixture
def front(served: Served) -> Iterator[Front]:
    address = served.engine.url.render_as_string(hide_password=False)
    place = address.replace("+psycopg", "").removeprefix("sqlite:///")
    place += "&schema=public" if "://" in place else ""
    settings = ControlSettings(database=place, scenario=PAPER)
    served.client.get("/fleet")  # two applications must not be built at once: warnings are global
    with open_context(served.folder, settings, clock=served.clock) as context:
        yield Front(context)


@pytest.mark.slow
def test_every_page_finds_what_it_shows_by_indices(front: Front) -> None:
    for path in WITHOUT_SIMULATION:
        with record_statements(front.context.reader) as statements:
            answer = front.ask(path)
        assert answer.status_code == httpx.codes.OK, answer.text
        with front.context.reader.begin() as connection:
            for statement in statements:
                assert scanned(connection, statement, small=True) == [], (path, statement)


@pytest.mark.parametrize(
    "path",
    [
        *WITHOUT_SIMULATION,
        *("/api/v1/fleet", "/api/v1/status"),
        pytest.param("/cost", marks=pytest.mark.slow),
        pytest.param("/plan", marks=pytest.mark.slow),
    ],
)
def test_a_page_is_read_in_one_transaction(front: Front, path: str) -> None:
    front.ask(path)  # past days are summed once, a champion is looked up once
    begun: list[Connection] = []

    def record(connection: Connection) -> None:
        begun.append(connection)

    event.listen(front.context.reader, "begin", record)
    try:
        assert front.ask(path).status_code == httpx.codes.OK
    finally:
        event.remove(front.context.reader, "begin", record)
    assert len(begun) == 1


@pytest.mark.slow
def test_the_rails_moved_to_the_cost_page(front: Front) -> None:
    moved = front.ask("/rails")
    assert (moved.status_code, moved.headers["location"]) == (308, "/cost#rails")


@pytest.mark.slow
def test_the_steps_after_a_failure_are_shown(front: Front) -> None:
    step = {"holding": 4, "audit": 1, "step": "localise", "state": "done", "began": 1}
    with transaction(front.context.writer) as connection:
        connection.execute(insert(responses), [step | {"detail": "3 blocks damaged"}])
    for path in ("/alerts", "/holdings/4"):
        assert "3 blocks damaged" in front.ask(path).text


@pytest.mark.slow
def test_a_repair_under_way_and_what_is_lost_are_shown(front: Front) -> None:
    step = {"holding": 4, "audit": 1, "step": "repair", "state": "ready", "began": 1_000}
    progress = {"done": 40_000, "total": 90_000, "progressed": 3_000}
    losses = encode_losses([FileLoss("<photos>.tar", 2, ((0, 992),))])
    with transaction(front.context.writer) as connection:
        row = step | progress | {"detail": "9 blocks damaged", "losses": losses}
        connection.execute(insert(responses), [row])
    for path in ("/alerts", "/holdings/4"):
        page = front.ask(path).text
        assert "40,000 of 90,000 blocks, 20,000 a second, about 2 s left" in page
        assert '<progress max="90000" value="40000"' in page
        assert "&lt;photos&gt;.tar, bytes 0 to 991" in page
    (shown,) = [s for s in front.ask("/api/v1/cases").json()["steps"] if s["losses"]]
    assert shown["progress"]["done"] == 40_000
    assert shown["losses"] == [
        {"file": "<photos>.tar", "blocks": 2, "ranges": [[0, 992]], "more": 0}
    ]
    with transaction(front.context.writer) as connection:  # other tests share the database
        connection.execute(delete(responses).where(responses.c.holding == 4))


@pytest.mark.slow
def test_no_page_is_shown_to_strangers_or_framed_by_others(front: Front) -> None:
    for path in WITHOUT_SIMULATION:
        near, far = front.ask(path), front.ask(path, origin=FAR)
        assert (near.status_code, far.status_code) == (200, 401)
        assert "holding-0" not in far.text
        for answer in (near, far):
            policy = answer.headers["content-security-policy"]
            assert "script-src 'self';" in policy
            assert "frame-ancestors 'none'" in policy
            assert " style=" not in answer.text
            assert "<script>" not in answer.text


@pytest.mark.slow
def test_a_token_in_a_cookie_is_as_good_as_one_that_is_shown(front: Front) -> None:
    token = front.token("guest")
    taken = front.ask("/sign-in", "POST", FAR, data={"token": f" {token} "})
    assert taken.status_code == httpx.codes.SEE_OTHER
    carried = {"cookie": taken.headers["set-cookie"].partition(";")[0]}
    assert front.ask("/", origin=FAR, headers=carried).status_code == httpx.codes.OK
    wrong = {"cookie": "holdfast-token=holdfast_1_" + "x" * 43}
    assert front.ask("/", origin=FAR, headers=wrong).status_code == httpx.codes.UNAUTHORIZED
    order = "/api/v1/holdings/1/audit-now"
    refused = front.ask(order, "POST", FAR, headers=carried, json={})
    assert refused.status_code == httpx.codes.FORBIDDEN


@pytest.mark.slow
def test_the_cookie_of_a_page_over_tls_is_sent_over_tls_alone(front: Front) -> None:
    web = replace(front.context.settings.web, origin="https://watch.example.org")
    behind = Front(replace(front.context, settings=replace(front.context.settings, web=web)))
    token, origin = front.token("traveller"), {"origin": "https://watch.example.org"}
    taken = behind.ask("/sign-in", "POST", FAR, data={"token": token}, headers=origin)
    assert "secure" in taken.headers["set-cookie"].lower().split("; ")
    plain = behind.ask("/sign-in", "POST", FAR, data={"token": token})
    assert "secure" not in plain.headers["set-cookie"].lower().split("; ")


@pytest.mark.slow
def test_another_site_can_sign_nobody_in(front: Front) -> None:
    token = front.token("victim")
    cross = {"origin": "https://elsewhere.example", "sec-fetch-site": "cross-site"}
    answer = front.ask("/sign-in", "POST", FAR, data={"token": token}, headers=cross)
    assert answer.status_code == httpx.codes.FORBIDDEN
    assert "set-cookie" not in answer.headers


@pytest.mark.slow
@pytest.mark.parametrize("query", ["page=0", "sort=size", "health=fine", "search=" + "x" * 101])
def test_what_a_page_can_not_show_it_refuses_in_words(front: Front, query: str) -> None:
    answer = front.ask(f"/?{query}")
    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert answer.headers["content-type"].startswith("text/html")


def figures(
    health: dict[Health, int] | None = None, *, cases: int = 0, alerts: int = 0
) -> FleetFigures:
    counts = dict.fromkeys(Health, 0) | (health or {})
    rest = {"failed": 0, "unanswered": 0, "due_today": 0, "cases": cases, "alerts": alerts}
    lag, evidence = Lag(0, 0, 0, 0), EvidenceFigures(0, 0, 0)
    return FleetFigures(0, sum(counts.values()), counts, lag=lag, evidence=evidence, **rest)


def test_the_health_of_a_fleet_is_a_sentence() -> None:
    assert headline(figures()) == "No holding is on the schedule yet."
    assert headline(figures({Health.SOUND: 1200})) == "All 1,200 holdings are sound."
    new = figures({Health.SOUND: 1, Health.NEW: 2})
    assert headline(new) == "2 of 3 holdings await a first audit."
    bad = {Health.OVERDUE: 1, Health.DAMAGED: 2, Health.SOUND: 7}
    assert headline(figures(bad)) == "3 of 10 holdings need a look: 1 overdue and 2 damaged."


def test_what_is_under_way_is_in_the_sentence_whatever_the_health() -> None:
    sound, bad = {Health.SOUND: 3}, {Health.DAMAGED: 1, Health.SOUND: 2}
    under_way = figures(sound, cases=1, alerts=2)
    assert headline(under_way) == "3 holdings, 1 case under way and 2 open alerts."
    assert headline(figures(bad, cases=1)) == (
        "1 of 3 holdings needs a look: 1 damaged. There is 1 case under way."
    )
    assert headline(figures(bad, alerts=2)) == (
        "1 of 3 holdings needs a look: 1 damaged. There are 2 open alerts."
    )


TAB = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.mark.slow
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_link_on_another_site_opens_any_page_in_a_tab(front: Front, site: str) -> None:
    for path in WITHOUT_SIMULATION:
        answer = front.ask(path, headers={"sec-fetch-site": site} | TAB)
        assert answer.status_code == httpx.codes.OK
        assert answer.headers["cross-origin-opener-policy"] == "same-origin", "nobody else's window"


@pytest.mark.slow
@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
        {"sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
        {"sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
        {"sec-fetch-mode": "navigate", "sec-fetch-dest": "object"},
        {"sec-fetch-mode": "navigate"},
        TAB | {"origin": "https://elsewhere.example"},
        {},
    ],
)
def test_another_site_can_neither_frame_nor_fetch_a_page(
    front: Front, headers: dict[str, str]
) -> None:
    answer = front.ask("/", headers={"sec-fetch-site": "cross-site"} | headers)
    assert answer.status_code == httpx.codes.FORBIDDEN
    assert "holding-0" not in answer.text


@pytest.mark.slow
def test_a_link_on_another_site_opens_nothing_but_pages(front: Front) -> None:
    headers = {"sec-fetch-site": "cross-site"} | TAB
    for path in ("fleet", "evidence/bundle", "evidence/verify", "events", "confidence"):
        refused = front.ask(f"/api/v1/{path}", headers=headers)
        assert refused.status_code == httpx.codes.FORBIDDEN, path
    for path in ("/sign-in", "/sign-out", "/api/v1/holdings/1/audit-now"):
        refused = front.ask(path, "POST", headers=headers, json={})
        assert refused.status_code == httpx.codes.FORBIDDEN, path


@pytest.mark.slow
def test_signing_in_leads_to_the_page_that_was_asked_for(front: Front) -> None:
    token = front.token("aimed")
    for path in ("/", "/holdings/2?before=17", "/?search=a%20b&sort=name"):
        field = f'name="target" value="{path.replace("&", "&amp;")}"'
        assert field in front.ask(path, origin=FAR).text
        wrong = front.ask("/sign-in", "POST", FAR, data={"token": "x", "target": path})
        assert wrong.status_code == httpx.codes.UNAUTHORIZED
        assert field in wrong.text
        taken = front.ask("/sign-in", "POST", FAR, data={"token": token, "target": path})
        assert (taken.status_code, taken.headers["location"]) == (httpx.codes.SEE_OTHER, path)


ELSEWHERE = (
    *(
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "\\/evil.example",
    ),
    *("https://evil.example/", "https:evil.example", "javascript:alert(1)", "data:text/html,x"),
    *("/%2fevil.example", "/%2F%2Fevil.example", "/%5cevil.example", "%2f%2fevil.example"),
    *("/\t/evil.example", "/\n//evil.example", "\r\n/evil", " //evil.example", "/ /evil.example"),
    *(
        "/\x00/evil.example",
        "/./\\evil.example",
        "/..//evil.example",
        "/@evil.example",
        "evil.example",
    ),
    *("/a//evil.example", "/?a=\r\nset-cookie: x=1", "/\N{FULLWIDTH SOLIDUS}evil.example", ""),
    *("/api/v1/evidence/bundle", "/static/app.js", "/sign-out", "/" + "a" * 2000),
)


@pytest.mark.slow
def test_signing_in_leads_nowhere_but_to_our_pages(front: Front) -> None:
    token = front.token("lured")
    for target in ELSEWHERE:
        assert page_path(target) == "/"
        taken = front.ask("/sign-in", "POST", FAR, data={"token": token, "target": target})
        assert (taken.status_code, taken.headers["location"]) == (httpx.codes.SEE_OTHER, "/")


@given(st.text(max_size=60) | st.text("/\\.%25fFcC:@?#\t e", max_size=12).map("/{}".format))
def test_wherever_signing_in_leads_is_on_this_server(target: str) -> None:
    led = urljoin("https://ours.example/sign-in", page_path(target))
    assert urlsplit(led).netloc == "ours.example"


def test_tiny_probabilities_are_written_as_such() -> None:
    shares = {0.0: "0 %", 1e-155: "< 0.01 %", 9.9e-5: "< 0.01 %", 1e-4: "0.01 %", 0.0025: "0.25 %"}
    for share, text in (shares | {0.137: "13.7 %", 1.0: "100 %"}).items():
        assert words.percent(share).replace(words.TIED, " ") == text
    assert words.bound(1e-9).replace(words.TIED, " ") == "0.01 %", "a bound is rounded up"


@pytest.mark.slow
def test_the_worst_first_means_the_bound_on_damage_within_a_health(front: Front) -> None:
    bounds = {1: 0.02, 2: 0.4, 3: None, 4: 0.1, 5: 0.03}
    rows = [
        {"holding": id_, "at": 1, "number": 1, "at_most": at_most, "damaged": 0.5}
        for id_, at_most in bounds.items()
        if at_most is not None
    ]
    with transaction(front.context.writer) as connection:
        connection.execute(delete(confidences))
        connection.execute(insert(confidences), rows)
    listed = front.ask("/api/v1/holdings?limit=50").json()["holdings"]
    order = [
        (list(Health).index(row["health"]), -(row["confidence"] or {"at_most": -1})["at_most"])
        for row in listed
    ]
    assert order == sorted(order)
    assert len({health for health, _ in order}) < len(order), "some share a health"
    worst = front.ask("/api/v1/status").json()["worst"]
    assert [row["holding"] for row in worst] == [row["name"] for row in listed]
    with transaction(front.context.writer) as connection:
        connection.execute(delete(confidences))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "state", "words_"),
    [
        ("localise", "ready", "the damage is being localised"),
        ("repair", "ready", "damaged blocks are being repaired"),
        ("follow-up", "asked", "a follow-up audit is on the schedule"),
    ],
)
def test_a_case_is_shown_as_under_way_until_it_is_over(
    front: Front, step: str, state: str, words_: str
) -> None:
    row = {"holding": 2, "audit": 1, "step": step, "state": state, "began": 1}
    with transaction(front.context.writer) as connection:
        connection.execute(insert(responses), [row | {"detail": "31 blocks are damaged"}])
    for path in ("/", "/alerts", "/holdings/2"):
        text = front.ask(path).text
        assert words_ in text
        assert "31 blocks are damaged" in text
        assert 'class="headline is-bad"' in text
    assert words_ not in front.ask("/holdings/1").text
    with transaction(front.context.writer) as connection:
        connection.execute(delete(responses).where(responses.c.holding == 2))
    for path in ("/", "/alerts", "/holdings/2"):
        assert words_ not in front.ask(path).text


@pytest.mark.slow
def test_a_holding_shows_for_how_many_hours_its_node_was_reachable(front: Front) -> None:
    node = b"\x07" * 20
    row = {"name": "a", "url": "http://seven.example", "node": node, "scheduled": 1}
    row |= {"salt": b"", "sectors": 1, "encrypted": False, "block": 0}
    with transaction(front.context.writer) as connection:
        connection.execute(insert(catalogue), [row])
    try:
        now, contacts = front.context.clock(), Contacts(front.context.writer)
        for hour, present in ((4, True), (3, True), (2, True), (1, False)):
            contacts.record_probe(node, now - hour * HOUR, present=present)
        page = " ".join(front.ask("/holdings/1").text.split())
        assert "<dt>Node reachable</dt>" in page
        assert "2.5 of 3 h observed in 30 days" in page
        shown = front.ask("/api/v1/holdings/1").json()["reachability"]
        assert (shown["reachable_hours"], shown["observed_hours"]) == (2.5, 3.0)
        assert shown["url"] == "http://seven.example"
        assert "Node reachable" not in front.ask("/holdings/2").text, "it has no node here"
        listed = front.ask("/api/v1/status").json()["nodes"]
        assert shown in listed
    finally:
        with transaction(front.context.writer) as connection:
            connection.execute(delete(catalogue))


@pytest.mark.slow
def test_alerts_say_that_not_all_is_well_without_an_alert(front: Front) -> None:
    fleet = front.ask("/api/v1/fleet").json()
    assert not fleet["fine"]
    assert not fleet["alerts"]
    text = front.ask("/alerts").text
    assert "No alert is open, but not all is well." in text
    assert "need a look" in text or "needs a look" in text


@given(st.floats(1e-6, 1e12))
def test_a_scale_has_few_round_marks_and_room_for_all(highest: float) -> None:
    marks = scale(highest)
    assert marks[0] == 0
    assert marks[-1] >= highest * (1 - 1e-9)
    assert 2 <= len(marks) <= 6


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=60))
def test_columns_stand_on_each_other_inside_the_picture(values: list[tuple[int, int]]) -> None:
    low, high = zip(*values, strict=True)
    chart = Columns("t", [str(at) for at in range(len(values))], [_series(low), _series(high)])
    for bar in chart.bars:
        assert bar.x >= 0
        assert bar.x + bar.width <= 100 + 1e-9
        assert bar.y >= -1e-9
        assert bar.y + bar.height <= 100 + 1e-9
    assert sum(bar.height for bar in chart.bars) == pytest.approx(
        sum(100 * total / (scale(max(chart.totals)))[-1] for total in chart.totals)
    )
    assert len(chart.x_ticks) <= LABELS + 1
    assert chart.x_ticks[-1].label == str(len(values) - 1)


@given(st.text(max_size=300))
def test_every_character_of_a_name_can_be_seen(text: str) -> None:
    shown = words.name(text)
    assert len(shown) <= words.LONGEST_NAME
    assert all(character.isprintable() for character in shown)


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(0.001, 1), st.floats(0, 1)), min_size=1, max_size=20))
def test_nothing_beats_what_is_on_the_frontier(places: list[tuple[float, float]]) -> None:
    settings = tuple(_costs(str(at), *place) for at, place in enumerate(places))
    frontier = SweepProgress(len(settings), settings).frontier
    for setting in frontier:
        for other in settings:
            assert not (_gas(other) <= _gas(setting) and _misses(other) < _misses(setting))
    for ceiling in (0.1, 0.5, 1.0):
        notch = notch_of(frontier, ceiling, None)
        kept = [setting for setting in settings if _misses(setting) <= ceiling]
        cheapest = min(map(_gas, kept), default=None)
        assert (None if not notch else _gas(frontier[notch - 1])) == cheapest


def _series(values: tuple[int, ...]) -> Series:
    return Series("tone-0", "a", values)


def _costs(name: str, gas: float, misses: float) -> Costs:
    spent, missed, none = Figure(gas, gas, gas), Figure(misses, misses, misses), Figure(0, 0, 0)
    return Costs(name, spent, none, missed, none)


def _gas(costs: Costs) -> float:
    return costs.gas.value or 0.0


def _misses(costs: Costs) -> float:
    return costs.miss_rate.value or 0.0
