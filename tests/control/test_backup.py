"""A home in one file, taken while it is at work; in a home made from it nothing happens twice."""

import io
import json
import os
import random
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from tests.control.live_serve import SETTINGS, count, wait_for
from tests.support import hosts
from tests.support.command_line import Shell
from tests.support.database import run_sql
from tests.support.hosts import place, wait_until
from tests.support.ledger_env import anvil, sender_of
from tests.support.live_service import Site, site
from tests.support.owner_env import PASSPHRASE, QUICK, World
from tests.support.small_node import SEGMENT_BYTES
from web3 import Web3

from holdfast.bench.postgres import Server
from holdfast.control.backup.create import back_up
from holdfast.control.backup.restore import restore
from holdfast.control.backup.snapshot import copy_file
from holdfast.control.evidence.reader import DatabaseLog, read_verifier
from holdfast.control.evidence.signer import evidence_signer
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.settings.models import ControlSettings, Timeouts, Upkeep, read_control
from holdfast.durations import MINUTE, SECOND
from holdfast.errors import InputError, MalformedError, PassphraseError, StorageError
from holdfast.evidence.bundle import Bundle
from holdfast.evidence.checkpoint_check import root_in
from holdfast.evidence.finding import Fault
from holdfast.evidence.leaf import LOG_SETTING, ConfigurationChange, decode
from holdfast.evidence.verification import Report, verify
from holdfast.ledger.evm import EvmLedger, deploy
from holdfast.ledger.interface import Anchored
from holdfast.ledger.journal import Attempt
from holdfast.ledger.transactions import Node
from holdfast.owner import Home, Original, put
from holdfast.owner.catalogue import Catalogue
from holdfast.pdp import Location
from holdfast.storage.database import SHARED_SCHEMA, open_database

__all__ = ["place"]

CONTENT = random.Random(1).randbytes(3000)
NOW = 1_800_000_000_000


HURRIED = ControlSettings(
    policy="fixed-high",
    rails=Rails(unit=MINUTE, jitter=0.0, surprise=0.0, first=0.0, recovery=14),
    patience=Timeouts(deadline=MINUTE),
    upkeep=Upkeep(anchor=MINUTE, idle=20 * SECOND),
)


def audited(at: Site) -> None:
    with at.service() as service:
        at.run(service, 5 * MINUTE)


def made_from(at: Site, backup: Path, name: str, *, moved: bool = False) -> Site:
    """Return the site as it is at a home that is made from a backup."""
    folder = at.folder / name
    restore(backup, folder, PASSPHRASE, now=at.times.now, moved=moved)
    after = replace(at, home=Home.open(folder, PASSPHRASE))
    after.node = at.node
    return after


def verified(home: Path, *heads: Path) -> Report:
    """Check the evidence of a home as its operator does."""
    with open_database(read_control(home).address(home), read_only=True) as engine:
        log = DatabaseLog(engine, read_verifier(home))
        first = evidence_signer(Home.open(home, PASSPHRASE).keyring).verifier
        known = [root_in(path.read_bytes(), first, str(path)) for path in heads]
        return verify(log, log.verifier, known=known)


def last_head(at: Site, out: Path) -> Path:
    with at.log() as log:
        *_, note = log.checkpoints()
    out.write_bytes(note)
    return out


@pytest.mark.slow
def test_audits_go_on_in_a_restored_home_under_a_key_of_its_own(tmp_path: Path) -> None:
    with site(tmp_path, HURRIED) as before:
        before.holding("attic", CONTENT)
        audited(before)
        older = last_head(before, tmp_path / "older")
        back_up(before.home.folder, tmp_path / "backup", NOW)
        saved = len(before.audits())
        audited(before)  # which is lost
        newer = last_head(before, tmp_path / "newer")
        after = made_from(before, tmp_path / "backup", "after")
        assert verified(after.home.folder, older).findings == ()
        audited(after)
        assert len(after.audits()) > saved
        assert {each.outcome for each in after.audits()} == {"passed"}
        found = verified(after.home.folder, older)
        assert (found.findings, found.anchors > 0) == ((), True)
        # The old key has signed one history alone: what was lost contradicts nothing it signed.
        with before.log() as old, after.log() as new:
            assert old.verifier != new.verifier
            told = [decode(entry.leaf) for entry in new.entries()]
        changes = [each for each in told if isinstance(each, ConfigurationChange)]
        (change,) = [each for each in changes if each.settings[0].name == LOG_SETTING]
        assert change.settings[0].before is not None
        assert change.settings[0].before.startswith(str(old.verifier))
        assert [each.fault for each in verified(after.home.folder, newer).findings] == [Fault.FORK]
        (bundle,) = after.home.folder.glob("evidence-*.bundle")
        report = verify(Bundle.open(bundle), old.verifier)
        assert (report.findings, report.audits) == ((), saved)


@pytest.mark.slow
def test_a_home_that_was_moved_keeps_the_key_of_its_evidence(tmp_path: Path) -> None:
    with site(tmp_path, HURRIED) as before:
        before.holding("attic", CONTENT)
        audited(before)
        head = last_head(before, tmp_path / "head")
        back_up(before.home.folder, tmp_path / "backup", NOW)
        after = made_from(before, tmp_path / "backup", "after", moved=True)
        audited(after)
        with before.log() as old, after.log() as new:
            assert old.verifier == new.verifier
        assert verified(after.home.folder, head).findings == ()


@pytest.mark.slow
def test_a_home_that_is_restored_twice_has_two_logs(tmp_path: Path) -> None:
    with site(tmp_path, HURRIED) as before:
        before.holding("attic", CONTENT)
        audited(before)
        back_up(before.home.folder, tmp_path / "backup", NOW)
        keys = set()
        for name in ("one", "two"):
            made_from(before, tmp_path / "backup", name)
            keys.add(str(read_verifier(tmp_path / name)))
        assert len(keys) == 2


def interrupted(done: int) -> None:
    if done > len(CONTENT):  # tagged, and on its way
        raise KeyboardInterrupt


def test_what_was_tagged_after_the_backup_shares_nothing_with_what_comes_later(
    world: World,
) -> None:
    first = world.put("plain", world.file(CONTENT)).file
    back_up(world.home.folder, world.folder / "backup", NOW)
    path = world.file(CONTENT[::-1])
    original = Original.of(Location(str(path)), SEGMENT_BYTES)
    with world.home.changing("plain") as holding, pytest.raises(KeyboardInterrupt):
        put(holding, "file", original, processes=1, on_progress=interrupted)
    with closing(Catalogue.open(world.home.address)) as catalogue:
        (lost,) = catalogue.intents("plain")
    restore(world.folder / "backup", world.folder / "after", PASSPHRASE, now=NOW)
    after = replace(world, home=Home.open(world.folder / "after", PASSPHRASE))
    second = after.put("plain", world.file(CONTENT + b"changed")).file
    assert second.file_id == lost.file.file_id == first.file_id
    assert second.version == lost.file.version == 2
    assert second.nonce != lost.file.nonce


def test_transactions_after_the_backup_are_not_sent_again(tmp_path: Path) -> None:
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    with anvil() as url:
        web3 = Web3(Node(url))
        sender = sender_of(web3, tmp_path / "before")
        ledger = EvmLedger(sender, deploy(sender, 1), sectors=1)
        broadcast = sender._broadcast

        def backed_up_before(attempt: Attempt) -> None:
            if not (tmp_path / "after" / "journal").exists():
                copy_file(tmp_path / "before" / "journal", tmp_path / "after" / "journal")
            broadcast(attempt)

        sender._broadcast = backed_up_before  # type: ignore[method-assign]
        for number in (1, 2, 3):  # the first is under way in the copy, the others are not in it
            ledger.anchor(bytes([number]) * 32, number)
        restored = sender_of(web3, tmp_path / "after")
        again = EvmLedger(restored, ledger.domain.contract, sectors=1)
        again.reconcile()
        assert not restored.journal.pending()
        again.anchor(bytes([4]) * 32, 4)
        events = [event for receipt in again.receipts() for event in receipt.events]
        sizes = [event.size for event in events if isinstance(event, Anchored)]
        assert sizes == [1, 2, 3, 4]


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """Return the backup of a home with nothing in it but its keys."""
    home = Home.create(tmp_path / "old", PASSPHRASE, QUICK)
    with home.catalogue():
        pass
    back_up(home.folder, tmp_path / "backup", NOW)
    return tmp_path / "backup"


def refused(backup: Path, kind: type[Exception], words: str) -> None:
    before = sorted(backup.parent.iterdir())
    with pytest.raises(kind, match=words):
        restore(backup, backup.parent / "new", PASSPHRASE, now=NOW)
    assert sorted(backup.parent.iterdir()) == before


def rewritten(backup: Path, name: str, content: bytes) -> None:
    """Put a member into the place of another, and leave the rest as it is."""
    with tarfile.open(backup) as tar:
        members = {entry.name: tar.extractfile(entry).read() for entry in tar}  # type: ignore[union-attr]
    with tarfile.open(backup, "w") as tar:
        for each, whole in {**members, name: content}.items():
            entry = tarfile.TarInfo(each)
            entry.size = len(content if each == name else whole)
            tar.addfile(entry, io.BytesIO(content if each == name else whole))


def manifest_of(backup: Path) -> dict[str, object]:
    with tarfile.open(backup) as tar:
        content = tar.extractfile("manifest.json")
        assert content is not None
        return dict(json.load(content))


def test_a_flipped_byte_anywhere_in_a_member_is_refused(backup: Path) -> None:
    whole = backup.read_bytes()
    with tarfile.open(backup) as tar:
        places = [(entry.offset_data, entry.size) for entry in tar][1:]
    for start, size in places:
        damaged = bytearray(whole)
        damaged[start + size // 2] ^= 1
        backup.write_bytes(damaged)
        refused(backup, MalformedError, "is damaged")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_a_backup_that_is_cut_off_is_refused(backup: Path, share: float) -> None:
    with tarfile.open(backup) as tar:
        end = max(entry.offset_data + entry.size for entry in tar)  # what follows is padding
    os.truncate(backup, int(end * share))
    refused(backup, MalformedError, "not a backup|damaged")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value"), [("format", 2), ("schema", "9999")], ids=["format", "schema"]
)
def test_a_backup_of_a_newer_version_is_refused(backup: Path, key: str, value: object) -> None:
    told = manifest_of(backup) | {key: value, "holdfast": "99.0"}
    rewritten(backup, "manifest.json", json.dumps(told).encode())
    refused(backup, InputError, "made by a newer Holdfast")


@pytest.mark.parametrize("name", ["../owner.key", "/etc/owner.key", "a/../../b", ""])
def test_a_member_that_leads_out_of_the_home_is_refused(backup: Path, name: str) -> None:
    told = manifest_of(backup)
    told["members"] = [{"name": name, "bytes": 0, "sha256": "00"}]
    rewritten(backup, "manifest.json", json.dumps(told).encode())
    refused(backup, MalformedError, "names in it that no backup has")


def test_what_the_manifest_does_not_name_is_refused(backup: Path) -> None:
    rewritten(backup, "more", b"more")
    refused(backup, MalformedError, "has not what its manifest says")


def test_a_home_that_is_there_is_left_as_it_is(backup: Path) -> None:
    (backup.parent / "new").mkdir()
    (backup.parent / "new" / "something").write_bytes(b"of somebody")
    refused(backup, InputError, "exists already")
    assert (backup.parent / "new" / "something").read_bytes() == b"of somebody"


def test_a_wrong_passphrase_makes_no_home(backup: Path) -> None:
    with pytest.raises(PassphraseError):
        restore(backup, backup.parent / "new", b"another", now=NOW)
    assert not (backup.parent / "new").exists()
    restore(backup, backup.parent / "new", PASSPHRASE, now=NOW)
    assert (backup.parent / "new").stat().st_mode & 0o777 == 0o700


def test_secrets_stay_sealed_and_nobody_else_can_read_it(backup: Path) -> None:
    content = backup.read_bytes()
    keyring = Home.open(backup.parent / "old", PASSPHRASE).keyring
    assert PASSPHRASE not in content
    for secret in (keyring.root, keyring.evidence_seed()):
        assert secret not in content
        assert secret.hex().encode() not in content
    assert backup.stat().st_mode & 0o777 == 0o600


def test_a_backup_in_place_of_another_file_is_refused(backup: Path) -> None:
    before = backup.read_bytes()
    with pytest.raises(InputError, match="exists already"):
        back_up(backup.parent / "old", backup, NOW)
    assert backup.read_bytes() == before


@contextmanager
def working(shell: Shell, *options: str) -> Iterator[None]:
    with shell.start("serve", *options) as process:
        yield
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.slow(seconds=20)
def test_a_backup_under_load_is_restored_elsewhere_and_audits_go_on(shell: Shell) -> None:
    home, other = shell.directory / "home", shell.directory / "other"
    passed = "SELECT count(*) FROM audits WHERE outcome = 'passed'"
    with site(shell.directory) as before:
        (home / "holdfast.toml").write_text(SETTINGS)
        for name in ("alpha", "beta"):
            before.holding(name, os.urandom(20_000))
        with working(shell, "--workers", "2"):
            wait_for("work", home, passed, 4)
            made = shell.run("backup", "first.tar", "--json")
            assert made.code == 0, made
            wait_for("more work", home, passed, count(home) + 2)
        key = shell.run("restore", "first.tar", "--home", other, "--json").data["key"]
        saved = count(other)
        assert 4 <= saved < count(home)
        check = ("evidence", "verify", other, "--key", key)
        assert shell.run(*check).code == 0
        with working(shell, "--home", str(other)):
            wait_for("work elsewhere", other, passed, saved + 2)
    assert shell.run(*check).code == 0
    outcomes = "SELECT count(*) FROM audits WHERE outcome != 'passed'"
    assert count(other, outcomes) == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_home_in_postgresql_is_restored_under_load_into_another_one(
    place: hosts.Site, postgres: Server, tmp_path: Path
) -> None:
    place.put(place.first, "alpha")
    place.put(place.first, "beta")
    with place.serving(place.first) as host:
        wait_until("work", lambda: host.audited() >= 4)
        back_up(place.first.folder, tmp_path / "backup", NOW)
    address = postgres.make("elsewhere")
    text = (place.first.folder / "holdfast.toml").read_text()
    (tmp_path / "settings").write_text(text.replace(place.database, address))
    folder = tmp_path / "after"
    with closing(psycopg.connect(address, autocommit=True)) as database:
        database.execute(f"CREATE SCHEMA {SHARED_SCHEMA} CREATE TABLE transactions (other int)")
        with pytest.raises(StorageError):  # by a table of another form, when others are filled
            restore(
                tmp_path / "backup", folder, PASSPHRASE, now=NOW, settings=tmp_path / "settings"
            )
        assert not folder.exists()
        own = f"holdfast_{place.first.keyring.owner.hex()[:16]}"
        assert not run_sql(f"{address}&schema={own}", "SELECT * FROM catalogue")
        database.execute(f"DROP SCHEMA {SHARED_SCHEMA}, {own} CASCADE")
    restore(tmp_path / "backup", folder, PASSPHRASE, now=NOW, settings=tmp_path / "settings")
    assert not list(folder.glob("*.db*"))
    assert verified(folder).findings == ()
    after = replace(place, first=Home.open(folder, PASSPHRASE), database=address)
    saved = len(after.query("SELECT 1 FROM audits"))
    with after.serving(after.first) as host:
        wait_until("work elsewhere", lambda: host.audited() >= 4)
    assert len(after.query("SELECT 1 FROM audits")) >= saved + 4
    assert verified(folder).findings == ()
    with pytest.raises(InputError, match="in use"):
        restore(
            tmp_path / "backup", tmp_path / "x", PASSPHRASE, now=NOW, settings=tmp_path / "settings"
        )
    postgres.drop("elsewhere")
    # The same backup makes a home in files, too.
    lines = text.replace(f'database = "{place.database}"', "").replace("[home]", "")
    (tmp_path / "settings").write_text(lines)
    restore(
        tmp_path / "backup", tmp_path / "y", PASSPHRASE, now=NOW, settings=tmp_path / "settings"
    )
    assert verified(tmp_path / "y").findings == ()
    assert (tmp_path / "y" / "holdfast.db").exists()
