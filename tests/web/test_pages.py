"""The pages without a browser: their figures, their words, their queries, and who may see them."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, event, insert
from tests.support.live_web import Served
from tests.web.remote import FAR, NEAR

from holdfast.bench.query_plans import record_statements, scanned
from holdfast.bench.web import SIMULATED, pages
from holdfast.control.policies.aliases import Author
from holdfast.control.queries.fleet import Health
from holdfast.control.settings.models import ControlSettings
from holdfast.model.estimate import Figure
from holdfast.model.scenario import PAPER
from holdfast.storage.database import transaction
from holdfast.storage.schema import responses
from holdfast.web import tokens
from holdfast.web.app import build_app
from holdfast.web.context import Context
from holdfast.web.pages import words
from holdfast.web.pages.chart import LABELS, Columns, Series, scale
from holdfast.web.pages.fleet import headline
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
        with record_statements(front.context.reader) as said:
            answer = front.ask(path)
        assert answer.status_code == httpx.codes.OK, answer.text
        with front.context.reader.begin() as connection:
            for each in said:
                assert scanned(connection, each, small=True) == [], (path, each)


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


def test_the_health_of_a_fleet_is_a_sentence() -> None:
    none = dict.fromkeys(Health, 0)
    assert headline(none) == "No holding is on the schedule yet."
    assert headline(none | {Health.SOUND: 1200}) == "All 1,200 holdings are sound."
    assert headline(none | {Health.SOUND: 1, Health.NEW: 2}) == (
        "2 of 3 holdings await a first audit."
    )
    bad = {Health.OVERDUE: 1, Health.DAMAGED: 2, Health.SOUND: 7}
    assert headline(none | bad) == "3 of 10 holdings need a look: 1 overdue and 2 damaged."
    repaired = none | {Health.SOUND: 3}
    assert headline(repaired, cases=1, alerts=2) == "3 holdings, 1 under repair and 2 open alerts."


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
    assert all(each.isprintable() for each in shown)


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(0.001, 1), st.floats(0, 1)), min_size=1, max_size=20))
def test_nothing_beats_what_is_on_the_frontier(places: list[tuple[float, float]]) -> None:
    settings = tuple(_costs(str(at), *place) for at, place in enumerate(places))
    frontier = SweepProgress(len(settings), settings).frontier
    for each in frontier:
        for other in settings:
            assert not (_gas(other) <= _gas(each) and _misses(other) < _misses(each))
    for ceiling in (0.1, 0.5, 1.0):
        notch = notch_of(frontier, ceiling, None)
        cheapest = min((_gas(each) for each in settings if _misses(each) <= ceiling), default=None)
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
