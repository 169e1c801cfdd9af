"""What views load is found by indices: no query reads all audits or all leaves."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from sqlalchemy import Connection, Engine, event, text
from tests.web.conftest import Served
from tests.web.test_door import Door

from holdfast.bench.web import views
from holdfast.control.settings import ControlSettings
from holdfast.model.scenario import PAPER
from holdfast.web.serving import opened_desk

LARGE = ("audits", "leaves")
Said = tuple[str, Any]


@contextmanager
def overheard(engine: Engine) -> Iterator[list[Said]]:
    """Yield the queries that are said to a database meanwhile."""
    said: list[Said] = []

    def hear(_1: object, _2: object, statement: str, parameters: Any, *_3: object) -> None:
        if statement.startswith("SELECT"):
            said.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", hear)
    yield said
    event.remove(engine, "before_cursor_execute", hear)


def scanned(connection: Connection, said: Said) -> list[str]:
    """Return the large tables that a query reads as a whole, or sorts."""
    statement, parameters = said
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        steps = [row.detail for row in rows]
        whole = [step for step in steps if re.match(rf"SCAN ({'|'.join(LARGE)})\b", step)]
        # An index that has all that is asked for, in the order that is asked for, is no scan.
        whole = [step for step in whole if "USING" not in step or "LIMIT" not in statement]
        return [*whole, *(step for step in steps if _sorts(step) and _of_large(steps))]
    connection.execute(text("SET LOCAL enable_seqscan = off"))  # as small tables are read so
    rows = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
    steps = [row[0] for row in rows]
    return [step for step in steps if re.search(rf"Seq Scan on ({'|'.join(LARGE)})\b", step)]


def _sorts(step: str) -> bool:
    return step == "USE TEMP B-TREE FOR ORDER BY"


def _of_large(steps: list[str]) -> bool:
    """Return whether rows of a large table are what a query begins with."""
    return any(re.match(rf"(SCAN|SEARCH) ({'|'.join(LARGE)})\b", step) for step in steps[:1])


def test_every_view_finds_its_first_content_by_indices(served: Served) -> None:
    address = served.engine.url.render_as_string(hide_password=False)
    place = address.replace("+psycopg", "").removeprefix("sqlite:///")
    settings = ControlSettings(database=place, scenario=PAPER)
    with opened_desk(served.folder, settings, clock=served.clock) as desk:
        door = Door(desk)
        for path in (*views(4, 30).values(), "audits?since=1&outcome=passed", "status", "policies"):
            with overheard(desk.reader) as said:
                answer = door.ask("GET", f"/{path}")
            assert answer.status_code == httpx.codes.OK, answer.text
            assert said
            with desk.reader.begin() as connection:
                for each in said:
                    assert scanned(connection, each) == [], (path, each)
