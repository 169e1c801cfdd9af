"""`holdfast pdp` as its users meet it: tag, challenge, prove, verify, and find what is damaged."""

import base64
import itertools
import os
import pty
import random
import re
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import (
    BLOCK_BYTES,
    PASSPHRASE,
    Finished,
    Shell,
    Workplace,
    damage,
    end,
    new_key,
    snapshot,
)

from holdfast.cli.terminal import one_line
from holdfast.pdp import Challenge, Inventory, PublicKey, read_key

PHOTOS, LETTERS = "photos of März 2024.tar", "письма.txt"
DEFAULT_BLOCK = 31 * 16
PROVE = "prove challenge.json one.bin two.bin --out proof.json"
VERIFY_WITH_KEY = "verify challenge.json proof.json --key owner.key"
VERIFY_IN_PUBLIC = "verify challenge.json proof.json --public owner.pub --target target.json"


@dataclass(frozen=True)
class Story:
    """The whole way of one audit and of a second one after damage, told once for many tests."""

    directory: Path
    said: dict[str, Finished]

    def data(self, command: str) -> Any:
        assert not self.said[command].stderr
        return self.said[command].data


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    directory = tmp_path_factory.mktemp("story")
    shell = Shell(directory)
    said: dict[str, Finished] = {}
    generator = random.Random(7)
    (directory / PHOTOS).write_bytes(generator.randbytes(100 * DEFAULT_BLOCK))
    (directory / LETTERS).write_bytes(generator.randbytes(50 * DEFAULT_BLOCK + 5))

    def tell(name: str, *arguments: str) -> None:
        said[name] = shell.run("pdp", *arguments)

    files, key = (PHOTOS, LETTERS), ("--key", "owner.key")
    public = ("--public", "owner.pub", "--target", "target")
    said["keygen"] = shell.script("umask 0; $holdfast pdp keygen --out owner.key --json")
    tell("tag", "tag", *files, *key, "--json")
    tell("ask", "challenge", "--ratio", "1", "--out", "ask", "--target", "target", *key)
    tell("prove", "prove", "ask", *files, "--out", "proof", "--json")
    tell("verify with the key", "verify", "ask", "proof", *key, "--json")
    tell("verify in public", "verify", "ask", "proof", *public, "--json")
    damage(directory / PHOTOS, 17 * DEFAULT_BLOCK)
    damage(directory / LETTERS, 50 * DEFAULT_BLOCK + 4)
    tell("prove the damaged", "prove", "ask", *files, "--out", "proof")
    tell("refute with the key", "verify", "ask", "proof", *key, "--json")
    tell("refute in public", "verify", "ask", "proof", *public, "--json")
    tell("locate", "locate", *files, *key, "--json")
    return Story(directory, said)


@pytest.mark.slow
def test_an_intact_holding_passes_with_the_key_and_in_public(story: Story) -> None:
    for name in ("keygen", "tag", "ask", "prove", "verify with the key", "verify in public"):
        assert story.said[name].code == 0, story.said[name]
    with_key, in_public = story.data("verify with the key"), story.data("verify in public")
    assert with_key["passed"] is True
    assert in_public["passed"] is True
    assert {with_key["form"], in_public["form"]} == {"with the key", "in public"}
    asked = Challenge.decode((story.directory / "ask").read_bytes())
    assert with_key["challenge_id"] == in_public["challenge_id"] == asked.id.hex()
    assert story.data("prove")["samples"] == asked.samples == 152


def test_a_damaged_holding_is_a_finding_with_the_key_and_in_public(story: Story) -> None:
    assert story.said["prove the damaged"].code == 0
    for name in ("refute with the key", "refute in public"):
        assert story.said[name].code == 1
        assert story.data(name)["passed"] is False


def test_locate_names_the_damaged_blocks_and_nothing_else(story: Story) -> None:
    assert story.said["locate"].code == 1
    found = story.data("locate")
    assert [(place["file"], place["block"], place["offset"]) for place in found["damaged"]] == [
        (PHOTOS, 17, 17 * DEFAULT_BLOCK),
        (LETTERS, 50, 50 * DEFAULT_BLOCK),
    ]
    assert found["inconsistent"] == []
    assert found["proofs"] <= 2 * 2 * 8 + 1  # at most 2 c log2(n) + 1


def test_tag_enters_each_file_into_the_inventory(story: Story) -> None:
    tagged = story.data("tag")
    inventory = Inventory.decode((story.directory / "holding.inventory").read_bytes())
    assert tagged["inventory_hash"] == inventory.hash.hex()
    assert inventory.key_id.hex() == story.data("keygen")["key_id"]
    # A length that is a multiple of the block's needs a block for the padding alone.
    for file, entry, blocks in zip(tagged["files"], inventory.files, (101, 51), strict=True):
        assert file["file_id"] == entry.file_id.hex()
        assert file["version"] == entry.version == 1
        assert file["blocks"] == entry.blocks == blocks
        assert (story.directory / file["tags"]).stat().st_size == file["tag_bytes"]
    assert [file["tags"] for file in tagged["files"]] == [f"{PHOTOS}.tags", f"{LETTERS}.tags"]


@pytest.mark.parametrize(
    ("asked", "samples"),
    [
        ("--samples 30", 30),
        ("--samples 82", 82),
        ("--ratio 0.25", 21),
        ("--ratio 0.000001", 1),
        ("--ratio 1", 82),
        ("--confidence 0.9 --damage 0.05", 36),
        ("--confidence 0.5 --damage 1", 1),
    ],
)
def test_a_challenge_samples_as_many_blocks_as_it_was_asked_to(
    holding: Workplace, asked: str, samples: int
) -> None:
    told = holding.must(f"challenge {asked} --out drawn.json --json").data
    drawn = Challenge.decode((holding.directory / "drawn.json").read_bytes())
    assert (told["challenge"], told["challenge_id"]) == ("drawn.json", drawn.id.hex())
    assert (told["blocks"], told["samples"]) == (drawn.blocks, drawn.samples) == (82, samples)
    damaged = round(told["damage"] * 82)
    missed = comb(82 - damaged, samples) / comb(82, samples)
    assert told["detection_probability"] == pytest.approx(1 - missed)


def test_a_confidence_is_reached_with_the_fewest_blocks(holding: Workplace) -> None:
    told = holding.must("challenge --confidence 0.9 --damage 0.05 --out drawn.json --json").data
    fewest = next(n for n in range(1, 83) if 1 - comb(78, n) / comb(82, n) >= 0.9)
    assert told["samples"] == fewest


def test_the_key_file_is_its_owners_alone_whatever_the_umask(story: Story) -> None:
    assert stat.S_IMODE((story.directory / "owner.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((story.directory / "owner.pub").stat().st_mode) == 0o666


def forms_of(secret: bytes) -> set[bytes]:
    """Return how a secret could have slipped into a file or a message."""
    forms = {secret, secret[::-1], base64.b64encode(secret)}
    for order in (secret, secret[::-1]):
        number = int.from_bytes(order, "big")
        forms |= {order.hex().encode(), order.hex().upper().encode(), str(number).encode()}
    return forms


@pytest.mark.slow
def test_no_secret_leaves_the_key_file(story: Story, workplace: Workplace) -> None:
    at = story.directory
    (at / "wrong").write_text("another passphrase")
    verify = ("verify", at / "ask", at / "proof", "--key", at / "owner.key")
    wrong_passphrase = workplace.pdp("", *verify, "--passphrase-file", at / "wrong")
    wrong_inventory = workplace.pdp("", *verify, "--inventory", at / "ask")
    errors = [wrong_passphrase, wrong_inventory]
    told = [*story.said.values(), *errors]
    open_text = [(said.stdout + said.stderr).encode() for said in told]
    open_text += [path.read_bytes() for path in story.directory.iterdir()]

    def appears(secret: bytes) -> bool:
        return any(form in text for form in forms_of(secret) for text in open_text)

    key = read_key(story.directory / "owner.key", PASSPHRASE.encode())
    assert all(appears(x) for x in key.public.abscissas), "the search itself must work"
    assert appears(key.public.id)
    assert not appears(key.master)
    assert not appears(PASSPHRASE.encode())
    assert not any(appears(alpha.to_bytes(32, "big")) for alpha in key.alphas)
    assert "passphrase does not open" in wrong_passphrase.sentence()
    assert "not a Holdfast inventory" in wrong_inventory.sentence()


def test_without_json_a_person_reads_what_happened(holding: Workplace) -> None:
    said = holding.must("tag one.bin --key owner.key").stdout
    assert said.startswith("one.bin: 2487 bytes in 41 blocks, tags in one.bin.tags")
    assert "version 2 of file" in said
    said = holding.must("challenge --samples 82 --out challenge.json").stdout
    assert said.startswith("82 of 82 blocks")
    assert holding.must(PROVE).stdout.startswith("wrote proof.json: one proof for 82 blocks")
    assert holding.must(VERIFY_WITH_KEY).stdout.startswith("passed, checked with the key")
    assert holding.must("locate one.bin two.bin --key owner.key").stdout.startswith("no damaged")
    damage(holding.directory / "two.bin", 3 * BLOCK_BYTES)
    holding.must(PROVE)
    assert holding.pdp(VERIFY_WITH_KEY).stdout.startswith("FAILED, checked with the key")
    found = holding.pdp("locate one.bin two.bin --key owner.key")
    assert found.code == 1
    assert found.stdout.splitlines()[0] == "two.bin: block 3 is damaged (bytes 186 to 247)"
    assert found.stdout.splitlines()[1].startswith("1 damaged of 82 blocks")


def test_a_changed_file_becomes_version_2_and_its_old_proof_passes_no_longer(
    holding: Workplace,
) -> None:
    (before,) = (
        entry for entry in inventory_of(holding).files if entry.file_id == file_id_of(holding)
    )
    (holding.directory / "one.bin").write_bytes(b"something else")
    tagged = holding.must("tag one.bin --key owner.key --json").data
    assert tagged["files"][0]["version"] == 2
    assert tagged["files"][0]["file_id"] == before.file_id.hex()
    assert [entry.version for entry in inventory_of(holding).files] == [2, 1]

    assert "older state" in holding.pdp(VERIFY_WITH_KEY).sentence()
    holding.must("challenge --ratio 1 --out challenge.json --target target.json --key owner.key")
    for form in (VERIFY_WITH_KEY, VERIFY_IN_PUBLIC):
        assert holding.pdp(form).code == 1
    holding.must(PROVE)
    for form in (VERIFY_WITH_KEY, VERIFY_IN_PUBLIC):
        holding.must(form)


def inventory_of(holding: Workplace) -> Inventory:
    return Inventory.decode((holding.directory / "holding.inventory").read_bytes())


def file_id_of(holding: Workplace) -> bytes:
    """Return the id that the tags of one.bin name."""
    return (holding.directory / "one.bin.tags").read_bytes()[48:64]


def test_tags_of_an_older_version_do_not_answer_for_the_new_one(holding: Workplace) -> None:
    old = (holding.directory / "one.bin.tags").read_bytes()
    holding.must("tag one.bin --key owner.key")
    holding.must("challenge --ratio 1 --out challenge.json")
    (holding.directory / "one.bin.tags").write_bytes(old)
    assert "version 1" in holding.pdp(PROVE).sentence()


def test_every_challenge_is_fresh(holding: Workplace) -> None:
    drawn = [
        holding.must("challenge --samples 9 --out again.json --json").data["challenge_id"]
        for _ in range(5)
    ]
    assert len(set(drawn)) == 5


@pytest.mark.parametrize("protocol", ["file", "local"])
def test_a_file_may_be_an_fsspec_address(
    workplace: Workplace, tmp_path_factory: pytest.TempPathFactory, protocol: str
) -> None:
    new_key(workplace.directory)
    elsewhere = tmp_path_factory.mktemp("else where") / "photos.tar"
    elsewhere.write_bytes(random.Random(3).randbytes(1000))
    address = f"{protocol}://{elsewhere}"
    workplace.must("tag --key owner.key", address)
    assert len(list(workplace.directory.glob("photos.tar-*.tags"))) == 1
    assert [path.name for path in elsewhere.parent.iterdir()] == ["photos.tar"]
    workplace.must("challenge --ratio 1 --out challenge.json")
    workplace.must("prove challenge.json --out proof.json", address)
    workplace.must(VERIFY_WITH_KEY)
    damage(elsewhere, 999)
    workplace.must("prove challenge.json --out proof.json", address)
    assert workplace.pdp(VERIFY_WITH_KEY).code == 1
    found = workplace.pdp("locate --key owner.key --json", address)
    assert found.code == 1
    assert [(place["file"], place["block"]) for place in found.data["damaged"]] == [
        (address, 999 // BLOCK_BYTES)
    ]


@pytest.mark.parametrize(
    "name",
    ["with spaces", "ünïcödé 数据 🗄", "-begins-with-a-dash", ".hidden", "100%[bold]", "a\tb"],
)
def test_a_file_may_have_any_name(workplace: Workplace, name: str) -> None:
    new_key(workplace.directory)
    file = workplace.directory / name
    file.write_bytes(b"content of the file" * 20)
    tagged = workplace.must("tag --key owner.key --json --", name)
    assert tagged.data["files"][0]["tags"] == f"{name}.tags"
    workplace.must("challenge --ratio 1 --out challenge.json")
    workplace.must("prove challenge.json --out proof.json --", name)
    workplace.must(VERIFY_WITH_KEY)
    damage(file, 0)
    found = workplace.pdp("locate --key owner.key --", name)
    assert found.code == 1
    assert f"{one_line(name)}: block 0 is damaged" in found.stdout


@pytest.mark.slow
def test_a_name_that_is_not_text_does_no_harm(shell: Shell) -> None:
    new_key(shell.directory)
    (shell.directory / os.fsdecode(b"caf\xe9")).write_bytes(b"content")
    # How Python writes in most locales; in C.UTF-8 it is laxer.
    tag = "PYTHONIOENCODING=utf-8:strict $holdfast pdp tag --key owner.key"
    tagged = shell.script(f"{tag} \"$(printf 'caf\\351')\"")
    assert (tagged.code, tagged.stderr) == (0, "")
    missing = shell.script(f"{tag} \"$(printf 'th\\351')\"")
    assert "No such file" in missing.sentence()


@pytest.mark.slow
def test_an_empty_file_is_audited_too(workplace: Workplace) -> None:
    new_key(workplace.directory)
    empty = workplace.directory / "empty"
    empty.touch()
    tagged = workplace.must("tag empty --key owner.key --json").data["files"][0]
    assert (tagged["bytes"], tagged["blocks"]) == (0, 1)
    assert workplace.must("tag empty --key owner.key").stdout.startswith("empty: 0 bytes in 1")
    workplace.must("challenge --out challenge.json --target target.json --key owner.key")
    workplace.must("prove challenge.json empty --out proof.json")
    workplace.must(VERIFY_WITH_KEY)
    workplace.must(VERIFY_IN_PUBLIC)
    workplace.must("locate empty --key owner.key")
    empty.write_bytes(b"\x80")  # the padding of an empty file, as content
    assert "extended" in workplace.pdp("prove challenge.json empty --out proof.json").sentence()


@pytest.mark.slow
def test_one_sector_a_block_is_the_papers_scheme(workplace: Workplace) -> None:
    made = workplace.must("keygen --sectors 1 --out slow.key --json").data
    assert (made["sectors"], made["block_bytes"]) == (1, 31)
    new_key(workplace.directory, sectors=1)
    (workplace.directory / "file").write_bytes(bytes(100))
    workplace.must("tag file --key owner.key")
    workplace.must("challenge --ratio 1 --out challenge.json --target target.json --key owner.key")
    workplace.must("prove challenge.json file --out proof.json")
    workplace.must(VERIFY_WITH_KEY)
    workplace.must(VERIFY_IN_PUBLIC)


def test_tags_go_where_they_are_told_and_are_found_there(holding: Workplace) -> None:
    before = snapshot(holding.directory)
    (holding.directory / "tags").mkdir()
    both = "one.bin two.bin --tags-dir tags"
    told = holding.must(f"tag {both} --inventory other --key owner.key --json").data
    assert [file["tags"] for file in told["files"]] == ["tags/one.bin.tags", "tags/two.bin.tags"]
    assert snapshot(holding.directory)["one.bin.tags"] == before["one.bin.tags"]
    holding.must("challenge --inventory other --ratio 1 --out other.json")
    holding.must(f"prove other.json {both} --inventory other --out other-proof.json")
    holding.must("verify other.json other-proof.json --inventory other --key owner.key")
    holding.must(f"locate {both} --inventory other --key owner.key")


def test_remote_files_of_the_same_name_are_two_files(
    workplace: Workplace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    new_key(workplace.directory)
    addresses = []
    for content in (b"one", b"another"):
        path = tmp_path_factory.mktemp("place") / "photos.tar"
        path.write_bytes(content)
        addresses.append(f"file://{path}")
    tagged = workplace.must("tag --key owner.key --json", *addresses).data["files"]
    assert [file["version"] for file in tagged] == [1, 1]
    workplace.must("challenge --ratio 1 --out challenge.json")
    workplace.must("prove challenge.json --out proof.json", *addresses)
    workplace.must(VERIFY_WITH_KEY)


def test_a_file_whose_tags_are_lost_can_be_forgotten(holding: Workplace) -> None:
    inventory = Inventory.decode((holding.directory / "holding.inventory").read_bytes())
    (holding.directory / "one.bin.tags").unlink()
    holding.must("tag one.bin --key owner.key")
    lost = inventory.files[0].file_id.hex()
    challenge = "challenge --ratio 1 --out again.json"
    prove = "prove again.json one.bin two.bin --out again-proof.json"
    holding.must(challenge)
    sentence = holding.pdp(prove).sentence()
    assert lost in sentence
    assert "forget" in sentence
    left = holding.must(f"forget {lost} --key owner.key --json").data
    assert left["files"] == 2
    holding.must(challenge)
    holding.must(prove)
    holding.must("verify again.json again-proof.json --key owner.key")
    assert "not in the inventory" in holding.pdp(f"forget {lost} --key owner.key").sentence()
    assert "hexadecimal" in holding.pdp("forget one.bin --key owner.key").sentence()


def test_a_draft_that_a_killed_tag_left_is_swept_away_by_the_next(holding: Workplace) -> None:
    left = holding.directory / ".one.bin.tags.01234567.part"
    left.write_bytes(b"half")
    holding.must("tag one.bin --key owner.key")
    assert not left.exists()


def test_keygen_never_replaces_a_key(holding: Workplace) -> None:
    before = snapshot(holding.directory)
    assert "owner.key exists" in holding.pdp("keygen --out owner.key").sentence()
    assert "owner.pub exists" in holding.pdp("keygen --out owner.key2").sentence()
    assert snapshot(holding.directory) == before


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_passphrase_file_is_read_without_its_line_end(
    holding: Workplace, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setenv("HOLDFAST_PASSPHRASE", "the file comes first")
    (holding.directory / "note").write_bytes((PASSPHRASE + ending).encode())
    holding.must(f"{VERIFY_WITH_KEY} --passphrase-file note")


@pytest.mark.slow
def test_a_passphrase_may_come_through_a_pipe(holding: Workplace) -> None:
    verify = f"$holdfast pdp {VERIFY_WITH_KEY} --passphrase-file /dev/stdin"
    piped = Shell(holding.directory).script(
        f"unset HOLDFAST_PASSPHRASE; echo '{PASSPHRASE}' | {verify}"
    )
    assert (piped.code, piped.stderr) == (0, "")


@pytest.mark.parametrize("passphrase", ["", "wrong", PASSPHRASE + " ", PASSPHRASE.upper()])
def test_a_wrong_passphrase_opens_nothing(
    holding: Workplace, monkeypatch: pytest.MonkeyPatch, passphrase: str
) -> None:
    monkeypatch.setenv("HOLDFAST_PASSPHRASE", passphrase)
    assert "passphrase" in holding.pdp(VERIFY_WITH_KEY).sentence()


def test_without_a_passphrase_and_a_terminal_a_command_says_what_to_do(
    holding: Workplace,
) -> None:
    shell = Shell(holding.directory)
    with shell.start("pdp", *VERIFY_WITH_KEY.split(), passphrase=None) as process:
        asked = end(process)
    assert asked.sentence().startswith("no passphrase: give --passphrase-file")


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """Yield the two ends of a terminal: the person's and the command's."""
    person, command = pty.openpty()
    try:
        yield person, command
    finally:
        os.close(person)
        os.close(command)


def wait_for(person: int, word: str) -> str:
    shown = ""
    while word not in shown:
        readable, _, _ = select.select([person], [], [], 100)
        assert readable, f"a terminal on which {word!r} never appears: {shown!r}"
        shown += os.read(person, 1024).decode(errors="replace")
    return shown


@pytest.mark.slow
def test_at_a_terminal_the_passphrase_is_asked_for_twice_and_not_shown(shell: Shell) -> None:
    secret = "typed by hand"
    keygen = ("pdp", "keygen", "--out", "owner.key", "--json")
    with (
        terminal() as (person, command),
        shell.start(*keygen, stdin=command, stderr=command, passphrase=None) as process,
    ):
        shown = wait_for(person, "Passphrase: ")
        os.write(person, f"{secret}\n".encode())
        shown += wait_for(person, "Once more: ")
        os.write(person, f"{secret}\n".encode())
        finished = end(process)
    assert finished.code == 0
    assert finished.data["key"] == "owner.key"
    assert secret not in shown + finished.stdout
    key = read_key(shell.directory / "owner.key", secret.encode())
    assert PublicKey.decode((shell.directory / "owner.pub").read_bytes()) == key.public


def test_two_passphrases_that_differ_make_no_key(shell: Shell) -> None:
    keygen = ("pdp", "keygen", "--out", "owner.key")
    with (
        terminal() as (person, command),
        shell.start(*keygen, stdin=command, stderr=command, passphrase=None) as process,
    ):
        for prompt, answer in (("Passphrase: ", "typed"), ("Once more: ", "typed wrongly")):
            wait_for(person, prompt)
            os.write(person, f"{answer}\n".encode())
        assert "differ" in wait_for(person, "try again")
        assert end(process).code == 2
    assert not list(shell.directory.iterdir())


@pytest.mark.slow
def test_progress_is_shown_at_a_terminal_only(holding: Workplace) -> None:
    shell = Shell(holding.directory)
    os.truncate(holding.directory / "two.bin", 10 << 20)
    tag = ("pdp", "tag", "two.bin", "--key", "owner.key", "--json", "--processes", "1")
    with terminal() as (person, command), shell.start(*tag, stderr=command) as process:
        shown = wait_for(person, "10.0/10.0 MiB")
        watched = end(process)
    assert "tagging two.bin" in re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", shown)
    assert watched.data["files"][0]["version"] == 2
    unwatched = shell.run(*tag)
    assert unwatched.stderr == ""
    assert unwatched.data["files"][0]["version"] == 3


@pytest.mark.slow
def test_several_processes_make_the_tags_that_one_makes(workplace: Workplace) -> None:
    new_key(workplace.directory, sectors=16)
    file = workplace.directory / "file"
    file.touch()
    os.truncate(file, 90 << 20)  # zeros, in more chunks than one process does before others help
    for processes in (1, 2):
        workplace.must(f"tag file --key owner.key --processes {processes}")
        workplace.must("challenge --samples 5000 --out challenge.json")
        workplace.must("prove challenge.json file --out proof.json")
        workplace.must(VERIFY_WITH_KEY)


def test_the_order_of_the_files_on_the_command_line_does_not_matter(holding: Workplace) -> None:
    for files in itertools.permutations(["one.bin", "two.bin"]):
        holding.must("prove challenge.json --out proof.json", *files)
        holding.must(VERIFY_WITH_KEY)
