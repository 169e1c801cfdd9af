"""What views load is found by indices: no query reads all audits or all leaves."""

import httpx
import pytest
from tests.support.live_web import Served
from tests.web.remote import Door

from holdfast.bench.query_plans import record_statements, scanned
from holdfast.bench.web import SIMULATED, views
from holdfast.control.settings.models import ControlSettings
from holdfast.model.scenario import PAPER
from holdfast.web.server import open_context


@pytest.mark.slow
def test_every_view_finds_its_first_content_by_indices(served: Served) -> None:
    address = served.engine.url.render_as_string(hide_password=False)
    place = address.replace("+psycopg", "").removeprefix("sqlite:///")
    place += "&schema=public" if "://" in place else ""
    settings = ControlSettings(database=place, scenario=PAPER)
    with open_context(served.folder, settings, clock=served.clock) as context:
        door = Door(context)
        found = [path for name, path in views(4, 30).items() if name not in SIMULATED]
        found.remove("policies/challenger/shadow")  # there is none here
        for path in (*found, "audits?since=1&outcome=passed", "holdings?sort=confidence"):
            with record_statements(context.reader) as said:
                answer = door.ask("GET", f"/{path}")
            assert answer.status_code == httpx.codes.OK, answer.text
            assert said
            with context.reader.begin() as connection:
                for each in said:
                    assert scanned(connection, each, small=True) == [], (path, each)
