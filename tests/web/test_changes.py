"""What an operator orders is done, and is in the evidence with who ordered it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from tests.support.live_web import Served, serving
from tests.web.changes import row, told

from holdfast.control.incidents.alerts import Alerts
from holdfast.control.policies.aliases import Author, challenge, read_aliases
from holdfast.control.policies.versions import Registry
from holdfast.control.scheduling.guardrails import Override
from holdfast.durations import DAY, HOUR
from holdfast.errors import MalformedError
from holdfast.evidence import leaf
from holdfast.model.scenario import PAPER
from holdfast.owner import Catalogue, HoldingRecord
from holdfast.storage.database import transaction
from holdfast.storage.schema import NEVER, holdings
from holdfast.web import tokens
from holdfast.web.tokens import Role


def posted(served: Served, path: str, **order: Any) -> Any:
    answer = served.client.post(path, json=order)
    assert answer.status_code == 200, answer.text
    return answer.json()["done"]


def refused(served: Served, path: str, status: int, **order: Any) -> str:
    answer = served.client.post(path, json=order)
    assert answer.status_code == status, answer.text
    message: str = answer.json()["error"]["message"]
    return message


@pytest.mark.slow
def test_an_audit_that_is_ordered_is_due_at_once(changing: Served) -> None:
    assert row(changing, 1).due > changing.clock.now
    assert "is due now" in posted(changing, "/holdings/1/audit-now", reason="the disk was moved")
    assert row(changing, 1).due == changing.clock.now
    assert told(changing)[-1] == leaf.Instruction(
        changing.clock.now,
        leaf.Order.AUDIT,
        "holding-000000",
        "this machine",
        "the disk was moved",
    )
    before = row(changing, 1).number
    changing.operation.until(changing.clock.now + HOUR)
    assert row(changing, 1).number == before + 1
    audit = [each for each in told(changing) if isinstance(each, leaf.Audit)][-1]
    assert "asked" in [each.rail for each in audit.decision.overrides]


@pytest.mark.slow
def test_what_is_quarantined_is_released_and_told_by_name(changing: Served) -> None:
    with transaction(changing.engine) as connection:
        apart = {"quarantined": True, "due": NEVER}
        connection.execute(update(holdings).where(holdings.c.id == 2).values(apart))
    assert "release it first" in refused(changing, "/holdings/2/audit-now", 409)
    author = Author("a test", changing.clock.now)
    token = tokens.create(changing.engine, "ada", Role.OPERATOR, author)
    bearer = {"authorization": f"Bearer {token}"}
    answer = changing.client.post("/holdings/2/release", json={}, headers=bearer)
    assert answer.status_code == 200
    assert not row(changing, 2).quarantined
    assert row(changing, 2).overrides & Override.ASKED
    created, response, instruction = told(changing)[-3:]
    assert isinstance(created, leaf.Instruction)
    assert created.order is leaf.Order.CREATE_TOKEN
    assert isinstance(response, leaf.Response)
    assert response.step is leaf.Step.RELEASED
    assert isinstance(instruction, leaf.Instruction)
    assert (instruction.order, instruction.by) == (leaf.Order.RELEASE, "ada")
    assert "not quarantined" in refused(changing, "/holdings/2/release", 409)
    assert refused(changing, "/holdings/77/release", 404)


@pytest.mark.slow
def test_a_holding_is_renamed_and_removed(changing: Served) -> None:
    catalogue = Catalogue(changing.engine)
    node = HoldingRecord("holding-000000", "http://127.0.0.1:9", bytes(20), None, b"s", 2, False)
    catalogue.add_holding(node)
    assert refused(changing, "/holdings/1/rename", 400, name="no name")
    said = posted(changing, "/holdings/1/rename", name="loft", reason="it moved")
    assert said == "holding-000000 is called loft now"
    assert row(changing, 1).name == "loft"
    assert told(changing)[-1] == leaf.Instruction(
        changing.clock.now,
        leaf.Order.RENAME,
        "holding-000000 to loft",
        "this machine",
        "it moved",
    )
    url = "http://127.0.0.1:10"
    assert "can't reach the node" in refused(changing, "/holdings/1/set-url", 503, url=url)
    said = posted(changing, "/holdings/1/remove", keep_files=True)
    assert said == "loft is removed; its files stay on the node"
    assert "'loft' was removed" in refused(changing, "/holdings/1/remove", 404)
    assert changing.client.get("/audits?holding=1").json()["audits"][0]["name"] == "loft"
    response, instruction = told(changing)[-2:]
    assert isinstance(response, leaf.Response)
    assert response.step is leaf.Step.REMOVED
    assert isinstance(instruction, leaf.Instruction)
    assert instruction.order is leaf.Order.REMOVE
    changing.operation.until(changing.clock.now + DAY)
    assert told(changing)


@pytest.mark.slow
def test_an_alert_is_acknowledged_once(changing: Served) -> None:
    Alerts(changing.engine, changing.clock).raise_alert("node-offline", "attic", "no answer")
    (alert,) = changing.client.get("/alerts").json()["alerts"]
    assert alert["acknowledged"] is None
    posted(changing, f"/alerts/{alert['id']}/acknowledge", reason="on my way")
    (seen,) = changing.client.get("/alerts").json()["alerts"]
    assert (seen["acknowledged"], seen["acknowledged_by"]) == (changing.clock.now, "this machine")
    assert "already" in refused(changing, f"/alerts/{alert['id']}/acknowledge", 409)
    assert refused(changing, "/alerts/99/acknowledge", 404)
    last = told(changing)[-1]
    assert isinstance(last, leaf.Instruction)
    assert last.subject == f"alert {alert['id']}: node-offline: attic"


@pytest.mark.slow
def test_an_order_that_can_not_be_recorded_is_not_carried_out(
    changing: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = row(changing, 1)

    def fail(_leaf: leaf.Leaf) -> bytes:
        raise MalformedError("no such leaf")

    monkeypatch.setattr("holdfast.evidence.leaf.encode", fail)
    assert changing.client.post("/holdings/1/audit-now", json={}).status_code == 409
    assert row(changing, 1) == before


@pytest.fixture
def rivals(tmp_path: Path) -> Iterator[Served]:
    """Yield an API whose operation has a challenger in shadow."""
    with serving(tmp_path, str(tmp_path / "holdfast.db"), count=2, days=1) as running:
        author = Author("a test", running.clock.now)
        with transaction(running.engine) as connection:
            known = read_aliases(connection)
        served = Registry(running.engine).register("fixed-high", PAPER, author.at)
        challenge(running.engine, known, served.version, author)
        running.operation.until(running.clock.now + 30 * DAY)
        yield running


@pytest.mark.slow
def test_policies_are_told_and_the_challenger_beside_the_champion(rivals: Served) -> None:
    found = rivals.client.get("/policies").json()
    assert found["aliases"]["champion"]["name"] == "drqn-cmdp-plus"
    assert found["aliases"]["challenger"]["name"] == "fixed-high"
    assert rivals.client.get("/policies/history").json()[0]["change"] == "named"
    beside = rivals.client.get("/policies/challenger/shadow").json()["comparison"]
    assert beside["decisions"] > 2
    assert rivals.client.get("/policies/ffff/shadow").status_code == 404


@pytest.mark.slow
def test_nobody_is_promoted_unjudged_but_by_force_with_a_reason(rivals: Served) -> None:
    assert "judged" in refused(rivals, "/policies/challenger/promote", 409)
    assert "reason" in refused(rivals, "/policies/challenger/promote", 400, force=True)
    posted(rivals, "/policies/challenger/promote", force=True, reason="a drill")
    assert rivals.client.get("/policies").json()["aliases"]["champion"]["name"] == "fixed-high"
    change = told(rivals)[-1]
    assert isinstance(change, leaf.PolicyChange)
    assert (change.by, change.reason, change.forced) == ("this machine", "a drill", True)
    posted(rivals, "/policies/rollback", reason="the drill is over")
    assert rivals.client.get("/policies").json()["aliases"]["champion"]["name"] != "fixed-high"
    change = told(rivals)[-1]
    assert isinstance(change, leaf.PolicyChange)
    assert change.change is leaf.Change.ROLLED_BACK
    assert refused(rivals, "/policies/rollback", 409)
