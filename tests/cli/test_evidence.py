"""`holdfast evidence`: what it says and how it exits, with nothing but a bundle and a key."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.command_line import Shell, Workplace
from tests.support.ledger_env import World, anvil, anvil_world, local_world
from tests.support.sample_checks import START, failed, passed_check
from tests.support.sample_log import SIGNER, Record, sample

from holdfast.evidence.bundle import write_bundle
from holdfast.evidence.checkpoint import Anchor, open_checkpoint
from holdfast.evidence.escaping import escape_words, hash_words
from holdfast.evidence.leaf import DamagedUnit, StorageCheck
from holdfast.evidence.note import Signer
from holdfast.ledger.interface import Domain

KEY = str(SIGNER.verifier)
OTHER = str(Signer(SIGNER.name, b"\x02" * 32).verifier)
HOLDING = "aa" * 20 + "00000001"


@pytest.fixture
def folder(workplace: Workplace) -> Workplace:
    """Return a directory with a bundle in it."""
    write_bundle(sample(), workplace.directory / "audits.bundle")
    return workplace


def older(folder: Path) -> Record:
    record = sample()
    del record.entries_[8:], record.notes[3:]
    write_bundle(record, folder / "older.bundle")
    return record


@pytest.mark.slow
def test_another_process_verifies_with_the_bundle_and_the_key_alone(folder: Workplace) -> None:
    shell = Shell(folder.directory)
    finished = shell.run("evidence", "verify", "audits.bundle", "--key", KEY)
    assert (finished.code, finished.stderr) == (0, "")
    assert finished.stdout == (
        "fine: 11 leaves with 6 audits, 5 proofs checked again; "
        "4 signed heads; 1 anchor claimed, not checked\n"
    )


def test_another_key_is_a_finding(folder: Workplace) -> None:
    finished = folder.run("evidence", "verify", "audits.bundle", "--key", OTHER)
    assert (finished.code, finished.stderr) == (1, "")
    assert f"the log: it names the key {KEY}, not {OTHER}" in finished.stdout
    assert "NOT FINE" in finished.stdout


def test_findings_are_data_too(folder: Workplace) -> None:
    path = folder.directory / "audits.bundle"
    path.write_bytes(path.read_bytes().replace(b'"passed"', b'"failed"', 1))
    finished = folder.run("evidence", "verify", "audits.bundle", "--key", KEY, "--json")
    assert finished.code == 1
    assert not finished.data["fine"]
    assert finished.data["finding_count"] == len(finished.data["findings"])
    assert {"root", "proof"} <= {each["fault"] for each in finished.data["findings"]}
    assert all(each["where"] and each["what"] for each in finished.data["findings"])


@pytest.mark.parametrize("form", ["bundle", "checkpoint"])
def test_what_was_kept_from_earlier_must_be_extended(folder: Workplace, form: str) -> None:
    record = older(folder.directory)
    (folder.directory / "older.checkpoint").write_bytes(record.notes[-1])
    verify = ("evidence", "verify", "--key", KEY)
    assert folder.run(*verify, "audits.bundle", "--kept", f"older.{form}").code == 0
    (folder.directory / "newer.checkpoint").write_bytes(sample().notes[-1])
    for newer in ("audits.bundle", "newer.checkpoint"):
        finished = folder.run(*verify, "older.bundle", "--kept", newer)
        assert finished.code == 1
        assert f"{newer}: it is of 11 leaves, but the log has only 8" in finished.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("verify", "nowhere", "--key", KEY), "nowhere"),
        (("verify", "audits.bundle", "--key", "nonsense"), "verifier key"),
        (("verify", "audits.bundle"), "--key"),
        (("verify", "noise", "--key", KEY), "not a bundle"),
        (("verify", "audits.bundle", "--key", KEY, "--kept", "noise"), "noise"),
        (("verify", "audits.bundle", "--key", KEY, "--kept", "empty.bundle"), "no checkpoint"),
        (("verify", "audits.bundle", "--key", KEY, "--ledger", "nowhere"), "no ledger at"),
        (("verify", "audits.bundle", "--key", KEY, "--ledger", "noise"), "as a ledger"),
        (
            ("verify", "audits.bundle", "--key", KEY, "--chain", "http://h"),
            "--contract belong together",
        ),
        (
            ("verify", "audits.bundle", "--key", KEY, "--contract", "ab"),
            "--contract belong together",
        ),
        (("verify", "audits.bundle", "--key", KEY, "--since", "7"), "--since needs --chain"),
        (("verify", "audits.bundle", "--key", KEY, "--kept-key", KEY), "--kept-key needs --kept"),
        (("verify", "audits.bundle", "--key", KEY, "--owner", "ab"), "needs a ledger"),
        (
            ("verify", "audits.bundle", "--key", KEY, "--chain", "http://h", "--contract", "ab"),
            "needs --owner",
        ),
        (
            ("verify", "audits.bundle", "--key", KEY, "--ledger", "noise", "--owner", "ab"),
            "--owner",
        ),
        (("show", "audits.bundle", "--leaf", "11"), "no leaf 11"),
        (("show", "audits.bundle", "--holding", "mine"), "hexadecimal"),
        (("show", "cut.bundle", "--json"), "cut off"),
        (("export", "audits.bundle", "--out", "audits.bundle"), "exists already"),
        (("export", "noise", "--out", "new.bundle"), "not a bundle"),
    ],
)
def test_what_can_not_run_says_so_in_one_sentence(
    folder: Workplace, arguments: tuple[str, ...], said: str
) -> None:
    whole = (folder.directory / "audits.bundle").read_bytes()
    (folder.directory / "noise").write_bytes(b"\xff\0noise")
    (folder.directory / "cut.bundle").write_bytes(whole[:-100])
    write_bundle(Record(), folder.directory / "empty.bundle")
    assert said in folder.run("evidence", *arguments).sentence()
    assert not (folder.directory / "new.bundle").exists()


def test_the_story_of_one_leaf_is_told(folder: Workplace) -> None:
    finished = folder.run("evidence", "show", "audits.bundle", "--leaf", "4")
    assert finished.code == 0
    assert finished.stdout.startswith("leaf 4, 2030-03-17 18:47:40 UTC: audit 1 of holding ")
    assert "because the telemetry is stale" in finished.stdout


def test_leaves_are_shown_by_holding_and_time(folder: Workplace) -> None:
    show = ("evidence", "show", "audits.bundle", "--json")
    chosen = folder.run(*show, "--holding", HOLDING, "--since", "2030-03-17T18:00:00").data
    assert [each["index"] for each in chosen["leaves"]] == [3, 5, 6, 10]
    assert chosen["leaves"][0]["leaf"]["holdfast"] == "audit"
    assert chosen["leaves"][0]["story"][0].endswith(": passed")
    assert folder.run(*show, "--until", "2030-03-17").data == {"leaves": []}


def test_a_log_can_be_handed_on_without_its_proofs(folder: Workplace) -> None:
    finished = folder.run(
        "evidence", "export", "audits.bundle", "--without-proofs", "--out", "public.bundle"
    )
    assert finished.stdout == (f"wrote public.bundle: 11 leaves; verify it with --key {KEY}\n")
    assert b"\nproof " not in (folder.directory / "public.bundle").read_bytes()
    verified = folder.run("evidence", "verify", "public.bundle", "--key", KEY)
    assert verified.code == 0
    assert "0 proofs checked again, 5 not in the log" in verified.stdout


def test_a_log_can_be_handed_on_as_it_is(folder: Workplace) -> None:
    finished = folder.run("evidence", "export", "audits.bundle", "--out", "copy.bundle", "--json")
    assert finished.data == {"bundle": "copy.bundle", "leaves": 11, "key": KEY}
    copy = (folder.directory / "copy.bundle").read_bytes()
    assert copy == (folder.directory / "audits.bundle").read_bytes()


def anchored(world: World) -> Record:
    """Return the sample with its last head on a ledger, and no other anchor."""
    record = sample()
    del record.notes[2:]
    record.sign()
    head = record.head()
    receipt = world.owner.anchor(head.root, head.size)
    record.sign(Anchor(world.owner.domain, receipt.transaction, receipt.block))
    return record


def write_attacks(record: Record, folder: Path) -> None:
    """Write an honest bundle, one that is cut back, and two with anchors the owner invented."""
    write_bundle(record, folder / "honest.bundle")
    cut = replace(record, entries_=record.entries_[:8], notes=record.notes[:2])
    write_bundle(cut, folder / "cut.bundle")
    for name, ledger in (("mainnet", Domain(1, b"\xbe" * 20)), ("here", ledger_of(record))):
        invented = record.copy()
        invented.sign(Anchor(ledger, b"\x66" * 32, 1))
        write_bundle(invented, folder / f"{name}.bundle")


def ledger_of(record: Record) -> Domain:
    checkpoint = open_checkpoint(record.notes[-1], SIGNER.verifier)
    assert checkpoint.anchor is not None
    return checkpoint.anchor.ledger


def check_attacks(folder: Workplace, *ledger: str) -> None:
    verify = ("evidence", "verify", "--key", KEY, *ledger)
    honest = folder.run(*verify, "honest.bundle")
    assert honest.code == 0, honest
    assert honest.stdout.endswith("4 signed heads; 1 anchor, checked on the ledger\n")
    cut = folder.run(*verify, "cut.bundle")
    assert cut.code == 1
    assert "it is of 11 leaves, but the log has only 8" in cut.stdout
    here = folder.run(*verify, "here.bundle")
    assert here.code == 1
    assert "checkpoint 5: its anchor is not on " in here.stdout
    mainnet = folder.run(*verify, "mainnet.bundle")
    assert mainnet.code == 1
    assert "it is on chain 1, contract 0xbebe" in mainnet.stdout
    assert mainnet.stdout.endswith("2 anchors, 1 of them checked, the others claimed\n")
    data = folder.run(*verify, "mainnet.bundle", "--json").data
    assert (data["anchors"], data["anchors_checked"]) == (2, 1)
    assert data["anchors_unchecked"] == [{"chain": 1, "contract": "0x" + "be" * 20, "anchors": 1}]


def test_anchors_are_checked_on_a_local_ledger(folder: Workplace) -> None:
    """Before: all four bundles were "fine", and the invented anchors counted as anchors."""
    world = local_world(folder.directory)
    write_attacks(anchored(world), folder.directory)
    check_attacks(folder, "--ledger", "ledger")
    world.stranger.anchor(bytes(32), 99)
    owner = f"0x{world.owner.sender.hex()}"
    check_attacks(folder, "--ledger", "ledger", "--owner", owner)
    verify = ("evidence", "verify", "--key", KEY, "honest.bundle", "--ledger", "ledger")
    assert "2 owners: name one by --owner" in folder.run(*verify).sentence()
    stranger = f"0x{world.stranger.sender.hex()}"
    assert folder.run(*verify, "--owner", stranger).code == 1


@pytest.mark.slow
def test_anchors_are_checked_on_a_chain_over_http(folder: Workplace) -> None:
    with anvil() as url:
        world = anvil_world(url, folder.directory)
        write_attacks(anchored(world), folder.directory)
        contract, owner = f"0x{world.owner.domain.contract.hex()}", f"0x{world.owner.sender.hex()}"
        line = ("--chain", url, "--contract", contract, "--owner", owner)
        check_attacks(folder, *line)
        late = ("evidence", "verify", "honest.bundle", "--key", KEY, *line, "--since", "999")
        finished = folder.run(*late)
        assert finished.code == 1
        assert "before --since" in finished.stdout
    assert "can't be reached" in folder.run(*late).sentence()


def test_without_a_ledger_the_anchors_are_claims(folder: Workplace) -> None:
    write_attacks(anchored(local_world(folder.directory)), folder.directory)
    verify = ("evidence", "verify", "--key", KEY)
    for name, said in (
        ("honest", "1 anchor claimed, not checked"),
        ("mainnet", "2 anchors claimed, not checked"),
        ("cut", "no anchors"),
    ):
        finished = folder.run(*verify, f"{name}.bundle")
        assert finished.code == 0
        assert finished.stdout.endswith(f"signed heads; {said}\n")
    data = folder.run(*verify, "mainnet.bundle", "--json").data
    assert (data["anchors"], data["anchors_checked"]) == (2, 0)
    assert len(data["anchors_unchecked"]) == 2


def test_a_chain_needs_its_libraries_and_says_so(
    folder: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "holdfast.ledger.transactions", None)
    line = ("--chain", "http://127.0.0.1:9", "--contract", "0x" + "be" * 20, "--owner", "aa" * 20)
    said = folder.run("evidence", "verify", "audits.bundle", "--key", KEY, *line).sentence()
    assert said == "a chain needs more libraries: pip install 'holdfast[evm]'"


def write_checks(folder: Workplace, *checks: StorageCheck) -> None:
    """Write a bundle that has checks beside its audits."""
    record = sample()
    for check in checks:
        record.add(check)
    record.sign()
    write_bundle(record, folder.directory / "checks.bundle")


def test_checks_are_counted_apart_and_rest_on_the_owners_word(folder: Workplace) -> None:
    first, second = passed_check(1, START), failed(passed_check(2, START))
    verify = ("evidence", "verify", "checks.bundle", "--key", KEY)
    for checks, said in (((first,), "1 check that rests"), ((first, second), "2 checks that rest")):
        write_checks(folder, *checks)
        finished = folder.run(*verify)
        assert finished.code == 0
        words = f"with 6 audits, 5 proofs checked again, {said} on the owner's word; "
        assert words in finished.stdout
        assert folder.run(*verify, "--json").data["checks"] == len(checks)
        (folder.directory / "checks.bundle").unlink()
    without = folder.run("evidence", "verify", "audits.bundle", "--key", KEY, "--json")
    assert without.data["checks"] == 0


def test_checks_are_shown_by_the_name_that_the_evidence_has(folder: Workplace) -> None:
    check = failed(passed_check(1, START))
    write_checks(folder, check)
    show = ("evidence", "show", "checks.bundle", "--holding")
    shown = folder.run(*show, "attic", "--json").data["leaves"]
    assert [leaf["index"] for leaf in shown] == [11]
    assert shown[0]["leaf"]["holdfast"] == "check"
    text = folder.run(*show, "attic").stdout
    assert text.startswith("leaf 11, 2030-03-17 17:46:40 UTC: check 1 of holding attic: failed: ")
    assert f"Damaged: {check.damaged[0].name} (changed, its bytes have another hash)." in text
    assert folder.run(*show, "attic", "--until", "2030-03-17", "--json").data == {"leaves": []}
    assert "not a holding" in folder.run(*show, "garage").sentence()


def test_a_hostile_tool_can_not_write_to_the_terminal(folder: Workplace) -> None:
    words = "\x1b]0;owned\x07\x1b[2J\rfine: 9 leaves\n\u202e" * 9999
    unit = DamagedUnit.from_tool("a\nleaf 0: passed\x1b[8m", "changed", "\x1b[31m")
    check = failed(passed_check(1, START))
    said = replace(check, words=escape_words(words), words_hash=hash_words(words))
    write_checks(folder, replace(said, damaged=(unit,)))
    shown = folder.run("evidence", "show", "checks.bundle").stdout
    assert all(line.isprintable() for line in shown.split("\n"))
    assert not any(line.startswith(("leaf 0: passed", "fine")) for line in shown.split("\n"))
    assert len(shown) < 20_000
    assert folder.run("evidence", "verify", "checks.bundle", "--key", KEY).code == 0
