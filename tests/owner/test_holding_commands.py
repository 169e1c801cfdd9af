"""Commands about a holding: another URL, another name, and its removal."""

import io
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command_line import Finished, Workplace
from tests.support.owner_env import RunningNode, World, new_node_key, node_process

from holdfast.evidence import leaf
from holdfast.owner import find_damage
from holdfast.storage.database import connect, transaction
from holdfast.storage.schema import leaves

CONTENT = b"something to keep" * 100


def must(desk: Workplace, *words: str) -> Finished:
    finished = desk.run(*words)
    assert (finished.code, finished.stderr) == (0, ""), finished
    return finished


def instructions(world: World) -> list[tuple[str, str, str]]:
    """Return what the evidence has of the operator's commands: order, subject and reason."""
    engine = connect(world.home.address)
    with transaction(engine) as connection:
        bodies = connection.execute(leaves.select().order_by(leaves.c.id)).all()
    engine.dispose()
    entries = [leaf.decode(bytes(row.body)) for row in bodies]
    return [(e.order, e.subject, e.reason) for e in entries if isinstance(e, leaf.Instruction)]


def stored(world: World, node: RunningNode) -> list[Path]:
    """Return what a node stores for the owner."""
    folder = node.folder / world.home.keyring.owner.hex()
    return sorted(folder.iterdir()) if folder.exists() else []


@pytest.fixture
def moving(world: World, tmp_path: Path) -> Iterator[tuple[RunningNode, Path, Path]]:
    """Yield a node with the holding `attic`, its folder and its key, from which it can move."""
    folder, key = tmp_path / "moving", tmp_path / "moving.key"
    new_node_key(key)
    with node_process(folder, key, world.home.keyring.owner) as node:
        world.add("attic", node, encrypted=False, sectors=2)
        world.put("attic", world.file(CONTENT))
        yield node, folder, key


@pytest.mark.slow
def test_a_node_that_moved_is_followed(
    world: World, desk: Workplace, moving: tuple[RunningNode, Path, Path]
) -> None:
    node, folder, key = moving
    node.process.terminate()
    node.process.wait()
    assert desk.run("get", "file", "--out", "back").code == 2
    with node_process(folder, key, world.home.keyring.owner) as moved:
        data = must(desk, "holding", "set-url", "attic", moved.url, "--json").data
        assert (data["url"], data["node"]) == (moved.url, node.address.hex())
        must(desk, "get", "file", "--out", "back")
    assert (world.folder / "back").read_bytes() == CONTENT
    assert instructions(world) == [(leaf.Order.SET_URL, f"attic to {moved.url}", "")]


@pytest.fixture
def lost(
    world: World, desk: Workplace, moving: tuple[RunningNode, Path, Path]
) -> Iterator[RunningNode]:
    """Yield the node of `attic`, started again after all that it stored was deleted."""
    node, folder, key = moving
    world.put("attic", world.file(b"more" * 1000, "more"))
    node.process.kill()
    node.process.wait()
    shutil.rmtree(folder / world.home.keyring.owner.hex())
    with node_process(folder, key, world.home.keyring.owner) as again:
        must(desk, "holding", "set-url", "attic", again.url)
        yield again


@pytest.mark.slow(seconds=30)
def test_a_node_that_no_longer_knows_a_holding_admits_its_loss(
    world: World, desk: Workplace, lost: RunningNode
) -> None:
    audited = desk.run("audit", "now", "attic", "--json")
    assert (audited.code, audited.data["audits"][0]["outcome"]) == (1, "admitted")
    with world.home.holding("attic") as holding:
        damage = sum(file.blocks.count for file in find_damage(holding))
        assert damage == holding.inventory.blocks
    sentence = desk.run("put", str(world.file(b"new", "new")), "--to", "attic").sentence()
    assert "no longer knows it: `holdfast repair attic` puts its files there again" in sentence
    removed = desk.run("holding", "rm", "attic", "--yes")
    assert removed.code == 0
    assert f"the node at {lost.url} no longer knows it" in removed.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("lost")
def test_a_lost_holding_is_put_on_its_node_again(world: World, desk: Workplace) -> None:
    sentence = desk.run("repair", "attic").sentence()
    assert "no longer has 'file', and no other holding has all of it" in sentence
    world.put("secret", world.folder / "more")
    repaired = must(desk, "repair", "attic", "--source", "file", "--json").data
    assert [file["name"] for file in repaired["files"]] == ["file", "more"]
    assert repaired["audit"]["outcome"] == "passed"
    must(desk, "get", "more", "--from", "attic", "--out", "back")
    assert (world.folder / "back").read_bytes() == b"more" * 1000
    must(desk, "put", str(world.file(b"new", "new")), "--to", "attic")
    assert must(desk, "repair", "attic", "--json").data["files"] == []


def test_another_node_at_the_new_url_is_refused(world: World, desk: Workplace) -> None:
    sentence = desk.run("holding", "set-url", "plain", world.two.url).sentence()
    assert sentence.startswith(f"holding 'plain' stays at {world.one.url}: the node at")
    assert "not the one expected" in sentence
    assert desk.run("holding", "set-url", "plain", "http://127.0.0.1:9").code == 2
    assert desk.run("holding", "set-url", "plain", "nonsense").code == 2
    with world.home.catalogue() as catalogue:
        assert catalogue.holding("plain").url == world.one.url
    assert instructions(world) == []


def test_other_holdings_of_a_node_that_moved_are_named(world: World, desk: Workplace) -> None:
    world.add("more", world.one, encrypted=False, sectors=2)
    url = world.one.url.replace("127.0.0.1", "localhost")
    finished = must(desk, "holding", "set-url", "plain", url)
    assert finished.stdout.splitlines() == [
        f"holding plain is at {url} now",
        f"the same node has more, still at {world.one.url}",
    ]


@pytest.mark.slow
def test_a_renamed_holding_keeps_its_files(world: World, desk: Workplace) -> None:
    world.file(CONTENT, "photos")
    must(desk, "put", "photos", "--to", "secret")
    data = must(desk, "holding", "rename", "secret", "loft", "--reason", "moved", "--json").data
    assert (data["holding"], data["former_name"]) == ("loft", "secret")
    listed = must(desk, "holding", "list", "--files", "--json").data["holdings"]
    assert [(row["holding"], row["file_count"]) for row in listed] == [("loft", 1), ("plain", 0)]
    must(desk, "get", "photos", "--from", "loft", "--out", "back")
    must(desk, "put", "photos", "--to", "loft")
    assert (world.folder / "back").read_bytes() == CONTENT
    assert "there is no holding 'secret'" in desk.run("repair", "secret").sentence()
    assert instructions(world) == [(leaf.Order.RENAME, "secret to loft", "moved")]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("rename plain secret", "there is a holding 'secret' already"),
        ("rename plain ../x", "can't be the name of a holding"),
        ("rename nothing new", "there is no holding 'nothing'"),
        ("set-url nothing http://127.0.0.1:9", "there is no holding 'nothing'"),
        ("rm nothing --yes", "there is no holding 'nothing'"),
        ("rm plain", "There is no terminal to ask on: confirm it with --yes"),
    ],
)
def test_what_can_not_be_done_is_refused_in_one_sentence(
    world: World, desk: Workplace, monkeypatch: pytest.MonkeyPatch, words: str, reason: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert reason in desk.run("holding", *words.split()).sentence()
    assert instructions(world) == []


@pytest.mark.slow
def test_a_removed_holding_is_gone_from_home_and_node(world: World, desk: Workplace) -> None:
    world.file(CONTENT, "photos")
    world.file(b"only here", "note")
    must(desk, "put", "photos")
    must(desk, "put", "note", "--to", "plain")
    before = len(stored(world, world.one))
    finished = desk.run("holding", "rm", "plain", "--yes", "--json")
    assert finished.code == 0
    fate = f"they are deleted on the node at {world.one.url}"
    assert finished.stderr.splitlines() == [
        f"holdfast: holding plain has 2 files of 1,709 bytes: {fate}",
        "holdfast: no other holding has: note",
    ]
    assert (finished.data["files"], finished.data["last_replicas"]) == (
        ["photos", "note"],
        ["note"],
    )
    assert finished.data["files_deleted"]
    assert len(stored(world, world.one)) == before - 1
    listed = must(desk, "holding", "list", "--json").data
    assert [row["holding"] for row in listed["holdings"]] == ["secret"]
    assert listed["removals"] == []
    assert instructions(world)[0][:2] == (leaf.Order.REMOVE, "plain, with its files deleted")
    world.add("plain", world.one, encrypted=False, sectors=2)
    must(desk, "put", "photos", "--to", "plain")


@pytest.mark.slow
def test_files_can_be_kept_on_the_node(world: World, desk: Workplace) -> None:
    world.file(CONTENT, "photos")
    must(desk, "put", "photos")
    before = stored(world, world.one)
    finished = desk.run("holding", "rm", "plain", "--keep-files", "--yes")
    assert finished.code == 0
    assert "they stay on the node" in finished.stderr
    assert "no other holding" not in finished.stderr
    assert stored(world, world.one) == before
    assert instructions(world)[0][1] == "plain, with its files left on its node"


@pytest.mark.slow
def test_a_holding_on_a_node_that_is_gone_can_be_removed(
    desk: Workplace, moving: tuple[RunningNode, Path, Path]
) -> None:
    moving[0].process.terminate()
    moving[0].process.wait()
    finished = desk.run("holding", "rm", "attic", "--yes", "--json")
    assert finished.code == 0, finished
    assert "because it can't be asked to delete them" in finished.stderr
    assert not finished.data["files_deleted"]
    assert must(desk, "holding", "list", "--json").data["removals"] == []


def test_a_holding_that_is_being_changed_stays(
    world: World, desk: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.control.holding_commands.LOCK_TIMEOUT_SECONDS", 0.0)
    with world.home.changing("plain"):
        for words in ("rename plain loft", "rm plain --yes --keep-files"):
            finished = desk.run("holding", *words.split())
            assert finished.code == 2
            assert "is being changed by another process" in finished.stderr
    must(desk, "holding", "rename", "plain", "loft")


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2)])
def test_on_a_terminal_the_operator_is_asked(
    world: World, desk: Workplace, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    ours, theirs = os.openpty()
    os.write(ours, f"{answer}\n".encode())
    with os.fdopen(theirs) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        finished = desk.run("holding", "rm", "plain", "--keep-files")
    os.close(ours)
    assert finished.code == code, finished
    assert "holding plain has no files" in finished.stderr
    with world.home.catalogue() as catalogue:
        names = [record.name for record in catalogue.holdings()]
    assert names == (["secret"] if code == 0 else ["plain", "secret"])
