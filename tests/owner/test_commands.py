"""The owner's commands on real nodes: what they print, and with which code they leave."""

import hashlib
import random
import re
import signal
import sqlite3
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.command_line import Finished, QuickShell, Workplace, end
from tests.support.database import run_sql
from tests.support.owner_env import BLOCK_BYTES, PASSPHRASE, World, flip, node_process

from holdfast.storage import database

CONTENT = random.Random(1).randbytes(20_000)


def must(desk: Workplace, *words: str) -> Finished:
    """Run a command that has to succeed, in silence but for its result."""
    finished = desk.run(*words)
    assert (finished.code, finished.stderr) == (0, ""), finished
    return finished


def damage(world: World, holding: str, *offsets: int) -> None:
    with world.home.holding(holding) as place:
        node = world.one if holding == "plain" else world.two
        flip(node.stored(place, "data")[0], *offsets)


@pytest.mark.slow
def test_a_file_goes_everywhere_and_comes_back(world: World, desk: Workplace) -> None:
    world.file(CONTENT, "photos")
    put = must(desk, "put", "photos", "--json").data
    assert [file["holding"] for file in put["files"]] == ["plain", "secret"]
    assert all(file["sent"] > len(CONTENT) for file in put["files"])
    again = must(desk, "put", "photos").stdout.splitlines()
    assert again == [
        f"photos in {holding}: version 1, unchanged" for holding in ("plain", "secret")
    ]
    for holding in ("plain", "secret"):
        out = world.folder / f"from {holding}"
        facts = must(desk, "get", "photos", "--from", holding, "--out", str(out), "--json").data
        assert (facts["holding"], facts["bad"], facts["lost"]) == (holding, [], [])
        assert out.read_bytes() == CONTENT


@pytest.mark.slow
def test_what_a_get_before_has_fetched_is_not_fetched_again(world: World, desk: Workplace) -> None:
    world.file(CONTENT, "photos")
    must(desk, "put", "photos", "--to", "plain")
    mark = hashlib.sha256(CONTENT).hexdigest()[:8]
    for name in ("back", "more"):
        world.file(CONTENT, f".{name}.{mark}.part")
    told = must(desk, "get", "photos", "--out", "back").stdout
    assert told == "wrote back: 20000 bytes (20000 downloaded before), from plain\n"
    assert must(desk, "get", "photos", "--out", "more", "--json").data["kept"] == len(CONTENT)
    assert (world.folder / "more").read_bytes() == CONTENT
    assert not list(world.folder.glob(".*.part"))


@pytest.mark.slow
def test_the_list_names_what_is_where(world: World, desk: Workplace) -> None:
    world.file(CONTENT, "photos")
    must(desk, "put", "photos", "--to", "secret", "--name", "from the attic")
    plain, secret = must(desk, "holding", "list", "--files", "--json").data["holdings"]
    assert (plain["holding"], plain["file_count"], plain["files"]) == ("plain", 0, [])
    assert (secret["encrypted"], secret["bytes"], secret["number"]) == (True, len(CONTENT), 0)
    assert [file["name"] for file in secret["files"]] == ["from the attic"]
    assert (
        "from the attic: 20000 bytes, version 1" in must(desk, "holding", "list", "--files").stdout
    )


@pytest.mark.slow
def test_several_files_are_put_by_one_command(world: World, desk: Workplace) -> None:
    for name in ("a", "b", "c"):
        world.file(name.encode(), name)
    must(desk, "put", "a", "b", "c", "--to", "plain")
    (plain, _) = must(desk, "holding", "list", "--json").data["holdings"]
    assert plain["file_count"] == 3


def grow_tree(world: World) -> dict[str, bytes]:
    """Make a folder of four files, two of which are called the same; return what they hold."""
    files = {
        "json/__init__.py": b"json",
        "email/__init__.py": b"email",
        "email/mime/text.py": b"",
        "README": b"read me",
    }
    for name, content in files.items():
        path = world.folder / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return files


def read_tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.slow
def test_two_files_of_one_name_in_a_tree_never_become_one(world: World, desk: Workplace) -> None:
    grow_tree(world)
    first, second = (f"tree/{name}/__init__.py" for name in ("json", "email"))
    must(desk, "put", first)
    sentence = desk.run("put", second).sentence()  # which asks for exit code 2
    assert str(world.folder / first) in sentence
    assert str(world.folder / second) in sentence
    sentence = desk.run("put", first, second, "--to", "plain").sentence()
    assert sentence.startswith(f"{first} and {second} have the same name, '__init__.py'")


@pytest.mark.slow
def test_a_folder_is_put_by_its_paths_and_restored(world: World, desk: Workplace) -> None:
    files = grow_tree(world)
    put = must(desk, "put", "-r", "tree", "--to", "plain", "--json").data["files"]
    assert [file["name"] for file in put] == sorted(files)
    again = must(desk, "put", "-r", "tree", "--to", "plain", "--json").data["files"]
    assert [file["sent"] for file in again] == [0, 0, 0, 0]
    must(desk, "get", "-r", ".", "--out", "back")
    assert read_tree(world.folder / "back") == files
    must(desk, "get", "-r", "email/")
    assert read_tree(world.folder / "email") == {"__init__.py": b"email", "mime/text.py": b""}
    must(desk, "get", "json/__init__.py")
    assert (world.folder / "json/__init__.py").read_bytes() == b"json"
    for words in (("nowhere/x",), ("-r", "nowhere")):
        assert "no holding has" in desk.run("get", *words).sentence()
    assert not (world.folder / "nowhere").exists()


@pytest.mark.slow
def test_a_folder_that_is_restored_in_part_is_completed(world: World, desk: Workplace) -> None:
    files = grow_tree(world)
    must(desk, "put", "-r", "tree", "--to", "plain")
    must(desk, "get", "-r", ".", "--out", "back")
    (world.folder / "back/README").unlink()
    said = must(desk, "get", "-r", ".", "--out", "back").stdout
    assert said == "wrote back/README: 7 bytes, from plain\n3 of 4 files were there already\n"
    (world.folder / "back/README").write_bytes(b"mine")
    (world.folder / "back/json/__init__.py").unlink()
    sentence = desk.run("get", "-r", ".", "--out", "back").sentence()
    assert sentence.startswith("back/README exists already and is another file")
    assert read_tree(world.folder / "back") == {
        **{name: content for name, content in files.items() if name != "json/__init__.py"},
        "README": b"mine",
    }


@pytest.mark.slow
def test_a_folder_in_which_one_file_is_refused_sends_nothing(world: World, desk: Workplace) -> None:
    files = grow_tree(world)
    world.file(b"another", "README")
    must(desk, "put", "README", "--to", "plain")
    sentence = desk.run("put", "-r", "tree", "--to", "plain").sentence()
    assert "has 'README' from" in sentence
    must(desk, "put", "-r", "tree", "--to", "plain", "--name", "lib/python")
    (plain, _) = must(desk, "holding", "list", "--files", "--json").data["holdings"]
    names = {file["name"] for file in plain["files"]}
    assert names == {"README", *(f"lib/python/{name}" for name in files)}


def test_a_folder_that_can_not_be_put_is_refused(world: World, desk: Workplace) -> None:
    folder = world.folder / "tree"
    folder.mkdir()
    assert desk.run("put", "tree").sentence() == "tree is a folder: put what is in it with -r"
    assert desk.run("put", "-r", "tree").sentence() == "there are no files in tree"
    (folder / "link").symlink_to(world.folder)
    assert "is a link to a folder" in desk.run("put", "-r", "tree").sentence()
    (folder / "link").unlink()
    (folder / "gone").symlink_to("nothing")
    assert "it is not a regular file" in desk.run("put", "-r", "tree").sentence()
    assert "'../up' can't be the name" in desk.run("get", "../up").sentence()
    assert "'/etc/passwd' can't be the name" in desk.run("rm", "/etc/passwd").sentence()


@pytest.mark.slow
def test_a_second_file_of_the_same_name_is_refused_until_it_is_named_or_meant(
    world: World, desk: Workplace
) -> None:
    """Before: exit 0, and the second file had silently replaced the first."""
    for folder in ("a", "b"):
        (world.folder / folder).mkdir()
        world.file(folder.encode(), f"{folder}/x")
    must(desk, "put", "a/x", "--to", "plain")
    sentence = desk.run("put", "b/x", "--to", "plain").sentence()  # which asks for exit code 2
    first, second = world.folder / "a" / "x", world.folder / "b" / "x"
    assert sentence == (
        f"holding 'plain' has 'x' from {first}, and {second} is another file: give it another "
        "name with --name, or replace the first one with --replace"
    )
    assert desk.run("put", "b/x").sentence() == sentence
    must(desk, "put", "a/x", "--to", "plain")
    must(desk, "put", "b/x", "--to", "plain", "--name", "b-x")
    (plain, secret) = must(desk, "holding", "list", "--files", "--json").data["holdings"]
    assert [(file["name"], file["source"]) for file in plain["files"]] == [
        ("x", str(first)),
        ("b-x", str(second)),
    ]
    assert secret["files"] == [], "refused by one holding, it went to none"
    put = must(desk, "put", "b/x", "--to", "plain", "--replace", "--json").data["files"]
    assert [file["version"] for file in put] == [2]
    must(desk, "get", "x", "--from", "plain", "--out", "back")
    assert (world.folder / "back").read_bytes() == b"b"


@pytest.mark.slow
def test_a_removed_file_is_gone_from_everywhere(world: World, desk: Workplace) -> None:
    world.file(CONTENT, "photos")
    must(desk, "put", "photos")
    assert must(desk, "rm", "photos", "--json").data["removed_from"] == ["plain", "secret"]
    assert "no holding has a file 'photos'" in desk.run("get", "photos", "--out", "x").sentence()


@pytest.mark.slow
def test_damage_is_audited_repaired_and_audited_again(world: World, desk: Workplace) -> None:
    world.file(CONTENT, "photos")
    must(desk, "put", "photos")
    audits = must(desk, "audit", "now", "--samples", "90", "--json").data["audits"]
    assert [(a["holding"], a["outcome"], a["samples"]) for a in audits] == [
        ("plain", "passed", 90),
        ("secret", "passed", 90),
    ]
    damage(world, "plain", *range(0, 4096, BLOCK_BYTES))
    failed = desk.run("audit", "now", "plain", "--ratio", "1")
    assert failed.code == 1
    assert failed.stdout.startswith(
        "plain: FAILED: the node doesn't have all 100 sampled blocks of"
    )
    repaired = must(desk, "repair", "plain", "--json").data
    (file,) = repaired["files"]
    assert (file["damaged"], file["lost"]) == (67, [])
    assert repaired["audit"]["outcome"] == "passed"
    assert must(desk, "repair", "plain").stdout.startswith("no block of plain is damaged\n")


@pytest.mark.slow
def test_a_file_is_repaired_from_the_owners_own_copy(world: World, desk: Workplace) -> None:
    world.file(CONTENT, "photos")
    must(desk, "put", "photos", "--to", "secret")
    damage(world, "secret", 7)
    assert "photos: 0 of 1 damaged blocks restored" in desk.run("repair", "secret").stdout
    assert must(desk, "repair", "secret", "--source", "photos").stdout.splitlines()[0] == (
        "photos: 1 of 1 damaged blocks restored"
    )


@pytest.mark.slow
def test_a_repair_tells_how_far_it_is_and_which_bytes_are_lost(
    world: World, desk: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.cli.repair.LINE_SECONDS", 0.0)
    world.file(CONTENT, "photos")
    must(desk, "put", "photos", "--to", "plain")
    damage(world, "plain", 7)
    repaired = desk.run("repair", "plain")
    assert repaired.code == 1
    assert f"lost, because no copy has them: photos, bytes 0 to {BLOCK_BYTES - 1}\n" in (
        repaired.stdout
    )
    assert re.search(r"^localising: [\d,]+ of [\d,]+ blocks", repaired.stderr, re.MULTILINE)
    assert re.search(r"^repairing: 1 of 1 blocks$", repaired.stderr, re.MULTILINE)
    (file,) = desk.run("repair", "plain", "--json").data["files"]
    assert (file["blocks"], file["lost"]) == ([[0, 1]], [[0, 1]])
    assert file["lost_bytes"] == [[0, BLOCK_BYTES]]


def test_another_file_is_no_copy(world: World, desk: Workplace) -> None:
    world.file(CONTENT, "photos")
    must(desk, "put", "photos", "--to", "secret")
    damage(world, "secret", 7)
    world.file(CONTENT[::-1], "other")
    finished = desk.run("repair", "secret", "--source", "other", "--json")
    assert finished.code == 1
    assert finished.data["files"][0]["lost"] == [[0, 1]]


def test_what_is_lost_is_told_and_nothing_is_written(world: World, desk: Workplace) -> None:
    world.file(CONTENT, "photos")
    must(desk, "put", "photos", "--to", "plain")
    damage(world, "plain", 100)
    finished = desk.run("get", "photos", "--out", "back")
    assert finished.code == 1
    assert finished.stdout.splitlines() == [
        "photos: bytes 62 to 123 are lost",
        "photos can't be recovered: nothing was written",
    ]
    assert not (world.folder / "back").exists()


def test_contents_that_differ_must_be_told_apart(world: World, desk: Workplace) -> None:
    for holding in ("plain", "secret"):
        world.file(holding.encode(), "note")
        must(desk, "put", "note", "--to", holding)
    sentence = desk.run("get", "note", "--out", "back").sentence()
    assert "different versions of 'note': choose one with --from" in sentence
    must(desk, "get", "note", "--out", "back", "--from", "secret")
    assert (world.folder / "back").read_bytes() == b"secret"


def test_an_existing_file_is_not_overwritten(world: World, desk: Workplace) -> None:
    world.file(b"mine", "photos")
    must(desk, "put", "photos", "--to", "plain")
    assert "photos exists already" in desk.run("get", "photos").sentence()


def test_an_empty_holding_is_neither_audited_nor_repaired(desk: Workplace) -> None:
    assert "there is nothing to audit yet" in desk.run("audit", "now", "plain").sentence()
    assert "is empty: there is nothing to repair" in desk.run("repair", "plain").sentence()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("get nothing", "no holding has a file 'nothing'"),
        ("get nothing --from plain", "holding 'plain' has no file 'nothing'"),
        ("rm nothing", "no holding has a file 'nothing'"),
        ("rm nothing --from plain", "holding 'plain' has no file 'nothing'"),
        ("put nothing", "can't read nothing: No such file"),
        ("put home", "home is a folder: put what is in it with -r"),
        ("put owner.key owner.key --name x", "--name is for one file"),
        ("put home/owner.key --to attic", "there is no holding 'attic'"),
        ("audit now attic", "there is no holding 'attic'"),
        ("repair attic", "there is no holding 'attic'"),
        ("repair plain --source nothing", "can't read nothing: No such file"),
        ("audit now", "there is nothing to audit yet"),
        ("holding add plain http://127.0.0.1:1", "there is a holding 'plain' already"),
        ("holding add .hidden http://127.0.0.1:1", "can't be the name of a holding"),
        ("holding add new ftp://127.0.0.1", "begins with http:// or https://"),
        ("holding add new http://127.0.0.1:1", "can't reach the node"),
        ("holding add new http://127.0.0.1:1 --address 12", "--address is not 20 bytes"),
        ("holding add new http://127.0.0.1:1 --ca nothing", "nothing"),
        ("init", "is an owner's home already"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    desk: Workplace, words: str, reason: str
) -> None:
    assert reason in desk.run(*words.split()).sentence()


@pytest.mark.parametrize("sectors", ["0", "-1", "1025"])
def test_impossible_sectors_are_refused_before_anything_is_written(
    world: World, desk: Workplace, sectors: str
) -> None:
    before = sorted(world.home.folder.rglob("*"))
    for where in ([world.one.url], ["--direct", str(world.folder)]):
        refused = desk.run("holding", "add", "new", *where, "--sectors", sectors)
        assert refused.sentence() == "--sectors must be between 1 and 1024"
    assert sorted(world.home.folder.rglob("*")) == before


def test_an_empty_holding_keeps_no_other_from_being_audited(world: World, desk: Workplace) -> None:
    world.file(CONTENT, "photos")
    must(desk, "put", "photos", "--to", "secret")
    audits = must(desk, "audit", "now", "--json").data["audits"]
    assert [audit["holding"] for audit in audits] == ["secret"]
    sentence = desk.run("audit", "now", "--samples", "5", "--ratio", "0.1").sentence()
    assert sentence == "give --samples or --ratio, not both"


def test_a_holding_that_is_half_made_says_how_to_go_on(world: World, desk: Workplace) -> None:
    with world.home.catalogue() as catalogue:
        half = replace(catalogue.holding("plain"), name="half", salt=b"?" * 16, number=None)
        catalogue.add_holding(half)
    world.file(CONTENT, "photos")
    sentence = desk.run("put", "photos", "--to", "half").sentence()
    assert f"`holdfast holding add half {world.one.url}` finishes that" in sentence
    must(desk, "holding", "add", "half", world.one.url)
    must(desk, "put", "photos", "--to", "half")


@pytest.mark.slow
def test_a_wrong_passphrase_opens_nothing(desk: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_PASSPHRASE", "another")
    assert "the passphrase does not open" in desk.run("audit", "now").sentence()


def test_a_node_of_another_address_is_not_pinned(world: World, desk: Workplace) -> None:
    expected = world.one.address.hex()
    sentence = desk.run("holding", "add", "new", world.two.url, "--address", expected).sentence()
    assert "not the one expected" in sentence
    listed = must(desk, "holding", "list", "--json").data["holdings"]
    assert [holding["holding"] for holding in listed] == ["plain", "secret"]


def test_a_node_with_another_address_than_pinned_gets_nothing(
    world: World, desk: Workplace
) -> None:
    change = "UPDATE catalogue SET url = :url WHERE name = 'plain'"
    run_sql(world.home.address, change, url=world.two.url)
    world.file(CONTENT, "photos")
    assert "another node" in desk.run("put", "photos", "--to", "plain").sentence()


@pytest.mark.slow
def test_an_owner_whom_the_node_does_not_know_is_refused(
    world: World, desk: Workplace, tmp_path: Path
) -> None:
    must(desk, "init", "--home", str(tmp_path / "stranger"))
    sentence = desk.run(
        "holding", "add", "new", world.one.url, "--home", str(tmp_path / "stranger")
    ).sentence()
    assert sentence == "this node does not serve the owner who signed"
    listed = must(desk, "holding", "list", "--home", str(tmp_path / "stranger"), "--json").data
    assert listed == {"holdings": [], "removals": []}


@pytest.mark.slow
def test_a_node_that_is_away_is_left_out_where_another_will_do(
    world: World, desk: Workplace, tmp_path: Path
) -> None:
    world.file(CONTENT, "photos")
    key = world.one.folder.with_name("one.key")
    with node_process(tmp_path / "store", key, world.home.keyring.owner) as node:
        must(desk, "holding", "add", "away", node.url)
        must(desk, "put", "photos")
        damage(world, "plain", 7)
    finished = desk.run("get", "photos", "--out", "back")
    assert finished.code == 0
    assert "holding away is left out: can't reach the node" in finished.stderr
    assert (world.folder / "back").read_bytes() == CONTENT
    finished = desk.run("repair", "plain", "--json")
    assert finished.data["files"][0]["lost"] == []
    sentence = desk.run("put", "photos", "--name", "more").sentence()
    assert "more could not be put into holding away: can't reach the node" in sentence


@pytest.mark.slow
def test_an_audit_of_a_node_that_is_away_finds_it_offline(
    world: World, desk: Workplace, tmp_path: Path
) -> None:
    world.file(CONTENT, "photos")
    key = world.one.folder.with_name("one.key")
    with node_process(tmp_path / "store", key, world.home.keyring.owner) as node:
        must(desk, "holding", "add", "away", node.url)
        must(desk, "put", "photos", "--to", "away")
    finished = desk.run("audit", "now", "away", "--deadline", "3")
    assert finished.code == 1
    assert finished.stdout.startswith("away: OFFLINE: no proof for")
    assert finished.stdout.rstrip().endswith("that is not a failed proof")


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_a_put_that_is_stopped_between_two_nodes_goes_on(
    world: World, desk: Workplace, stop: signal.Signals
) -> None:
    world.file(random.Random(2).randbytes(1 << 18), "large")
    with QuickShell(world.folder).start("put", "large", passphrase=PASSPHRASE.decode()) as process:
        deadline = time.monotonic() + 60
        with world.home.holding("plain") as place:
            while len(world.one.stored(place, "data")) < 20:
                assert process.poll() is None
                assert time.monotonic() < deadline
        process.send_signal(stop)
        finished = end(process)
    stopped = {
        signal.SIGKILL: Finished(-signal.SIGKILL, "", ""),
        signal.SIGINT: Finished(130, "", "holdfast: interrupted\n"),
    }
    assert finished == stopped[stop]
    unfinished = must(desk, "holding", "list").stdout
    assert "large: upload unfinished, put it again to resume" in unfinished
    sent = [file["sent"] for file in must(desk, "put", "large", "--json").data["files"]]
    assert min(sent) < 1 << 18, "it went on where it stopped"
    must(desk, "audit", "now", "--samples", "100")
    must(desk, "get", "large", "--out", "back")
    assert (world.folder / "back").read_bytes() == (world.folder / "large").read_bytes()


@pytest.mark.slow
def test_a_put_that_waits_for_the_database_says_so_and_ends_in_time(
    world: World, desk: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: it waited for 65 seconds without a word."""
    monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 3)
    world.file(CONTENT, "photos")
    with closing(sqlite3.connect(world.home.address, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        start = time.monotonic()
        finished = desk.run("put", "photos", "--to", "plain")
        assert 2.5 < time.monotonic() - start < 20
        other.execute("ROLLBACK")
    assert finished.code == 2
    waiting, ended = finished.stderr.splitlines()
    assert waiting.endswith("is writing to the database: waiting for it, at most 3 seconds")
    assert ended.endswith("for 3 seconds: try again when it has ended")
    must(desk, "put", "photos", "--to", "plain")


@pytest.mark.slow
def test_a_command_that_waits_for_another_one_says_so(world: World, desk: Workplace) -> None:
    world.file(CONTENT, "photos")
    sentence = "holdfast: another process is changing plain: waiting until it has ended\n"
    with ExitStack() as changing:
        changing.enter_context(world.home.changing("plain"))
        with QuickShell(desk.directory).start("put", "photos", "--to", "plain") as process:
            assert process.stderr is not None
            assert process.stderr.readline() == sentence
            changing.close()
            assert end(process).code == 0
