"""Each part of the doctor's examination names its faults and their cures."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.support.owner_env import PASSPHRASE, QUICK, SECTORS, World, new_node_key, node_process

from holdfast.control.settings.models import read_control
from holdfast.doctor import database, disk, keys, ledger, nodes, versions
from holdfast.doctor.finding import Check, Grade
from holdfast.doctor.nodes import StoredHolding
from holdfast.node.client import Greeting
from holdfast.node.identity import encode_owner
from holdfast.owner import Home
from holdfast.owner.catalogue import HoldingRecord
from holdfast.storage.database import Standing

MIB = 1 << 20
DAY = 86_400


def statvfs_with(free: int, *, free_files: int) -> disk.StatVfs:
    values = [4096, 4096, 10**9, free // 4096, free // 4096, 1000, free_files, free_files, 0, 255]
    return lambda _folder: os.statvfs_result(values)


@pytest.mark.parametrize(
    ("free", "free_files", "grade", "said"),
    [
        (100 * MIB, 10, Grade.FAULT, "nearly full: 100 MiB"),
        (900 * MIB, 10, Grade.WARNING, "900 MiB are free"),
        (9000 * MIB, 0, Grade.FAULT, "no more files, though 9,000 MiB"),
        (9000 * MIB, 10, Grade.OK, "9,000 MiB are free"),
    ],
)
def test_a_disk_is_judged_by_its_bytes_and_its_files(
    tmp_path: Path, free: int, free_files: int, grade: Grade, said: str
) -> None:
    (check,) = disk.check([tmp_path, tmp_path], statvfs_with(free, free_files=free_files))
    assert (check.grade, said in check.found) == (grade, True), check


def test_a_damaged_key_file_is_brought_back_from_a_backup(tmp_path: Path) -> None:
    home = Home.create(tmp_path / "home", PASSPHRASE, QUICK).folder
    key = home / "owner.key"
    key.write_bytes(key.read_bytes()[:-10])
    keyring, (check,) = keys.open_keyring(home, PASSPHRASE)
    assert (keyring, check.grade) == (None, Grade.FAULT)
    assert "holdfast restore" in (check.cure or "")


def test_the_public_key_of_another_owner_is_named(tmp_path: Path) -> None:
    home = Home.create(tmp_path / "home", PASSPHRASE, QUICK)
    other = Home.create(tmp_path / "other", PASSPHRASE, QUICK)
    public = home.folder / "owner.pub"
    public.write_bytes(encode_owner(other.keyring.owner))
    _, checks = keys.open_keyring(home.folder, PASSPHRASE)
    assert [check.found for check in checks if check.grade is Grade.FAULT] == [
        f"{public} is of another owner than {home.folder / 'owner.key'}"
    ]


def test_an_extra_that_the_settings_need_and_nobody_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "holdfast.toml").write_text('[control.retraining]\nevery = "30 days"\n')
    control = read_control(tmp_path)
    assert [check.grade for check in versions.check(None, control)] == [Grade.OK]
    monkeypatch.setitem(versions.EXTRAS, "train", "no_such_module")
    _, check = versions.check(None, control)
    assert check.found == "[control.retraining] needs the extra train, which is not installed"
    assert check.cure == "pip install 'holdfast[train]'"


@pytest.mark.slow
def test_a_ledger_of_other_sectors_than_its_name_says_is_named(world: World) -> None:
    folder = world.home.folder
    shutil.copy(folder / f"ledger-{SECTORS}.db", folder / "ledger-8.db")
    (check,) = ledger.check_files(folder, {8}, lambda: 0.0).checks
    assert check.grade is Grade.FAULT
    assert f"ledger-8.db is for {SECTORS} sectors a block, not for 8" in check.found


# Nodes.


def record(url: str, node: bytes = b"n" * 20) -> HoldingRecord:
    return HoldingRecord("far", url, node, None, b"s" * 16, SECTORS, encrypted=False, number=1)


def only_check(stored: StoredHolding, home: Home | None = None) -> Check:
    keyring = None if home is None else home.keyring
    ((check,),) = [state.checks for state in nodes.check([stored], keyring, lambda: 0.0)]
    return check


class Stranger(BaseHTTPRequestHandler):
    """A web server that is no node."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"It works!")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def stranger() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.slow
def test_what_answers_and_is_no_node_is_named() -> None:
    with stranger() as url:
        check = only_check(StoredHolding(record(url), (), changing=False))
        assert check.grade is Grade.FAULT
        assert check.cure == f"see what answers at {url}: is it a node, and is its address right?"


@pytest.mark.slow
def test_a_node_that_hangs_is_one_line_however_many_holdings_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, it was a line for each of its holdings."""
    monkeypatch.setattr(nodes, "TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as hung:  # it accepts, and never answers
        url = f"http://127.0.0.1:{hung.getsockname()[1]}"
        records = [replace(record(url), name=f"far-{k}") for k in range(12)]
        holdings = [StoredHolding(one, (), changing=False) for one in records]
        ((check,),) = [state.checks for state in nodes.check(holdings, None, lambda: 0.0)]
    assert check.grade is Grade.FAULT
    assert check.part == "node of far-0, far-1, far-2 and 9 more"


@pytest.mark.slow
def test_a_node_that_does_not_let_the_owner_in_is_named(tmp_path: Path) -> None:
    home = Home.create(tmp_path / "home", PASSPHRASE, QUICK)
    key = new_node_key(tmp_path / "node.key")
    with node_process(tmp_path / "node", tmp_path / "node.key", b"\7" * 32) as node:
        stored = StoredHolding(record(node.url, key.address), (), changing=False)
        check = only_check(stored, home)
    assert check.grade is Grade.FAULT
    assert f"holdfast node serve --owner {home.keyring.owner.hex()}" in (check.cure or "")


def test_a_certificate_that_ends_soon_is_a_warning_and_one_that_lasts_is_none() -> None:
    for days, said in ((15, []), (3, ["its certificate ends in 3 days"]), (-1, ["in 0 days"])):
        greeting = Greeting(facts=None, date=0.0, certified_until=days * DAY + 1.0)  # type: ignore[arg-type]
        checks = nodes._check_certificate("node", greeting, 0.0)
        assert [check.grade for check in checks] == [Grade.WARNING] * len(said)
        assert all(text in check.found for text, check in zip(said, checks, strict=True))
    assert "renewed" in nodes._cure("CERTIFICATE_VERIFY_FAILED")


def test_a_holding_that_is_unfinished_or_changing_is_a_warning_and_a_rollback_a_fault() -> None:
    stored = StoredHolding(record("http://node"), (), changing=False)
    new = replace(stored, record=replace(stored.record, number=None))
    for case, grade, said in (
        (new, Grade.WARNING, "not registered yet"),
        (replace(stored, changing=True), Grade.WARNING, "being uploaded"),
        (stored, Grade.FAULT, "restored from an old copy"),
    ):
        check = nodes._compare("node of far", case, "theirs", "ours")
        assert (check.grade, said in check.found) == (grade, True), check


@pytest.mark.parametrize(
    ("standing", "grade", "said"),
    [
        (Standing.OLDER, Grade.WARNING, "the schema 0000 of an older Holdfast"),
        (Standing.EMPTY, Grade.OK, "is empty"),
    ],
)
def test_a_database_that_is_older_or_empty_is_no_fault(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    standing: Standing,
    grade: Grade,
    said: str,
) -> None:
    """There is one schema so far, so no real database is older."""
    home = Home.create(tmp_path / "home", PASSPHRASE, QUICK)
    monkeypatch.setattr(database, "standing_of", lambda _address: (standing, "0000"))
    (check,) = database.check(home.folder, home.address)
    assert (check.grade, said in check.found) == (grade, True)
