"""What kill -9 leaves behind, whenever it comes: nothing lost, doubled or half written."""

import random
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from tests.support.database import run_sql
from tests.support.owner_env import World, killed_at, lines_of
from tests.support.small_node import SEGMENT_BYTES

import holdfast
from holdfast.control.audit_now import audit_holdings
from holdfast.control.audits.types import AuditResult
from holdfast.control.service import milliseconds
from holdfast.errors import InputError
from holdfast.evidence.leaf import Outcome
from holdfast.ledger.interface import Opened, Passed
from holdfast.owner import Replica, download, get, remove

SOURCE = Path(holdfast.__file__).parent
CONTENT = random.Random(1).randbytes(2 * SEGMENT_BYTES + 100)
pytestmark = pytest.mark.slow

MOMENTS = 24  # at which each command is killed, evenly over all its lines


def assert_agreement(world: World, holding: str, versions: dict[str, int]) -> None:
    """Check that home and node agree on these files, and that nothing else is left anywhere."""
    with world.home.changing(holding) as place:
        files = place.catalogue.files(holding)
        assert {file.name: file.version for file in files} == versions
        assert not place.catalogue.intents(holding)
        assert not list((place.folder / "tags").iterdir())
        uploads = {segment.parent for segment in world.two.stored(place, "tags")}
        assert len(uploads) == len(files)


@pytest.mark.slow
def test_a_killed_put_goes_on_where_it_stopped(world: World) -> None:
    path = world.file(CONTENT)
    lines = lines_of(SOURCE, lambda: world.put("secret", path, "measured"))
    versions = {"measured": 1}
    for moment in range(1, MOMENTS + 1):
        name = f"file {moment}"
        line = lines * moment // MOMENTS
        killed_at(line, SOURCE, partial(world.put, "secret", path, name))
        world.put("secret", path, name)
        versions[name] = 1
    assert_agreement(world, "secret", versions)


@pytest.mark.slow
def test_a_killed_get_goes_on_and_leaves_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "RUN_BYTES", 2 * SEGMENT_BYTES)
    content = random.Random(2).randbytes(10 * SEGMENT_BYTES)
    world.put("secret", world.file(content))
    folder = world.folder / "back"
    folder.mkdir()

    def get_back(name: str) -> int:
        with world.home.holding("secret") as place:
            return get(Replica(place, place.file("file")), [], folder / name).kept

    lines = lines_of(SOURCE, lambda: get_back("measured"))
    kept = set()
    for moment in range(1, MOMENTS + 1):
        name = f"file {moment}"
        killed_at(lines * moment // MOMENTS, SOURCE, partial(get_back, name))
        if not (folder / name).exists():
            kept.add(get_back(name))
        assert (folder / name).read_bytes() == content
    assert len(kept) > 2, "more was kept of those that were killed later"
    assert {path.name for path in folder.iterdir()} <= {
        "measured",
        *(f"file {moment}" for moment in range(1, MOMENTS + 1)),
    }


@pytest.mark.slow
def test_a_put_killed_before_other_content_spends_a_version_at_most(world: World) -> None:
    path = world.file(CONTENT)
    lines = lines_of(SOURCE, lambda: world.put("secret", path, "measured"))
    for moment in range(1, MOMENTS + 1):
        name = f"file {moment}"
        line = lines * moment // MOMENTS
        path.write_bytes(CONTENT)
        killed_at(line, SOURCE, partial(world.put, "secret", path, name))
        path.write_bytes(CONTENT[::-1])
        stored = world.put("secret", path, name).file
        assert stored.version <= 2
    with world.home.changing("secret") as place:
        files = place.catalogue.files("secret")
        versions = {file.name: file.version for file in files}
        assert all(len(file.tags_sha256) == 32 for file in files)
        assert len({file.nonce for file in files}) == len(files)
    assert {1, 2} <= set(versions.values()), "it was killed before and after the intent"
    assert_agreement(world, "secret", versions)


@pytest.mark.slow(seconds=10)
def test_a_killed_removal_is_done_or_not_begun(world: World) -> None:
    path = world.file(b"something small")

    def remove_it(name: str) -> None:
        with world.home.changing("secret") as place:
            remove(place, name)

    world.put("secret", path, "measured")
    for moment in range(1, MOMENTS + 1):  # a node takes nothing in the second of a removal
        world.put("secret", path, f"file {moment}")
    lines = lines_of(SOURCE, lambda: remove_it("measured"))
    left = 0
    for moment in range(1, MOMENTS + 1):
        name = f"file {moment}"
        killed_at(lines * moment // MOMENTS, SOURCE, partial(remove_it, name))
        with world.home.changing("secret") as place:
            if place.catalogue.file("secret", name):
                remove(place, name)
                left += 1
    assert 0 < left < MOMENTS, "it was killed before and after the removal"
    assert_agreement(world, "secret", {})


@pytest.mark.slow
def test_a_killed_audit_is_brought_to_one_verdict(world: World) -> None:
    world.put("plain", world.file(CONTENT))
    resumed: list[AuditResult] = []

    def audit() -> list[AuditResult]:
        return audit_holdings(
            world.home, ["plain"], lambda _: 20, deadline_seconds=60, on_resumed=resumed.append
        )

    audit()  # which schedules the holding
    lines = lines_of(SOURCE, audit)
    for moment in range(1, MOMENTS + 1):
        killed_at(lines * moment // MOMENTS, SOURCE, audit)
        left_open = run_sql(world.home.address, "SELECT due FROM holdings WHERE flight IS NOT NULL")
        assert all(due <= milliseconds() for (due,) in left_open), "a service resumes it at once"
        run_sql(world.home.address, "UPDATE holdings SET lease = 0")  # it ends in two minutes
        (result,) = audit()
        assert result.outcome is Outcome.PASSED
    assert 0 < len(resumed) < MOMENTS, "it was killed before, in the middle of and after the audit"
    assert all(result.outcome is Outcome.PASSED for result in resumed)
    recorded = run_sql(world.home.address, "SELECT count(*) FROM audits WHERE outcome = 'passed'")
    with world.home.ledger(2) as ledger:
        events = [event for receipt in ledger.receipts() for event in receipt.events]
    opened = [event.challenge for event in events if isinstance(event, Opened)]
    passed = [event.challenge for event in events if isinstance(event, Passed)]
    assert Counter(opened) == Counter(passed)
    assert set(Counter(opened).values()) == {1}
    assert recorded == [(len(opened),)], "the evidence has each of them"


@pytest.mark.slow
def test_a_killed_registration_is_found_again(world: World) -> None:
    def add(name: str) -> None:
        world.add(name, world.one, encrypted=False, sectors=2)

    lines = lines_of(SOURCE, lambda: add("measured"))
    for moment in range(1, MOMENTS // 2 + 1):
        name = f"holding-{moment}"
        killed_at(2 * lines * moment // MOMENTS, SOURCE, partial(add, name))
        with suppress(InputError):  # it was killed after all was done
            add(name)
    with world.home.catalogue() as catalogue:
        numbers = {r.number for r in catalogue.holdings() if r.sectors == 2}
    assert numbers == set(range(len(numbers))), "each is registered once"
