"""The owner's commands on real nodes: what they print, and with which code they leave."""

import hashlib
import random
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.command_line import Finished, Shell, Workplace, end
from tests.support.database import run_sql
from tests.support.owner_env import BLOCK_BYTES, PASSPHRASE, World, flip, node_process

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


def test_several_files_are_put_by_one_command(world: World, desk: Workplace) -> None:
    for name in ("a", "b", "c"):
        world.file(name.encode(), name)
    must(desk, "put", "a", "b", "c", "--to", "plain")
    (plain, _) = must(desk, "holding", "list", "--json").data["holdings"]
    assert plain["file_count"] == 3


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


def test_a_file_is_repaired_from_the_owners_own_copy(world: World, desk: Workplace) -> None:
    world.file(CONTENT, "photos")
    must(desk, "put", "photos", "--to", "secret")
    damage(world, "secret", 7)
    assert "photos: 0 of 1 damaged blocks restored" in desk.run("repair", "secret").stdout
    assert must(desk, "repair", "secret", "--source", "photos").stdout.splitlines()[0] == (
        "photos: 1 of 1 damaged blocks restored"
    )


def test_another_file_is_no_copy(world: World, desk: Workplace) -> None:
    world.file(CONTENT, "photos")
    must(desk, "put", "photos", "--to", "secret")
    damage(world, "secret", 7)
    world.file(CONTENT[::-1], "other")
    finished = desk.run("repair", "secret", "--source", "other", "--json")
    assert finished.code == 1
    assert finished.data["files"][0]["lost"] == [0]


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
        ("put home", "can't read home: it is not a regular file"),
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
    assert listed == {"holdings": []}


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
def test_an_audit_of_a_node_that_is_away_times_out(
    world: World, desk: Workplace, tmp_path: Path
) -> None:
    world.file(CONTENT, "photos")
    key = world.one.folder.with_name("one.key")
    with node_process(tmp_path / "store", key, world.home.keyring.owner) as node:
        must(desk, "holding", "add", "away", node.url)
        must(desk, "put", "photos", "--to", "away")
    finished = desk.run("audit", "now", "away", "--deadline", "1")
    assert finished.code == 1
    assert finished.stdout.startswith("away: TIMEOUT: no proof for")
    assert finished.stdout.rstrip().endswith("that is not a failed proof")


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_a_put_that_is_stopped_between_two_nodes_goes_on(
    world: World, desk: Workplace, stop: signal.Signals
) -> None:
    world.file(random.Random(2).randbytes(1 << 18), "large")
    with Shell(world.folder).start("put", "large", passphrase=PASSPHRASE.decode()) as process:
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
