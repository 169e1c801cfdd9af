"""Checks in the evidence of a home: recorded, exported, verified and shown by name."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, insert, select, update
from tests.support.owner_env import PASSPHRASE, QUICK
from tests.support.sample_checks import START, add_checked_holding, failed, passed_check
from tests.support.sample_log import holdings as ledger_holdings

from holdfast.cli.app import run
from holdfast.control.evidence.leaves import leaf_row, record_leaf, record_leaves
from holdfast.control.evidence.reader import VERIFIER, DatabaseLog
from holdfast.control.evidence.sequencer import Sequencer
from holdfast.control.evidence.signer import evidence_signer
from holdfast.control.incidents.holding_alerts import raise_damage_alert
from holdfast.control.incidents.store import record_response
from holdfast.control.incidents.types import ResponseRecord
from holdfast.control.policies.active import ensure_champion
from holdfast.control.queries.leaves import list_leaves, read_timeline
from holdfast.control.queries.names import HoldingNames
from holdfast.control.settings.models import ControlSettings
from holdfast.errors import StorageError
from holdfast.evidence import leaf
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.verification import verify
from holdfast.ledger import check as contract
from holdfast.model.scenario import PAPER
from holdfast.owner import Home
from holdfast.storage.database import connect, migrate, transaction
from holdfast.storage.schema import alerts, former_names, holdings, leaves, public_keys

HOUR = 3_600_000


@dataclass(frozen=True)
class CheckedHome:
    """A home with storage that was checked twice: the second check found damage."""

    home: Home
    engine: Engine
    attic: leaf.CheckedHolding

    @property
    def log(self) -> DatabaseLog:
        return DatabaseLog(self.engine, evidence_signer(self.home.keyring).verifier)

    def sequence(self) -> None:
        Sequencer(self.engine, evidence_signer(self.home.keyring), lambda: START).sequence()

    def rename(self, name: str) -> None:
        with transaction(self.engine) as connection:
            before = {"holding": self.attic.id, "name": self.attic.name, "until": START}
            connection.execute(insert(former_names), [before])
            mine = holdings.c.id == self.attic.id
            connection.execute(update(holdings).where(mine).values(name=name))


def new_home(folder: Path) -> tuple[Home, Engine]:
    """Return a home as after the first start, with one leaf about its first policy."""
    home = Home.create(folder, PASSPHRASE, QUICK)
    engine = connect(ControlSettings().address(folder))
    migrate(engine)
    ensure_champion(engine, "constant:1,0.10", PAPER, START)
    return home, engine


@pytest.fixture
def checked(tmp_path: Path) -> Iterator[CheckedHome]:
    home, engine = new_home(tmp_path / "home")
    with transaction(engine) as connection:
        attic = add_checked_holding(connection)
        for entry in (
            passed_check(1, START, attic),
            failed(passed_check(2, START + HOUR, attic)),
        ):
            record_leaf(connection, entry, attic.id)
    place = CheckedHome(home, engine, attic)
    place.sequence()
    verifier = evidence_signer(home.keyring).verifier
    (home.folder / VERIFIER).write_text(f"{verifier}\n")
    yield place
    engine.dispose()


def add_audit(place: CheckedHome, name: str) -> None:
    """Record an audit of a holding on a ledger, whose row on the schedule has this name."""
    kept, _ = ledger_holdings()
    audit, proof = kept.audit(1)
    assert proof is not None
    public = kept.store.key.public
    with transaction(place.engine) as connection:
        id_ = add_checked_holding(connection, name).id
        row = leaf_row(leaf.encode(audit), id_, contract.encode(proof))
        record_leaves(connection, [row])
        points = b"".join(public.abscissas)
        connection.execute(insert(public_keys), [{"id": public.id, "points": points}])
    place.sequence()


def test_checks_and_audits_of_a_home_are_exported_and_verified(
    checked: CheckedHome, tmp_path: Path
) -> None:
    add_audit(checked, "cellar")
    write_bundle(checked.log, tmp_path / "home.bundle")
    for log in (checked.log, Bundle.open(tmp_path / "home.bundle")):
        report = verify(log, checked.log.verifier)
        assert report.fine, report.findings
        assert (report.audits, report.proofs, report.checks) == (1, 1, 2)


def test_a_step_after_a_check_names_units_and_never_precedes_it(checked: CheckedHome) -> None:
    names = ("a\nb", *(f"pack {number}" for number in range(99)))
    repaired = ResponseRecord(leaf.Step.REPAIRED, "by restic\nrepair", units=names)
    with transaction(checked.engine) as connection:
        record_response(connection, checked.attic.id, 2, repaired, START)
        newest = select(leaves.c.body).order_by(leaves.c.id.desc()).limit(1)
        entry = leaf.decode(bytes(connection.execute(newest).scalar_one()))
    assert isinstance(entry, leaf.CheckResponse)
    assert (entry.at, entry.holding, entry.check) == (START + HOUR, checked.attic, 2)
    assert entry.units[:2] == (r"a\nb", "pack 0")
    assert len(entry.units) == 64
    assert entry.detail == "by restic repair"
    checked.sequence()
    assert verify(checked.log, checked.log.verifier).fine


def test_an_alert_about_checked_storage_says_where_it_is(checked: CheckedHome) -> None:
    with transaction(checked.engine) as connection:
        raise_damage_alert(connection, checked.attic.id, "1 pack is damaged", START)
        detail = connection.execute(select(alerts.c.detail)).scalar_one()
    assert detail == f"1 pack is damaged; {checked.attic.address}"


def test_storage_that_was_never_checked_has_no_leaf_to_respond_to(checked: CheckedHome) -> None:
    with transaction(checked.engine) as connection:
        new = add_checked_holding(connection, "loft")
        with pytest.raises(StorageError, match="no leaf"):
            record_response(connection, new.id, 1, ResponseRecord(leaf.Step.ALERTED, ""), START)


def test_lists_of_leaves_know_checks_by_their_names(checked: CheckedHome) -> None:
    checked.rename("loft")
    with transaction(checked.engine) as connection:
        page = list_leaves(connection, before=99, limit=9)
        timeline = read_timeline(connection, checked.attic.id, before=99, limit=9)
    assert page.leaves[:-1] == timeline.leaves
    second, first = timeline.leaves
    assert (first.kind, first.name) == (second.kind, second.name) == ("check", "loft")
    assert first.title == "check 1 of holding loft: passed"
    assert second.content["damaged"][0]["defect"] == "changed"


def test_a_name_finds_its_checks_and_not_those_of_another_holding(checked: CheckedHome) -> None:
    names = HoldingNames(checked.engine)
    assert names.ids("attic") == {checked.attic.id}
    assert names.numbers("attic") == frozenset()
    checked.rename("loft")
    with transaction(checked.engine) as connection:
        other = add_checked_holding(connection, "attic")
        record_leaf(connection, passed_check(1, START, other), other.id)
    checked.sequence()
    assert names.ids("loft") == {checked.attic.id}
    entries = [leaf.decode(entry.leaf) for entry in checked.log.entries()]
    fresh = HoldingNames(checked.engine)
    assert [fresh.name(index, entry) for index, entry in enumerate(entries)] == [
        *(None, "loft", "loft", "attic")
    ]


def test_an_id_on_the_schedule_is_not_a_number_on_a_ledger(checked: CheckedHome) -> None:
    """Both are small numbers in a test, and could be mistaken for each other."""
    add_audit(checked, "cellar")
    names = HoldingNames(checked.engine)
    entries = [leaf.decode(entry.leaf) for entry in checked.log.entries()]
    audit = entries[-1]
    assert isinstance(audit, leaf.Audit)
    assert [names.name(index, entry) for index, entry in enumerate(entries)] == [
        *(None, "attic", "attic", "cellar")
    ]
    same = replace(audit, holding=replace(audit.holding, id=checked.attic.id))
    assert names.name(3, same) is None  # no leaf of this home


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert run(["evidence", "show", *arguments, "--json"]) == 0
    leaves = json.loads(capsys.readouterr().out)["leaves"]
    return [entry["story"][0].partition(": ")[0] for entry in leaves]


def test_checks_of_a_home_are_shown_by_name(
    checked: CheckedHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checked.rename("loft")
    with transaction(checked.engine) as connection:
        other = add_checked_holding(connection, "attic")
        record_leaf(connection, passed_check(1, START, other), other.id)
    checked.sequence()
    home = ("--home", str(checked.home.folder))
    loft = ["check 1 of holding loft", "check 2 of holding loft"]
    assert shown(capsys, "--holding", "loft", *home) == loft
    assert shown(capsys, "--holding", "attic", *home) == [*loft, "check 1 of holding attic"]
    bundle = str(tmp_path / "own.bundle")
    write_bundle(checked.log, Path(bundle))
    assert shown(capsys, bundle, "--holding", "loft", *home) == loft
    stranger = ("--home", str(tmp_path / "nowhere"))
    assert shown(capsys, bundle, "--holding", "attic", *stranger) == [
        "check 1 of holding attic",
        "check 2 of holding attic",
        "check 1 of holding attic",
    ]
    assert run(["evidence", "show", bundle, "--holding", "loft", *stranger]) == 2
    assert "'loft' is not a holding" in capsys.readouterr().err


def test_a_log_of_somebody_else_is_shown_by_the_names_in_it(
    checked: CheckedHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its ids are those of another schedule: they must not be taken for our own."""
    mine, engine = new_home(tmp_path / "mine")
    with transaction(engine) as connection:
        add_checked_holding(connection, "cellar")
        add_checked_holding(connection, "attic")
    engine.dispose()
    bundle = str(tmp_path / "theirs.bundle")
    write_bundle(checked.log, Path(bundle))
    assert shown(capsys, bundle, "--holding", "attic", "--home", str(mine.folder)) == [
        "check 1 of holding attic",
        "check 2 of holding attic",
    ]
