"""What is wrong with a home is named, with its cure, and nothing is changed by looking."""

import json
import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from eth_account import Account
from tests.doctor.checks import faults
from tests.support.command_line import Finished, Workplace
from tests.support.database import run_sql
from tests.support.ledger_env import account_of, anvil, sender_of
from tests.support.owner_env import PASSPHRASE, SECTORS, World, new_node_key, node_process
from tests.support.small_disk import small_disk
from web3 import Web3

from holdfast.cli.terminal import PASSPHRASE_VARIABLE
from holdfast.control.running_services import announce_service
from holdfast.control.scheduling.schedule import Schedule
from holdfast.control.settings.models import read_control
from holdfast.doctor.clock import Reference
from holdfast.doctor.clock import check as check_clock
from holdfast.doctor.examination import World as Around
from holdfast.doctor.examination import examine
from holdfast.doctor.finding import Grade
from holdfast.ledger import artefact
from holdfast.ledger.evm import deploy
from holdfast.ledger.transactions import Node
from holdfast.node.identity import encode_owner
from holdfast.owner import Home
from holdfast.owner.ledgers import KEYSTORE_VARIABLE
from holdfast.owner.settings import read_settings
from holdfast.storage.database import migrate, open_engine

CHAINED = 4


def named_faults(finished: Finished) -> dict[str, str]:
    """Return the faults that a command named, by their part; all have a cure."""
    assert finished.code == 1, finished
    named = [check for check in finished.data["checks"] if check["grade"] == "fault"]
    assert all(check["cure"] for check in named)
    assert not finished.data["fine"]
    return {check["part"]: check["found"] for check in named}


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files but SQLite's journals, which whoever reads makes, too."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path): path.read_bytes() for path in paths if not path.name.endswith(("-wal", "-shm"))
    }


@pytest.mark.slow
def test_a_database_without_tables_is_no_fault(world: World) -> None:
    (world.home.folder / "holdfast.db").touch()
    assert faults(examine(world.home.folder, PASSPHRASE)) == []


def test_a_healthy_home_has_no_fault_and_is_left_as_it_is(world: World, desk: Workplace) -> None:
    world.put("plain", world.file(b"content"))
    before = contents(world.home.folder)
    finished = desk.run("doctor", "--json")
    assert finished.code == 0, finished
    assert finished.data["fine"]
    parts = {check["part"]: check["grade"] for check in finished.data["checks"]}
    assert parts["node of plain"] == parts["node of secret"] == parts["clock"] == "ok"
    assert {"settings", "keys", "disk", "database", "ledger", "evidence", "versions"} <= set(parts)
    assert contents(world.home.folder) == before
    shown = desk.run("doctor")
    assert shown.code == 0
    assert shown.stdout.endswith("no faults\n")


@pytest.mark.slow
def test_a_new_home_has_no_fault(desk: Workplace, tmp_path: Path) -> None:
    home = tmp_path / "new"
    assert desk.run("init", "--home", home).code == 0
    before = contents(home)
    assert desk.run("doctor", "--home", home).code == 0
    assert contents(home) == before


def test_it_says_whether_a_service_is_running(world: World, desk: Workplace) -> None:
    world.put("plain", world.file(b"content"))
    idle = desk.run("doctor").stdout
    assert "no service is running" in idle
    assert "-> start `holdfast serve`" in idle
    with announce_service(world.home.folder, 0, join=False):
        assert "no service" not in desk.run("doctor").stdout


def test_where_there_is_no_home_it_can_not_run(desk: Workplace, tmp_path: Path) -> None:
    assert "holdfast init" in desk.run("doctor", "--home", tmp_path / "none").sentence()


def test_a_wrong_passphrase_is_named_and_hides_nothing_else(
    world: World, desk: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "another")
    finished = desk.run("doctor", "--json")
    assert named_faults(finished) == {
        "keys": f"the passphrase does not open {world.home.folder}/owner.key"
    }
    assert {"node of plain", "ledger", "clock"} <= {
        check["part"] for check in finished.data["checks"]
    }


def test_without_a_passphrase_the_rest_is_looked_at(
    desk: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PASSPHRASE_VARIABLE)
    finished = desk.run("doctor", "--json")
    assert finished.code == 0
    assert {check["part"] for check in finished.data["checks"] if check["grade"] == "warning"} == {
        *("keys", "service")
    }


def test_files_that_others_can_read_are_named(world: World) -> None:
    key = world.home.folder / "owner.key"
    key.chmod(0o644)
    warned = [check for check in examine(world.home.folder, PASSPHRASE) if check.grade == "warning"]
    assert f"chmod 600 {key}" in {check.cure for check in warned}


def test_settings_that_can_not_be_read_are_named_and_hide_no_key(
    world: World, desk: Workplace
) -> None:
    (world.home.folder / "holdfast.toml").write_text("[control.rails]\nunit = 5")
    finished = desk.run("doctor", "--json")
    assert "unit in [control.rails]" in named_faults(finished)["settings"]
    grades = {(check["part"], check["grade"]) for check in finished.data["checks"]}
    assert {("keys", "ok"), ("ledger", "skipped")} <= grades


@pytest.mark.slow
def test_a_lost_local_ledger_is_named(world: World, desk: Workplace) -> None:
    for path in world.home.folder.glob(f"ledger-{SECTORS}.db*"):
        path.unlink()
    assert "there is no ledger" in named_faults(desk.run("doctor", "--json"))["ledger"]


@pytest.mark.slow
def test_an_unreachable_node_is_named_and_hides_no_other(
    world: World, desk: Workplace, tmp_path: Path
) -> None:
    new_node_key(tmp_path / "third.key")
    owner = world.home.keyring.owner
    with node_process(tmp_path / "third", tmp_path / "third.key", owner) as third:
        world.add("gone", third, encrypted=False, sectors=SECTORS)
    finished = desk.run("doctor", "--json")
    assert list(named_faults(finished)) == ["node of gone"]
    assert "can't reach the node" in named_faults(finished)["node of gone"]


@pytest.mark.slow
def test_another_node_at_the_same_place_is_named(
    world: World, desk: Workplace, tmp_path: Path
) -> None:
    owner = world.home.keyring.owner
    for name in ("first", "second"):
        new_node_key(tmp_path / f"{name}.key")
    with node_process(tmp_path / "first", tmp_path / "first.key", owner) as first:
        world.add("moved", first, encrypted=False, sectors=SECTORS)
        port = int(first.url.rpartition(":")[2])
    with node_process(tmp_path / "second", tmp_path / "second.key", owner, port):
        assert "as pinned" in named_faults(desk.run("doctor", "--json"))["node of moved"]


def test_a_home_behind_its_node_is_named(world: World, desk: Workplace) -> None:
    world.put("plain", world.file(b"content"))
    with closing(sqlite3.connect(world.home.folder / "holdfast.db")) as catalogue:
        catalogue.execute("DELETE FROM files")
        catalogue.commit()
    assert "disagree" in named_faults(desk.run("doctor", "--json"))["node of plain"]


@pytest.mark.parametrize(("ahead", "side"), [(3600, "ahead of"), (-3600, "behind")])
def test_a_clock_that_is_off_is_named(world: World, ahead: int, side: str) -> None:
    around = replace(Around(), clock=lambda: Around().clock() + ahead)
    (fault,) = faults(examine(world.home.folder, PASSPHRASE, around))
    assert fault.part == "clock"
    assert side in fault.found
    assert "NTP" in (fault.cure or "")


def test_one_node_whose_clock_is_off_is_no_fault_of_ours() -> None:
    asked = [Reference(name, ahead, exact=True) for name, ahead in (("a", 0), ("b", 1), ("c", 900))]
    fine, other = check_clock(asked)
    assert (fine.grade, other.grade) == (Grade.OK, Grade.WARNING)
    assert "of c is off" in other.found


def test_an_idle_ledger_is_no_fault_of_the_clock() -> None:
    (clock,) = check_clock([Reference("the last block", -86_400, exact=False)])
    assert clock.grade is Grade.OK


@pytest.mark.slow
def test_a_disk_that_is_nearly_full_is_named(desk: Workplace, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk"):
        home = tmp_path / "disk" / "home"
        assert desk.run("init", "--home", home).code == 0
        assert "nearly full" in named_faults(desk.run("doctor", "--home", home, "--json"))["disk"]


def test_on_a_full_disk_every_cure_is_to_free_space(world: World) -> None:
    """Before, it was to restore a backup, for which there is no space either."""

    def statvfs(folder: Path) -> os.statvfs_result:
        values = list(os.statvfs(folder))
        values[4] = 0  # blocks that are free
        return os.statvfs_result(values)

    (world.home.folder / "holdfast.db").write_bytes(b"what a full disk left of it")
    named = faults(examine(world.home.folder, PASSPHRASE, replace(Around(), statvfs=statvfs)))
    assert {"disk", "database", "holdings"} <= {check.part for check in named}
    assert all("free space on" in (check.cure or "") for check in named)
    assert all("restore" not in (check.cure or "") for check in named)


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("failed", "lists your files; its last audit failed"),
        ("admitted", "lists your files; in its last audit it admitted a loss"),
        ("timed-out", "lists your files; its last audit timed out"),
    ],
)
def test_a_node_that_lists_files_and_failed_its_last_audit_is_named(
    world: World, outcome: str, said: str
) -> None:
    """Before, a node whose files were all zeros was said to have them."""
    world.put("plain", world.file(b"content"))
    with open_engine(world.home.address) as engine:
        migrate(engine)
        with world.home.holding("plain") as holding:
            Schedule(engine).add([("plain", 1, holding.key.public)], 0)
    run_sql(world.home.address, "UPDATE holdings SET outcome = :outcome", outcome=outcome)
    (fault,) = faults(examine(world.home.folder, PASSPHRASE))
    assert (fault.part, fault.found.endswith(said)) == ("node of plain", True)
    cure = "restart it" if outcome == "timed-out" else "holdfast repair plain"
    assert cure in (fault.cure or "")
    run_sql(world.home.address, "UPDATE holdings SET outcome = 'passed'")
    assert faults(examine(world.home.folder, PASSPHRASE)) == []


def test_how_little_counts_as_nearly_full_does_not_depend_on_the_machine(world: World) -> None:
    def statvfs(folder: Path) -> os.statvfs_result:
        values = list(os.statvfs(folder))
        values[0:2], values[4] = [4096, 4096], 1000  # blocks of 4 KiB that are free
        return os.statvfs_result(values)

    (fault,) = faults(examine(world.home.folder, PASSPHRASE, replace(Around(), statvfs=statvfs)))
    assert (fault.part, "nearly full: 3 MiB" in fault.found) == ("disk", True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_database_of_a_newer_version_is_named(
    kind: str, world: World, desk: Workplace, request: pytest.FixtureRequest
) -> None:
    if kind == "postgres":
        share(world.home, next(request.getfixturevalue("addresses")))
    address = read_control(world.home.folder).address(world.home.folder)
    with open_engine(address) as engine:
        migrate(engine)
    assert "of this version" in desk.run("doctor").stdout
    run_sql(address, "UPDATE alembic_version SET version_num = '9999'")
    found = desk.run("doctor", "--json")
    assert "9999" in named_faults(found)["database"]
    assert "newer" in named_faults(found)["database"]


def test_a_database_that_is_away_is_named(world: World, desk: Workplace) -> None:
    share(world.home, "postgresql://holdfast:hunter2@127.0.0.1:1/none")
    found = desk.run("doctor", "--json")
    assert "refused" in named_faults(found)["database"]
    assert "hunter2" not in found.stdout


def test_a_home_with_a_database_file_and_another_database_is_named(
    world: World, desk: Workplace
) -> None:
    before = (world.home.folder / "holdfast.db").read_bytes()
    share(world.home, "postgresql://holdfast:hunter2@127.0.0.1:1/none")
    (world.home.folder / "holdfast.db").write_bytes(before)
    found = desk.run("doctor", "--json")
    assert "has its database in a file" in named_faults(found)["settings"]


@pytest.mark.parametrize("content", [None, b""], ids=["gone", "empty"])
def test_a_database_that_was_lost_is_named_and_not_made_anew(
    content: bytes | None, world: World, desk: Workplace
) -> None:
    world.put("plain", world.file(b"content"))
    for path in world.home.folder.glob("holdfast.db*"):
        path.unlink()
    if content is not None:
        (world.home.folder / "holdfast.db").write_bytes(content)
    assert "is lost" in named_faults(desk.run("doctor", "--json"))["database"]
    assert "restore a backup" in desk.run("holding", "list").sentence()


def test_a_database_without_a_version_is_named(world: World, desk: Workplace) -> None:
    run_sql(world.home.address, "DROP TABLE alembic_version")
    assert "no version" in named_faults(desk.run("doctor", "--json"))["database"]
    assert "restore it from a backup" in desk.run("holding", "list").sentence()


def share(home: Home, address: str) -> None:
    """Let a home have its database in PostgreSQL, and a chain, which nobody runs."""
    folder = home.folder
    for path in folder.glob("holdfast.db*"):
        path.unlink()
    (folder / "owner.pub").write_bytes(encode_owner(home.keyring.owner))
    settle(folder, "http://127.0.0.1:1", bytes(20))
    with (folder / "holdfast.toml").open("a") as file:
        file.write(f'[home]\ndatabase = "{address}"\n')


@pytest.fixture(scope="module")
def chain() -> Iterator[str]:
    with anvil() as url:
        yield url


@pytest.fixture
def chained(world: World, chain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a world whose ledger is a chain, with a holding there."""
    contract = deploy(sender_of(Web3(Node(chain)), tmp_path), CHAINED)
    folder = world.home.folder
    for path in (*folder.glob("holdfast.db*"), *folder.glob("ledger-*")):
        path.unlink()
    sealed = Account.encrypt(account_of(1).key, "correct horse", kdf="pbkdf2", iterations=1000)
    (folder / "account.json").write_text(json.dumps(sealed))
    settle(folder, chain, contract)
    monkeypatch.setenv(KEYSTORE_VARIABLE, "correct horse")
    chained = replace(world, home=replace(world.home, settings=read_settings(folder)))
    chained.add("chained", world.one, encrypted=False, sectors=CHAINED)
    return chained


def settle(folder: Path, url: str, contract: bytes) -> None:
    (folder / "holdfast.toml").write_text(
        f'[ledger]\nkind = "evm"\nurl = "{url}"\ncontract = "0x{contract.hex()}"\n'
        'keystore = "account.json"\n'
    )


@pytest.mark.slow
def test_a_healthy_home_on_a_chain_has_no_fault(chained: World, desk: Workplace) -> None:
    before = contents(chained.home.folder)
    finished = desk.run("doctor", "--json")
    assert finished.code == 0, finished
    grades = {check["part"]: check["grade"] for check in finished.data["checks"]}
    assert grades["ledger"] == grades["contract"] == grades["account"] == "ok"
    assert contents(chained.home.folder) == before


@pytest.mark.slow
def test_an_unreachable_chain_is_named(chained: World, desk: Workplace) -> None:
    settle(chained.home.folder, "http://127.0.0.1:1/secret", bytes(20))
    finished = desk.run("doctor", "--json")
    assert named_faults(finished) == {"ledger": "the chain's node at 127.0.0.1:1 can't be reached"}
    assert "secret" not in finished.stdout


@pytest.mark.slow
def test_a_missing_contract_is_named(chained: World, chain: str, desk: Workplace) -> None:
    settle(chained.home.folder, chain, b"\5" * 20)
    named = named_faults(desk.run("doctor", "--json"))
    assert list(named) == ["contract"]
    assert named["contract"].startswith("there is no contract at 0x0505")


@pytest.mark.slow
def test_a_contract_of_another_version_is_named(
    chained: World, chain: str, desk: Workplace, tmp_path: Path
) -> None:
    ours = artefact.load(CHAINED)
    words = (b"malformed".hex(), b"MALFORMED".hex())  # by which it tells a reason
    other = replace(ours, bytecode=ours.bytecode.replace(*words))
    assert other != ours
    folder = tmp_path / "other"
    folder.mkdir()
    sender = sender_of(Web3(Node(chain)), folder)
    other_contract = deploy(sender, CHAINED, compiled=other)
    settle(chained.home.folder, chain, other_contract)
    assert "of another version" in named_faults(desk.run("doctor", "--json"))["contract"]
    too_wide = deploy(sender, 16)
    settle(chained.home.folder, chain, too_wide)
    assert "16 sectors" in named_faults(desk.run("doctor", "--json"))["contract"]


@pytest.mark.slow
def test_another_chain_and_an_empty_account_are_named(
    chained: World, desk: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_sql(chained.home.address, "UPDATE transactions SET chain = 5")
    poor = Account.from_key(random.Random(1).randbytes(32))
    sealed = Account.encrypt(poor.key, "correct horse", kdf="pbkdf2", iterations=1000)
    (chained.home.folder / "account.json").write_text(json.dumps(sealed))
    named = named_faults(desk.run("doctor", "--json"))
    assert "on chain 5" in named["ledger"]
    assert "can't pay" in named["account"]
    monkeypatch.setenv(KEYSTORE_VARIABLE, "wrong")
    assert "does not open" in named_faults(desk.run("doctor", "--json"))["account"]
