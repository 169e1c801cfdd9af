"""What the API tells is what the operation did."""

import hashlib
from typing import Any

import httpx
import pytest
from sqlalchemy import func, insert, select, update
from tests.support.fits import fitted
from tests.support.live_web import COUNT, DAYS, Served
from tests.support.merkle import includes
from tests.support.simulated_operation import SIGNER
from tests.web.listening import events

from holdfast.control.inference.confidence import Confidences
from holdfast.control.inference.fits import save_fit
from holdfast.control.operator_commands import record_instruction
from holdfast.control.policies.aliases import Author
from holdfast.control.settings.models import ControlSettings
from holdfast.durations import DAY, HOUR
from holdfast.evidence.bundle import Bundle
from holdfast.evidence.checkpoint import open_checkpoint
from holdfast.evidence.leaf import Order
from holdfast.evidence.verification import verify
from holdfast.model.scenario import PAPER
from holdfast.storage.database import transaction
from holdfast.storage.home_schema import catalogue
from holdfast.storage.schema import audits, holdings


def got(served: Served, path: str, **query: Any) -> Any:
    answer = served.client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def all_pages(served: Served, path: str, rows: str, mark: str, **query: Any) -> list[Any]:
    """Return all rows of a list, page by page."""
    found: list[Any] = []
    follows: dict[str, Any] = {}
    while True:
        page = got(served, path, **query, **follows)
        found += page[rows]
        if page["next"] is None:
            return found
        follows = {mark: page["next"]}


def audit_count(served: Served) -> int:
    with transaction(served.engine) as connection:
        return connection.execute(select(func.count()).select_from(audits)).scalar_one()


@pytest.mark.slow
def test_the_fleet_is_told_at_a_glance(served: Served) -> None:
    fleet = got(served, "/fleet", days=DAYS + 1)
    assert fleet["holdings"] == sum(fleet["health"].values()) == COUNT
    assert sum(day["audits"] for day in fleet["days"]) == audit_count(served)
    assert sum(day["modelled_gas"] for day in fleet["days"]) > 21_000 * audit_count(served)
    assert [day["start"] % DAY for day in fleet["days"]] == [0] * (DAYS + 1)
    assert fleet["policies"]["champion"]["name"] == "drqn-cmdp-plus"
    assert fleet["evidence"]["leaves"] == audit_count(served) + 1, "the first policy has a leaf"


@pytest.mark.slow
def test_the_fleet_is_fine_where_the_status_is(changing: Served) -> None:
    engine = changing.operation.engine
    for outcome, fine in (("passed", True), ("failed", False), ("timed-out", False)):
        with transaction(engine) as connection:
            connection.execute(update(holdings).values(outcome="passed"))
            one = update(holdings).where(holdings.c.id == 1)
            connection.execute(one.values(outcome=outcome))
        status, fleet = got(changing, "/status"), got(changing, "/fleet")
        assert (status["fine"], fleet["fine"]) == (fine, fine), outcome
        assert status["damaged"] == fleet["health"]["damaged"] == (outcome == "failed")
        assert status["silent"] == fleet["health"]["silent"] == (outcome == "timed-out")


@pytest.mark.slow
def test_a_day_that_is_over_is_told_as_it_was_and_today_as_it_is(changing: Served) -> None:
    before = got(changing, "/cost", days=10)
    changing.operation.until(changing.clock.now + 14 * DAY)
    after = got(changing, "/cost", days=24)
    assert after[:9] == before[:9]
    days = got(changing, "/cost", days=40)
    assert sum(day["audits"] for day in days) == audit_count(changing) > 2


@pytest.mark.slow
def test_holdings_are_listed_the_worst_first_and_page_by_page(served: Served) -> None:
    first, second = (got(served, "/holdings", limit=4, page=page) for page in (1, 2))
    assert (first["total"], first["pages"], len(second["holdings"])) == (COUNT, 2, 2)
    names = [each["name"] for each in got(served, "/holdings", sort="name")["holdings"]]
    assert names == sorted(names)
    found = got(served, "/holdings", search=names[2][-3:])["holdings"]
    assert names[2] in [each["name"] for each in found]
    assert got(served, "/holdings", health="quarantined")["total"] == 0
    assert got(served, "/holdings", search="%")["total"] == 0, "a sign of the search is a sign"


def test_a_holding_tells_its_decision_its_timeline_and_what_is_believed(served: Served) -> None:
    row = got(served, "/holdings")["holdings"][0]
    detail = got(served, f"/holdings/{row['id']}")
    assert detail["holding"] == row
    assert set(detail["signals"]) >= {"reputation", "latency"}
    assert detail["chosen"]["ratio"] <= 0.2
    leaves = all_pages(served, f"/holdings/{row['id']}/timeline", "leaves", "before", limit=3)
    assert [each["content"]["number"] for each in leaves] == list(range(row["audits"], 0, -1))
    assert all("chose" in " ".join(each["story"]) for each in leaves)
    belief = got(served, f"/holdings/{row['id']}/belief")
    assert [each["number"] for each in belief["audits"]] == list(range(1, row["audits"] + 1))
    assert all(0 <= each["malice"] <= 1 for each in belief["audits"])
    assert served.client.get("/holdings/999/belief").status_code == 404


def test_failures_raise_the_belief_of_malice(served: Served) -> None:
    failed = got(served, "/audits", outcome="failed")["audits"][0]
    belief = got(served, f"/holdings/{failed['holding']}/belief")
    assert max(each["malice"] for each in belief["audits"]) > belief["prior"]


@pytest.mark.slow
def test_lists_go_on_where_a_page_ended(served: Served) -> None:
    found = all_pages(served, "/audits", "audits", "after", limit=4)
    ends = [(each["ended"], each["id"]) for each in found]
    assert ends == sorted(ends, reverse=True)
    assert len(set(ends)) == len(ends) == audit_count(served)


@pytest.mark.parametrize(
    "query",
    [
        {"holding": 2},
        {"outcome": "failed"},
        {"overridden": True},
        {"holding": 1, "outcome": "passed"},
        {"since": "middle"},
        {"until": "middle", "outcome": "passed"},
    ],
)
def test_filters_of_audits_are_the_servers(query: dict[str, Any], served: Served) -> None:
    middle = served.clock.now - DAYS * DAY // 2
    query = {name: middle if value == "middle" else value for name, value in query.items()}

    def wanted(row: dict[str, Any]) -> bool:
        return bool(
            row["holding"] == query.get("holding", row["holding"])
            and row["outcome"] == query.get("outcome", row["outcome"])
            and bool(row["overrides"]) >= query.get("overridden", False)
            and query.get("since", 0) <= row["ended"] < query.get("until", 2**53)
        )

    everything = all_pages(served, "/audits", "audits", "after", limit=200)
    found = all_pages(served, "/audits", "audits", "after", limit=3, **query)
    assert found == [row for row in everything if wanted(row)]


@pytest.mark.slow
def test_each_leaf_is_proven_to_be_in_a_signed_head(changing: Served) -> None:
    with transaction(changing.engine) as connection:
        for number in range(700):
            author = Author("a test", number)
            record_instruction(connection, Order.ACKNOWLEDGE, f"alert {number}", author)
    changing.operation.sequencer.sequence()
    size = got(changing, "/evidence")["size"]
    for place in (0, 1, 255, 256, 300, 511, 512, size - 2, size - 1):
        told = got(changing, f"/evidence/leaves/{place}")
        head = open_checkpoint(told["head"]["note"].encode(), SIGNER.verifier)
        leaf = hashlib.sha256(b"\0" + told["text"].encode()).digest()
        assert leaf.hex() == told["hash"]
        path = [bytes.fromhex(each) for each in told["path"]]
        assert includes(head.root, head.size, leaf, place, path), place
    assert changing.client.get(f"/evidence/leaves/{size}").status_code == 404


def test_the_evidence_is_browsed_handed_on_and_verified(served: Served) -> None:
    summary = got(served, "/evidence")
    leaves = all_pages(served, "/evidence/leaves", "leaves", "before", limit=7)
    assert [each["place"] for each in leaves] == list(range(summary["size"] - 1, -1, -1))
    heads = all_pages(served, "/evidence/heads", "heads", "before", limit=2)
    assert heads[0] == summary["head"]
    for proofs in (True, False):
        bundle = served.folder / f"{proofs}.bundle"
        answer = served.client.get("/evidence/bundle", params={"proofs": proofs})
        bundle.write_bytes(answer.content)
        report = verify(Bundle.open(bundle), SIGNER.verifier)
        assert report.findings == ()
        assert (report.proofs > 0) == proofs


@pytest.mark.slow
def test_the_evidence_is_verified_while_one_watches(served: Served) -> None:
    told = list(events(served.client, "/evidence/verify"))
    assert told[0].name == "progress"
    assert told[-1].name == "report"
    assert told[-1].data["fine"]
    assert told[-1].data["leaves"] == got(served, "/evidence")["size"]


@pytest.mark.slow
def test_a_holding_names_its_node(changing: Served) -> None:
    assert got(changing, "/holdings/1")["holding"]["node"] is None, "the catalogue has none"
    row: dict[str, Any] = {
        "name": "attic",
        "url": "https://node.example",
        "node": b"\x01" * 20,
        "salt": b"",
    }
    row |= {"sectors": 1, "encrypted": False, "block": 0, "scheduled": 1}
    with transaction(changing.engine) as connection:
        connection.execute(insert(catalogue), [row])
    node = {"url": "https://node.example", "address": f"0x{'01' * 20}"}
    nodes = {each["id"]: each["node"] for each in got(changing, "/holdings")["holdings"]}
    assert nodes == {1: node, 2: None}
    assert got(changing, "/holdings/1")["holding"]["node"] == node


@pytest.mark.slow
def test_a_holding_tells_what_may_be_damaged_and_as_of_when(changing: Served) -> None:
    assert [row["confidence"] for row in got(changing, "/holdings")["holdings"]] == [None] * 2
    assert changing.client.get("/confidence").status_code == 404
    assert got(changing, "/status")["confidence"] is None
    save_fit(changing.engine, fitted(0.1), changing.clock.now)
    settings = ControlSettings(scenario=PAPER)
    Confidences(changing.engine, settings).refresh(changing.clock.now)
    rows = got(changing, "/holdings", sort="confidence")["holdings"]
    inferred = got(changing, "/confidence")
    assert inferred["at"] == changing.clock.now
    assert inferred["waiting"] == []
    assert got(changing, "/status")["confidence"] == {
        name: inferred[name] for name in ("at", "miss_rate", "detections", "fleet_at_most")
    }
    assert inferred["holdings"] == [
        {
            "holding": row["name"],
            "at_most": row["confidence"]["at_most"],
            "damaged": row["confidence"]["damaged"],
            "at": changing.clock.now,
        }
        for row in rows
    ]
    page = httpx.get(f"{changing.url}/holdings/{rows[0]['id']}").text
    assert "of its blocks are damaged, at 95 %, as of" in page


@pytest.mark.slow
def test_the_plan_tells_its_frontier_and_what_keeps_a_limit(changing: Served) -> None:
    tried = got(changing, "/plan")
    assert not tried["ready"], "the settings are tried from now on"
    assert tried["settings"] > len(tried["tried"])
    assert (tried["frontier"], tried["chosen"]) == ([], None)
    assert changing.client.get("/plan", params={"ceiling": 2}).status_code == 400


@pytest.mark.slow
def test_what_is_late_comes_first(changing: Served) -> None:
    changing.clock.now += 20 * DAY + HOUR
    found = got(changing, "/status", limit=1)
    assert (found["holdings"], found["overdue"], len(found["worst"])) == (2, 2, 1)
    assert got(changing, "/holdings", health="overdue")["total"] == 2
    assert got(changing, "/fleet")["waiting"] == 2
