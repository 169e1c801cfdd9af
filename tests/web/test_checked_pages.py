"""Pages and API of storage that tools check: its kind, its unit, its coverage, and no node."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from prometheus_client import generate_latest
from tests.support.checked_rows import CheckedRows, add_checked, packs
from tests.support.live_web import Served, serving
from tests.support.sample_checks import ATTIC, passed_check
from tests.support.simulated_operation import Operation

from holdfast.control.evidence.leaves import record_leaf
from holdfast.control.prometheus import Metrics
from holdfast.durations import DAY, HOUR
from holdfast.model.damage_bound import most_damaged
from holdfast.storage.database import transaction

pytestmark = pytest.mark.slow
NAMES = [group.name for group in packs(100)]


@pytest.fixture
def checked() -> list[CheckedRows]:
    return []


@pytest.fixture
def changing(tmp_path: Path, checked: list[CheckedRows]) -> Iterator[Served]:
    """Yield an API over checks of past days, which it sums once and keeps."""
    with serving(
        tmp_path,
        str(tmp_path / "holdfast.db"),
        count=2,
        days=20,
        prepare=lambda work: checked.append(add_attic(work)),
    ) as running:
        yield running


@pytest.fixture
def attic(changing: Served, checked: list[CheckedRows]) -> CheckedRows:  # noqa: ARG001
    return checked[0]


def add_attic(work: Operation) -> CheckedRows:
    now = work.clock.now
    rows = add_checked(work.engine, "attic", now - 9 * DAY, verify_within=30 * DAY)
    rows.list_groups(packs(100), now - 9 * DAY)
    rows.check(now - 8 * DAY, NAMES[:40], read_bytes=40_000, lasted=3000)
    rows.check(now - HOUR, NAMES[40:80], read_bytes=40_000, lasted=3000)
    return rows


def test_the_api_says_what_was_read_and_what_may_be_damaged(
    changing: Served, attic: CheckedRows
) -> None:
    client = changing.client
    listed = {row["name"]: row for row in client.get("/holdings").json()["holdings"]}
    checked = listed.pop("attic")["checked"]
    assert (checked["kind"], checked["unit"], checked["address"]) == (
        *("restic", "pack", "/srv/attic"),
    )
    assert checked["verified"] == {"1": 0.4, "7": 0.4, "30": 0.8}
    assert checked["bound"]["at_most"] == most_damaged(100, 80, 0)
    assert {row["checked"] for row in listed.values()} == {None}
    assert client.get(f"/holdings/{attic.id}").json()["holding"]["checked"] == checked
    assert client.get("/coverage").json() == [checked]
    assert client.get(f"/holdings/{attic.id}/belief").status_code == 404
    (forecast,) = client.get("/cost/checks").json()
    assert forecast["to_keep"]["units"] > 0
    today = client.get("/cost", params={"days": 1}).json()[-1]
    assert today["checks"].keys() == {"checks", "read_bytes", "requests", "lasted"}
    audits = client.get("/audits", params={"holding": attic.id}).json()["audits"]
    assert [(row["unit"], row["checked"], row["lasted"]) for row in audits] == [
        ("pack", True, 3000)
    ] * 2


def test_the_pages_show_packs_and_no_node_and_no_belief(
    changing: Served, attic: CheckedRows
) -> None:
    bound = most_damaged(100, 80, 0)
    with httpx.Client(base_url=changing.url, timeout=30) as client:
        fleet, holding, cost = (
            client.get(path) for path in ("/", f"/holdings/{attic.id}", "/cost")
        )
    assert {page.status_code for page in (fleet, holding, cost)} == {200}
    assert "restic, <bdi>/srv/attic</bdi>" in fleet.text
    assert f"≤ {bound} % of the packs damaged" in fleet.text
    assert "100 packs" in fleet.text
    assert f"At most {bound} % of the packs are damaged, at 95 %" in holding.text
    assert "Every pack within 30 days: kept." in holding.text
    assert "Belief of malice" not in holding.text
    assert "78.1 KiB" in cost.text


def test_prometheus_has_a_gauge_for_each_share(changing: Served, attic: CheckedRows) -> None:
    text = generate_latest(Metrics(changing.engine, changing.clock).registry).decode()
    assert 'holdfast_check_verified_ratio{days="7",holding="attic"} 0.4' in text
    assert 'holdfast_check_units{holding="attic"} 100.0' in text
    share = most_damaged(100, 80, 0) / 100
    assert f'holdfast_check_damaged_ratio_at_most{{holding="{attic.name}"}} {share}' in text
    assert 'holdfast_check_promise_seconds{holding="attic"} 2.592e+06' in text


def test_a_checked_holding_is_renamed_and_removed_by_the_api(
    changing: Served, attic: CheckedRows
) -> None:
    with transaction(changing.engine) as connection:
        holding = replace(ATTIC, id=attic.id)
        record_leaf(connection, passed_check(1, changing.clock.now, holding), attic.id)
    renamed = changing.client.post(f"/holdings/{attic.id}/rename", json={"name": "loft"})
    assert renamed.status_code == 200, renamed.text
    removed = changing.client.post(f"/holdings/{attic.id}/remove", json={})
    assert removed.status_code == 200, removed.text
    assert removed.json()["done"] == "loft is removed; what it was about stays at /srv/attic"
    assert changing.client.get("/coverage").json() == []
