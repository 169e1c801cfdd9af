"""Renamed, moved and removed holdings while the service runs: schedule, alerts and evidence."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Timer

import pytest
from sqlalchemy import Engine, func, literal, select
from tests.support.live_service import Site, site
from tests.support.owner_env import RunningNode, flip, killed_at_boundary

from holdfast.cli.app import run
from holdfast.control import holding_commands
from holdfast.control.backup.snapshot import copy_database
from holdfast.control.incidents.alerts import Alerts
from holdfast.control.incidents.types import OPEN_STATES
from holdfast.control.policies.aliases import Author
from holdfast.control.queries.audits import AuditFilter, list_audits
from holdfast.control.queries.names import HoldingNames, describe_node, name_of
from holdfast.control.scheduling.schedule import Schedule
from holdfast.durations import DAY, MINUTE
from holdfast.evidence import leaf
from holdfast.owner import Catalogue, HoldingRecord, delete_pending, plan_removal
from holdfast.pdp import SecretKey
from holdfast.storage.database import connect, open_engine, transaction
from holdfast.storage.schema import audits, holdings, leaves, responses

CONTENT = random.Random(7).randbytes(20_000)
MAX_BOUNDARIES = 20
ALL_ORDERS = [leaf.Order.SET_URL, leaf.Order.RENAME, leaf.Order.REMOVE]


def anything_on(node: RunningNode) -> HoldingRecord:
    return HoldingRecord("any", node.url, node.address, None, bytes(16), 2, encrypted=False)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Site]:
    """Yield a home with two holdings that have been audited."""
    with site(tmp_path) as running:
        for name in ("attic", "cellar"):
            running.holding(name, CONTENT)
        audit_all(running)
        yield running


def audit_all(place: Site) -> None:
    with place.service() as service:
        place.run(service, MINUTE)
        place.times.now += 15 * DAY
        place.run(service, MINUTE)
        service.responder.tick()


def author(place: Site, reason: str = "") -> Author:
    return Author("ada", place.times.wall(), reason)


def remove(place: Site, name: str, *, keep_files: bool = False) -> None:
    with place.home.catalogue() as catalogue:
        plan = plan_removal(catalogue, name, keep_files=keep_files)
        holding_commands.remove(catalogue, plan, author(place))
        assert delete_pending(place.home, catalogue) == {}


def audited(place: Site) -> list[tuple[str | None, int]]:
    """Return the names and numbers of all audits."""
    with place.log() as log, transaction(log._engine) as connection:
        rows, _ = list_audits(connection, AuditFilter(), limit=100)
    return [(row.name, row.number) for row in rows]


@contextmanager
def names(place: Site) -> Iterator[HoldingNames]:
    with place.log() as log:
        yield HoldingNames(log._engine)


def test_no_id_is_used_twice_in_either_database_nor_in_a_copy(
    engine: Engine, address: str, tmp_path: Path
) -> None:
    def add(catalogue: Catalogue, engine: Engine, name: str) -> int:
        """Add a holding to catalogue and schedule; return its id."""
        catalogue.add_holding(HoldingRecord(name, "http://x", bytes(20), None, b"salt", 2, False))
        Schedule(engine).add([(name, 5, SecretKey.generate(2).public)], 0)
        with transaction(engine) as connection:
            query = select(holdings.c.id).where(holdings.c.name == name)
            id_: int = connection.execute(query).scalar_one()
        return id_

    catalogue, ada = Catalogue(engine), Author("ada", 1)
    ids = [add(catalogue, engine, "attic"), add(catalogue, engine, "cellar")]
    holding_commands.rename(catalogue, "cellar", "loft", ada)
    holding_commands.remove(catalogue, plan_removal(catalogue, "loft", keep_files=True), ada)
    copy_database(address, tmp_path / "copy.db")
    ids.append(add(catalogue, engine, "cellar"))
    assert len(set(ids)) == 3
    with open_engine(str(tmp_path / "copy.db")) as copy:
        assert add(Catalogue(copy), copy, "another") not in ids[:2]
        with transaction(copy) as connection:
            known = connection.execute(select(name_of(literal(ids[1])))).scalar()
    assert known == "loft"


@pytest.mark.slow
def test_a_removed_holding_leaves_the_schedule_and_its_evidence_stays(place: Site) -> None:
    before = place.audits()
    (number,) = {audit.holding.id for audit in before} - _numbers(place, "cellar")
    remove(place, "attic")
    assert Schedule(connect(place.home.address)).names() == {"cellar"}
    audit_all(place)
    assert [a for a in place.audits() if a.holding.id == number] == [
        a for a in before if a.holding.id == number
    ]
    assert len(place.audits()) > len(before)
    assert place.verified().fine
    assert {name for name, _ in audited(place)} == {"attic", "cellar"}, "its audits keep its name"
    assert _numbers(place, "attic") == {number}
    removal = [e for e in entries(place) if isinstance(e, leaf.Response)]
    assert [(e.step, e.detail) for e in removal] == [(leaf.Step.REMOVED, "ada removed the holding")]


@pytest.mark.slow
def test_a_running_service_follows_moves_renames_and_removals(place: Site) -> None:
    with place.service() as service:
        place.stop_node()
        place.start_node()
        with place.home.catalogue() as catalogue:
            for name in ("attic", "cellar"):
                holding_commands.set_url(catalogue, name, place.node.url, author(place))
            holding_commands.rename(catalogue, "attic", "loft", author(place))
        place.times.now += 15 * DAY
        place.run(service, MINUTE)
        assert {name for name, _ in audited(place)} == {"loft", "cellar"}
        count = len(place.audits())
        assert [audit.outcome for audit in place.audits()] == ["passed"] * count
        assert count == 4
        remove(place, "cellar")
        place.times.now += 15 * DAY
        place.run(service, MINUTE)
        assert len(place.audits()) == count + 1
    assert place.verified().fine


@pytest.mark.slow
def test_the_service_deletes_the_files_that_a_removal_left(place: Site) -> None:
    with place.home.catalogue() as catalogue:
        plan = plan_removal(catalogue, "attic")
        holding_commands.remove(catalogue, plan, author(place))  # and dies here
        assert [removal.name for removal in catalogue.removals()] == ["attic"]
        port = place.stop_node()
        with place.service() as service:
            service.removals.tick()
            assert [removal.name for removal in catalogue.removals()] == ["attic"]
            place.start_node(port)
            over = Event()
            Timer(1.0, over.set).start()
            service.removals.run(over)
        assert catalogue.removals() == []
    with place.home.client(anything_on(place.node)) as node:
        assert len(node.holdings()) == 1


def test_a_node_is_described_by_its_holdings(engine: Engine) -> None:
    catalogue = Catalogue(engine)
    assert describe_node(engine, bytes(20)) == "0x" + "00" * 20
    for number in range(7):
        name = f"holding-{number}"
        catalogue.add_holding(HoldingRecord(name, "http://x", bytes(20), None, b"salt", 2, False))
    shown = describe_node(engine, bytes(20))
    assert shown == "the node of " + ", ".join(f"holding-{n}" for n in range(5)) + " and others"


@pytest.mark.slow
def test_a_new_holding_of_the_same_name_is_another_one(place: Site) -> None:
    (old,) = _numbers(place, "attic")
    remove(place, "attic", keep_files=True)
    place.holding("attic", CONTENT)
    audit_all(place)
    numbers = _numbers(place, "attic")
    assert old in numbers
    assert len(numbers) == 2
    assert place.verified().fine
    with place.log() as log, transaction(log._engine) as connection:
        ids = set(connection.execute(select(audits.c.holding)).scalars())
        assert len(ids) == 3, "no id is used twice"


@pytest.mark.slow
def test_alerts_and_cases_of_a_removed_holding_end(place: Site) -> None:
    damage(place, "attic")
    audit_all(place)
    engine = connect(place.home.address)
    alerting = Alerts(engine, place.times.wall)
    alerting.raise_alert("node-offline", f"0x{place.node.address.hex()}", "no answer")
    assert "attic" in {alert.subject for alert in alerting.listing()}
    remove(place, "attic")
    left = {alert.subject for alert in alerting.listing()}
    assert left == {f"0x{place.node.address.hex()}"}, "the node has another holding"
    with transaction(engine) as connection:
        under_way = select(func.count()).where(responses.c.state.in_(OPEN_STATES))
        assert connection.execute(under_way).scalar_one() == 0
        unanswered = select(func.count()).where(audits.c.unanswered)
        assert connection.execute(unanswered).scalar_one() == 0
    remove(place, "cellar")
    assert alerting.listing() == []
    with place.service() as service:
        place.run(service, MINUTE)
    assert place.verified().fine


@pytest.mark.slow
def test_a_renamed_holding_is_audited_under_its_new_name(place: Site) -> None:
    (number,) = _numbers(place, "attic")
    damage(place, "attic")
    audit_all(place)
    with place.home.catalogue() as catalogue:
        holding_commands.rename(catalogue, "attic", "loft", author(place, "the house was rebuilt"))
    subjects = {alert.subject for alert in place.alerts() if alert.ended is None}
    assert "attic" not in subjects
    assert "loft" in subjects
    count = len(place.audits())
    audit_all(place)
    assert len(place.audits()) > count
    assert {name for name, _ in audited(place)} == {"loft", "cellar"}
    assert _numbers(place, "attic") == _numbers(place, "loft") == {number}
    assert place.verified().fine
    orders = [e for e in entries(place) if isinstance(e, leaf.Instruction)]
    assert [(e.order, e.subject, e.by, e.reason) for e in orders] == [
        (leaf.Order.RENAME, "attic to loft", "ada", "the house was rebuilt")
    ]


@pytest.mark.slow
def test_evidence_is_shown_by_name(
    place: Site, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with place.home.catalogue() as catalogue:
        holding_commands.rename(catalogue, "attic", "loft", author(place))
    remove(place, "cellar")
    with place.service() as service:
        place.run(service, MINUTE)
    assert place.verified().fine  # and writes the bundle
    capsys.readouterr()
    home = ["--home", str(place.home.folder)]
    for name, shown in (("attic", "loft"), ("loft", "loft"), ("cellar", "cellar")):
        assert run(["evidence", "show", "--holding", name, *home]) == 0
        text = capsys.readouterr().out
        assert f"audit 1 of holding {shown}: passed" in text
        assert text.count("rename-holding of attic to loft") == (shown == "loft")
        assert text.count("remove-holding of cellar") == (shown == "cellar")
    bundle = str(tmp_path / "bundle")
    assert run(["evidence", "show", bundle, "--holding", "loft", *home]) == 0
    assert "audit 1 of holding loft: passed" in capsys.readouterr().out
    (number,) = _numbers(place, "loft")
    stranger = ["--home", str(tmp_path / "nowhere")]
    assert run(["evidence", "show", bundle, "--holding", f"{number:048x}", *stranger]) == 0
    assert f"audit 1 of holding {number:048x} on node" in capsys.readouterr().out
    assert run(["evidence", "show", "--holding", "nobody", *home]) == 2
    assert "'nobody' is not a holding that the home knows" in capsys.readouterr().err


@pytest.mark.slow(seconds=10)
def test_kill_9_at_every_durable_boundary_leaves_a_command_done_or_not_begun(place: Site) -> None:
    """The process dies before each commit, and before and after each deletion on the node."""

    def act(old: str, new: str) -> None:
        with place.home.catalogue() as catalogue:
            holding_commands.set_url(catalogue, old, place.node.url, author(place))
            holding_commands.rename(catalogue, old, new, author(place))
        remove(place, new)

    for moment in range(1, MAX_BOUNDARIES):  # a node takes nothing in the second of a removal
        place.holding(f"old-{moment}", CONTENT)
    kills = 0
    for moment in range(1, MAX_BOUNDARIES):
        old, new = f"old-{moment}", f"new-{moment}"
        killed = killed_at_boundary(moment, partial(act, old, new))
        kills += killed
        with place.home.catalogue() as catalogue:
            known = {record.name for record in catalogue.holdings()} & {old, new}
            orders = [
                entry.order
                for entry in entries(place)
                if isinstance(entry, leaf.Instruction) and entry.holdings & {old, new}
            ]
            assert orders == ALL_ORDERS[: len(orders)]
            assert known == {0: {old}, 1: {old}, 2: {new}, 3: set()}[len(orders)]
            assert delete_pending(place.home, catalogue) == {}
            assert catalogue.removals() == []
        for name in known:
            remove(place, name)
        with place.home.client(anything_on(place.node)) as node:
            left = len(node.holdings()) - (MAX_BOUNDARIES - 1 - moment)
            assert left == 2, "nothing of it is left on the node"
        if not killed:
            break
    assert 5 < kills < MAX_BOUNDARIES - 1
    audit_all(place)
    assert place.verified().fine


def damage(place: Site, name: str) -> None:
    with place.home.holding(name) as holding:
        segment = place.node.stored(holding, "data")[0]
        flip(segment, *range(0, segment.stat().st_size, 50))


def entries(place: Site) -> list[leaf.Leaf]:
    with place.log() as log, transaction(log._engine) as connection:
        bodies = connection.execute(select(leaves.c.body).order_by(leaves.c.id)).scalars()
        return [leaf.decode(bytes(body)) for body in bodies]


def _numbers(place: Site, name: str) -> frozenset[int]:
    with names(place) as known:
        return known.numbers(name)
