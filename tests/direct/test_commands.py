"""Direct holdings by commands, as their owner gives them."""

from pathlib import Path

import pytest
from tests.support.command_line import Workplace
from tests.support.direct_env import NAME, DirectSite
from tests.support.owner_env import PASSPHRASE

from holdfast.cli.terminal import PASSPHRASE_VARIABLE
from holdfast.secret_variables import NEW_PASSPHRASE

pytestmark = pytest.mark.slow


@pytest.fixture
def desk(
    folder: DirectSite, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Workplace:
    """Return a place for commands whose home has no holding yet, with objects in `data`."""
    directory = Path(folder.storage.address).parent
    monkeypatch.chdir(directory)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE.decode())
    monkeypatch.setenv("HOLDFAST_HOME", str(folder.home.folder))
    return Workplace(directory, capsys)


def test_from_an_empty_home_to_damage_found_named_and_repaired(
    desk: Workplace, folder: DirectSite
) -> None:
    added = desk.run("holding", "add", NAME, "--direct", "data", "--json")
    assert added.code == 0, added
    assert added.data["enrolled"] == len(folder.contents)
    assert added.data["url"] == f"direct:{folder.storage.address}"
    first = desk.run("audit", "now", NAME)
    assert first.code == 0, first
    assert "are intact" in first.stdout

    copy = desk.directory / "copy"
    copy.mkdir()
    (copy / "001.jpg").write_bytes(folder.contents["001.jpg"])
    folder.storage.rot("001.jpg", bytes(len(folder.contents["001.jpg"])))
    failed = desk.run("audit", "now", NAME, "--json")
    assert failed.code == 1
    assert failed.data["audits"][0]["outcome"] == "failed"
    assert failed.data["audits"][0]["objects"] == ["damaged: 001.jpg"]
    assert failed.data["audits"][0]["reason"] == "1 object is damaged"

    estimated = desk.run("confidence", "--json")
    assert estimated.code == 1, "damage is known"
    assert [known["holding"] for known in estimated.data["known_damage"]] == [NAME]
    assert (estimated.data["holdings"], estimated.data["fleet_at_most"]) == ([], None)
    for command in ("confidence", "status"):
        shown = desk.run(command)
        assert shown.code == 1
        assert f"{NAME} is damaged" in shown.stdout
        assert "at most" not in shown.stdout, "no bound lies below what is known"

    assert "name your own copy with --source" in desk.run("repair", NAME).sentence()
    repaired = desk.run("repair", NAME, "--source", "copy")
    assert repaired.code == 0, repaired
    assert "damaged blocks restored" in repaired.stdout
    assert folder.intact()
    assert desk.run("confidence", "--fresh").code == 0
    key = desk.run("evidence", "key").stdout.strip()
    assert desk.run("evidence", "export", "--out", "log").code == 0
    verified = desk.run("evidence", "verify", "log", "--key", key)
    assert verified.code == 0, verified


def test_changes_are_listed_and_accepted_by_the_operators_word(
    desk: Workplace, folder: DirectSite
) -> None:
    desk.run("holding", "add", NAME, "--direct", "data")
    assert desk.run("holding", "refresh", NAME).code == 0
    folder.storage.write("001.jpg", b"another")
    folder.storage.write("new.jpg", b"new")
    listed = desk.run("holding", "refresh", NAME, "--json")
    assert listed.code == 1
    assert (listed.data["enrolled"], listed.data["changed"]) == (1, ["001.jpg"])
    assert "no terminal to ask on" in desk.run("holding", "accept", NAME).sentence()
    accepted = desk.run("holding", "accept", NAME, "--yes", "--json", "--reason", "edited")
    assert accepted.code == 0, accepted
    assert accepted.data["tagged"] == ["001.jpg"]
    assert desk.run("audit", "now", NAME).code == 0
    told = desk.run("evidence", "show").stdout
    assert "accept" in told
    assert "edited" in told


def test_what_a_direct_holding_does_not_take_is_refused(
    desk: Workplace, folder: DirectSite
) -> None:
    add = ("holding", "add", NAME)
    assert "--direct" in desk.run(*add).sentence()
    assert "no --encrypt" in desk.run(*add, "--direct", "data", "--encrypt").sentence()
    assert "no URL" in desk.run(*add, "http://127.0.0.1:1", "--direct", "data").sentence()
    assert "no folder" in desk.run(*add, "--direct", "nothing").sentence()
    (desk.directory / "empty").mkdir()
    assert "nothing at" in desk.run(*add, "--direct", "empty").sentence()
    assert desk.run(*add, "--direct", "data").code == 0
    assert "is direct" in desk.run("put", "data/empty", "--to", NAME).sentence()
    assert "all holdings are direct" in desk.run("put", "data/empty").sentence()
    assert "is direct" in desk.run("rm", "001.jpg", "--from", NAME).sentence()
    assert "no object 'x'" in desk.run("holding", "accept", NAME, "x", "--yes").sentence()
    assert folder.intact()


def test_a_removed_holding_leaves_the_data(desk: Workplace, folder: DirectSite) -> None:
    desk.run("holding", "add", NAME, "--direct", "data")
    desk.run("holding", "add", "second", "--direct", "data", "--tags", "beside")
    for name in (NAME, "second"):
        removed = desk.run("holding", "rm", name, "--yes", "--json")
        assert removed.code == 0, removed
        assert removed.data["files_deleted"] is False
    assert folder.intact()
    assert desk.run("holding", "list", "--json").data == {"holdings": [], "removals": []}
    tags = list((desk.directory / "data" / ".holdfast").rglob("tags.*"))
    assert not tags


def test_the_doctor_looks_at_the_data(desk: Workplace, folder: DirectSite) -> None:
    desk.run("holding", "add", NAME, "--direct", "data")
    assert "answers" in desk.run("doctor").stdout
    Path(folder.storage.address).rename(desk.directory / "elsewhere")
    assert desk.run("doctor").code == 1


def test_a_backup_says_that_tags_are_not_in_it(desk: Workplace) -> None:
    desk.run("holding", "add", NAME, "--direct", "data")
    made = desk.run("backup", "copy.tar", "--json")
    assert made.code == 0, made
    assert [Path(path).name for path in made.data["left_out"]] == ["node"]


def test_the_key_of_its_node_is_written_under_a_passphrase_of_its_own(
    desk: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = desk.run("holding", "add", NAME, "--direct", "data", "--json")
    monkeypatch.setenv(NEW_PASSPHRASE, "another")
    written = desk.run("holding", "node-key", NAME, "--out", "node.key", "--json")
    assert written.code == 0, written
    assert written.data["address"] == added.data["node"]
    assert "exists already" in desk.run("holding", "node-key", NAME, "--out", "node.key").sentence()
