"""`holdfast evidence`: what it says and how it exits, with nothing but a bundle and a key."""

from pathlib import Path

import pytest
from tests.cli.conftest import Shell, Workplace
from tests.evidence.sample import SIGNER, Record, sample

from holdfast.evidence.bundle import write_bundle
from holdfast.evidence.note import Signer

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


def test_another_process_verifies_with_the_bundle_and_the_key_alone(folder: Workplace) -> None:
    shell = Shell(folder.directory)
    finished = shell.run("evidence", "verify", "audits.bundle", "--key", KEY)
    assert (finished.code, finished.stderr) == (0, "")
    assert finished.stdout == (
        "fine: 11 leaves with 6 audits, 5 proofs checked again; "
        "4 signed heads, 1 of them anchored\n"
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
    assert finished.stdout == (f"wrote public.bundle: 11 leaves, to be verified with --key {KEY}\n")
    assert b"\nproof " not in (folder.directory / "public.bundle").read_bytes()
    verified = folder.run("evidence", "verify", "public.bundle", "--key", KEY)
    assert verified.code == 0
    assert "0 proofs checked again, 5 not re-checkable" in verified.stdout


def test_a_log_can_be_handed_on_as_it_is(folder: Workplace) -> None:
    finished = folder.run("evidence", "export", "audits.bundle", "--out", "copy.bundle", "--json")
    assert finished.data == {"bundle": "copy.bundle", "leaves": 11, "key": KEY}
    copy = (folder.directory / "copy.bundle").read_bytes()
    assert copy == (folder.directory / "audits.bundle").read_bytes()
