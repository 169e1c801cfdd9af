"""`holding add` and its kin for storage that a tool checks: what is refused, and what is said."""

import hashlib
import os
import sys
from pathlib import Path

import pytest
from sqlalchemy import update
from tests.support.command_line import Finished, Workplace
from tests.support.owner_env import PASSPHRASE, QUICK

from holdfast.cli.control import open_control
from holdfast.cli.terminal import PASSPHRASE_VARIABLE
from holdfast.durations import DAY
from holdfast.owner import Home
from holdfast.storage.database import transaction
from holdfast.storage.schema import holdings

pytestmark = pytest.mark.slow


@pytest.fixture
def desk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Workplace:
    """Return a place to run commands at, with a home, and without its passphrase."""
    Home.create(tmp_path / "home", PASSPHRASE, QUICK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(PASSPHRASE_VARIABLE, raising=False)
    return Workplace(tmp_path, capsys)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a folder with 30 objects of 1000 bytes, which are named by their hashes."""
    folder = tmp_path / "store"
    (folder / "objects").mkdir(parents=True)
    for number in range(30):
        content = bytes([number]) * 1000
        (folder / "objects" / hashlib.sha256(content).hexdigest()).write_bytes(content)
    return folder


def settings(desk: Workplace, text: str) -> None:
    (desk.directory / "home" / "holdfast.toml").write_text(text)


def assert_nothing_is_left(desk: Workplace) -> None:
    assert desk.run("holding", "list", "--json").data["holdings"] == []
    assert not (desk.directory / "home" / "holdings").exists()


def quarantine(desk: Workplace, quarantined: bool) -> None:
    home = desk.directory / "home"
    with open_control(home) as control, transaction(control.engine) as connection:
        connection.execute(update(holdings).values(quarantined=quarantined))


def must(desk: Workplace, *words: str | Path) -> Finished:
    finished = desk.run(*words)
    assert finished.code == 0, finished
    return finished


def test_it_says_first_what_there_is(desk: Workplace, store: Path) -> None:
    words = ("holding", "add", "lfs", "store", "--names", "sha256", "--verify-within", "30 days")
    added = must(desk, *words)
    assert added.stdout.splitlines()[:2] == [
        "holding lfs has 30 objects of 29.3 KiB, checked by holdfast 0.1.0",
        "each object is read within 30 days: about 1.46 KiB a day",
    ]
    (facts,) = must(desk, "holding", "list", "--json").data["holdings"]
    assert facts == {
        "holding": "lfs",
        "kind": "names",
        "address": str(store),
        "options": {"names": "sha256"},
        "unit": "object",
        "units": 30,
        "bytes": 30_000,
        "verify_within_seconds": 30 * DAY // 1000,
        "coverage": {
            "never_verified": 30,
            "verified_within_days": {"1": 0.0, "7": 0.0, "30": 0.0},
            "oldest_seconds": None,
            "behind": False,
            "read": 0,
            "read_within_seconds": 30 * DAY // 1000,
            "damaged": 0,
            "damaged_at_most": 30,
            "damaged_share_at_most": 1.0,
            "sentences": [
                "no bound: no object was read within 30 days",
                "verified: 0 % within 1 day, 0 % within 7 days, 0 % within 30 days",
                "every object within 30 days: kept",
            ],
        },
    }
    listed = must(desk, "holding", "list").stdout
    assert listed.startswith(f"lfs: 30 objects of 29.3 KiB, names at {store}\n")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("nowhere", "--names", "sha256"), "can't list nowhere: No such file or directory"),
        (("plain", "--names", "sha256"), "does not name its objects by their SHA-256"),
        (("store", "--names", "md5"), "the names must be sha256"),
        (("store", "--manifest", "SHA256SUMS"), "there is no manifest"),
        (("plain", "--manifest", "empty.txt"), "empty.txt"),
        (("x", "--command", "no-such-program --quick"), "there is no program no-such-program"),
        (("x", "--command", "echo 'half"), "--command can't be split"),
        (("x", "--command", ""), "the command must be"),
        (("x", "--auditor", "unheard-of"), "there is no auditor 'unheard-of'"),
        (("x", "--rclone"), "--against"),
        (("store", "--names", "sha256", "--set", "deletions"), "--set must be a name and a value"),
        (("store", "--names", "sha256", "--set", "deletions=perhaps"), "deletions are allowed or"),
        (("store", "--names", "sha256", "--verify-within", "soon"), "--verify-within must be"),
        (
            ("store", "--names", "sha256", "--verify-within", "1 day"),
            "allow at least 2 days",
        ),
        (("store", "--names", "sha256", "--restic"), "give one of --names, --manifest"),
        (("store", "--names", "sha256", "--encrypt"), "are for holdings on a node"),
        (("http://node", "--verify-within", "30 days"), "--verify-within is for storage without"),
        (("http://u:secret@host/x", "--names", "sha256"), "the address contains a password"),
    ],
)
def test_what_can_not_be_checked_is_refused_and_leaves_nothing(
    desk: Workplace, store: Path, words: tuple[str, ...], reason: str
) -> None:
    (desk.directory / "plain").mkdir()
    (desk.directory / "plain" / "letter.txt").write_text("no hash")
    (desk.directory / "plain" / "empty.txt").write_text("")
    refused = desk.run("holding", "add", "new", *words)
    assert reason in refused.sentence(), refused
    assert "secret" not in refused.stderr
    assert_nothing_is_left(desk)
    assert store.exists()


@pytest.mark.usefixtures("store")
def test_more_than_the_line_can_carry_is_refused_with_what_would_do(desk: Workplace) -> None:
    settings(desk, "[control.checks]\ndaily_bytes = 1000\n")
    words = ("holding", "add", "lfs", "store", "--names", "sha256", "--verify-within")
    refused = desk.run(*words, "30 days")
    assert refused.sentence() == (
        "29.3 KiB within 30 days are 1.46 KiB a day, and checks may read 1,000 bytes a day: allow "
        "at least 45 days, or raise daily_bytes in [control.checks]"
    )
    must(desk, *words, "45 days")


@pytest.mark.usefixtures("store")
def test_more_units_than_checks_can_have_are_refused(desk: Workplace) -> None:
    settings(desk, "[control.checks]\nsample_cap = 2\n")
    words = ("holding", "add", "lfs", "store", "--names", "sha256", "--verify-within")
    refused = desk.run(*words, "20 days")
    assert refused.sentence() == (
        "30 objects can't be verified within 20 days: a check has at most 2 of them; allow at "
        "least 23 days, or raise sample_cap in [control.checks]"
    )
    must(desk, *words, "23 days")


def test_an_auditor_that_does_not_answer_is_refused(desk: Workplace, store: Path) -> None:
    settings(desk, '[control.checks]\nlisting = "1 second"\n')
    os.mkfifo(desk.directory / "pipe")
    words = ("holding", "add", "new", store, "--command", "true", "--set", "groups=pipe")
    refused = desk.run(*words)
    assert "gave no answer within 1 s" in refused.sentence()
    # The thread that waits would never end.
    with (desk.directory / "pipe").open("w"):
        pass
    assert_nothing_is_left(desk)


def test_a_checked_holding_is_renamed_and_removed(desk: Workplace, store: Path) -> None:
    must(desk, "holding", "add", "lfs", store, "--names", "sha256")
    renamed = must(desk, "holding", "rename", "lfs", "objects", "--json").data
    assert (renamed["holding"], renamed["former_name"]) == ("objects", "lfs")
    removed = must(desk, "holding", "rm", "objects", "--yes")
    assert removed.stdout == "holding objects is removed\n"
    assert "nothing is deleted there" in removed.stderr
    assert desk.run("holding", "list", "--json").data["holdings"] == []
    assert len(list((store / "objects").iterdir())) == 30


def test_commands_that_need_a_node_say_so(
    desk: Workplace, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    must(desk, "holding", "add", "lfs", store, "--names", "sha256")
    refused = desk.run("holding", "set-url", "lfs", "http://elsewhere")
    assert refused.sentence() == (
        f"holding 'lfs' is on no node: the auditor 'names' checks it at {store}"
    )
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE.decode())
    (desk.directory / "letter").write_text("dear")
    assert "is on no node" in desk.run("put", "letter", "--to", "lfs").sentence()


def test_audit_now_checks_and_says_what_it_read(
    desk: Workplace, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE.decode())
    must(desk, "holding", "add", "lfs", store, "--names", "sha256")
    passed = must(desk, "audit", "now", "lfs", "--samples", "10")
    assert passed.stdout == ("lfs: passed: 10 of 30 objects read and intact, by holdfast 0.1.0\n")
    (victim,) = list((store / "objects").iterdir())[:1]
    victim.write_bytes(b"no longer the same")
    failed = desk.run("audit", "now", "--ratio", "1", "--json")
    assert failed.code == 1
    (facts,) = failed.data["audits"]
    assert (facts["outcome"], facts["checked"], facts["units"]) == ("failed", 30, 30)
    assert facts["damaged"] == [{"name": f"objects/{victim.name}", "defect": "changed"}]
    assert facts["detection_probability"] == 1.0
    status = desk.run("status")
    assert status.code == 1
    assert "of 30 objects is damaged: all were read within 30 days" in status.stdout
    assert "-> holdfast repair lfs shows what is damaged" in status.stdout


def test_an_audit_that_was_asked_for_is_not_cut_by_the_bytes_of_a_day(
    desk: Workplace, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, one of all objects was read, and it passed without a word."""
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE.decode())
    settings(desk, "[control.checks]\ndaily_bytes = 1000\n")
    must(desk, "holding", "add", "lfs", store, "--names", "sha256")
    first = must(desk, "audit", "now", "--ratio", "1")
    assert "passed: 30 of 30 objects read" in first.stdout
    assert "it read 29.3 KiB, and daily_bytes is 1,000 bytes: you asked for it" in first.stdout
    assert "sample-cap" not in must(desk, "evidence", "show", "--holding", "lfs").stdout


def test_a_command_is_an_argument_list_without_a_shell(
    desk: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE.decode())
    program = desk.directory / "check.py"
    program.write_text(
        "import json, sys\n"
        "assert sys.argv[1:] == ['a b', '$HOME;', '*'], sys.argv\n"
        "print(json.dumps({'checked': 3, 'of': 9, 'damaged': [], 'bytes': 5}))\n"
    )
    command = f"{sys.executable} {program} 'a b' '$HOME;' '*'"
    words = ("holding", "add", "tapes", "robot:7", "--command", command, "--set", "unit=tape")
    must(desk, *words)
    passed = must(desk, "audit", "now", "tapes", "--samples", "3")
    assert "passed: 3 of 9 tapes read and intact" in passed.stdout


def test_repair_shows_what_is_damaged_and_how_to_repair_it(
    desk: Workplace, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    must(desk, "holding", "add", "lfs", store, "--names", "sha256")
    nothing = must(desk, "repair", "lfs")
    assert nothing.stdout == "no object of lfs is known to be damaged\n"
    (victim,) = list((store / "objects").iterdir())[:1]
    content = victim.read_bytes()
    victim.write_bytes(b"no longer the same")
    with monkeypatch.context() as patch:
        patch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE.decode())
        assert desk.run("audit", "now", "lfs", "--ratio", "1").code == 1
    shown = desk.run("repair", "lfs", "--json")
    assert shown.code == 1
    (unit,) = shown.data["damaged"]
    assert (unit["name"], unit["defect"]) == (f"objects/{victim.name}", "changed")
    said = desk.run("repair", "lfs").stdout
    assert "1 object of lfs damaged:" in said
    assert said.endswith("put the object back from a copy of yours\nthen: holdfast audit now lfs\n")
    quarantine(desk, True)
    assert desk.run("repair", "lfs").stdout.endswith("holdfast audit release lfs\n")
    quarantine(desk, False)
    victim.write_bytes(content)
    with monkeypatch.context() as patch:
        patch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE.decode())
        must(desk, "audit", "now", "lfs", "--samples", "1")
    assert must(desk, "repair", "lfs").stdout == nothing.stdout
