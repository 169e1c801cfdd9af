"""Whatever is wrong with an input: exit 2, one sentence, and nothing written or changed.

Every input file of every command is spoilt in every way. Damaged data is the exception, being what
an audit is there to find.
"""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import BLOCK_BYTES, Shell, Workplace, damage, new_key, snapshot

from holdfast.pdp import Challenge, encoding
from holdfast.pdp.field import Q
from holdfast.pdp.inventory import MAX_BLOCKS
from holdfast.pdp.tagfile import HEADER_BYTES, PAGE_BYTES, PAGE_TAGS

SECRET = "--key owner.key --passphrase-file passphrase"
COMMANDS = {
    "keygen": "keygen --out new.key --passphrase-file passphrase",
    "tag": f"tag one.bin {SECRET}",
    "challenge": f"challenge --samples 5 --out new.json --target new-target.json {SECRET}",
    "prove": "prove challenge.json one.bin two.bin --out new-proof.json",
    "verify with the key": f"verify challenge.json proof.json {SECRET}",
    "verify in public": "verify challenge.json proof.json --public owner.pub --target target.json",
    "locate": f"locate one.bin two.bin {SECRET}",
}
# What must be exactly as Holdfast wrote it; the challenge asks for all blocks, so for all tags.
ENCODED = {
    "tag": ["owner.key", "holding.inventory"],
    "challenge": ["owner.key", "holding.inventory"],
    "prove": ["challenge.json", "holding.inventory", "one.bin.tags"],
    "verify with the key": ["challenge.json", "proof.json", "owner.key", "holding.inventory"],
    "verify in public": ["challenge.json", "proof.json", "owner.pub", "target.json"],
    "locate": ["owner.key", "holding.inventory", "one.bin.tags"],
}

Spoil = Callable[[Path], None]


def missing(path: Path) -> None:
    path.unlink()


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def empty(path: Path) -> None:
    os.truncate(path, 0)


def cut_off(share: float) -> Spoil:
    def spoil(path: Path) -> None:
        size = path.stat().st_size
        os.truncate(path, min(size - 1, max(1, round(share * size))))

    return spoil


def edited(share: float) -> Spoil:
    def spoil(path: Path) -> None:
        damage(path, round(share * (path.stat().st_size - 1)))

    return spoil


def extended(by: bytes) -> Spoil:
    def spoil(path: Path) -> None:
        path.write_bytes(path.read_bytes() + by)

    return spoil


def replaced(content: bytes) -> Spoil:
    def spoil(path: Path) -> None:
        path.write_bytes(content)

    return spoil


def now_like(other: str) -> Spoil:
    def spoil(path: Path) -> None:
        shutil.copyfile(path.with_name(other), path)

    return spoil


ABSENT: dict[str, Spoil] = {"is missing": missing, "is a directory": directory}
CUT_OFF: dict[str, Spoil] = {
    "is empty": empty,
    **{f"is cut off at {share:.0%}": cut_off(share) for share in (0, 0.5, 0.9)},
    "lacks its last byte": cut_off(1),
}
EDITED: dict[str, Spoil] = {
    f"is edited at {share:.0%}": edited(share) for share in (0, 0.2, 0.4, 0.6, 0.8, 1)
}
EXTENDED: dict[str, Spoil] = {
    "has a line more": extended(b"\n"),
    "has a zero more": extended(b"\0"),
}
GARBAGE: dict[str, Spoil] = {
    "is garbage": replaced(random.Random(1).randbytes(2000)),
    "is megabytes of garbage": replaced(random.Random(2).randbytes(3 << 20)),
    "is a megabyte of brackets": replaced(b"[" * 1_000_000),
    "is a megabyte of digits": replaced(b"1" * 1_000_000),
    "is another JSON": replaced(b'{"holdfast": null}\n'),
}
KINDS: dict[str, Spoil] = {
    f"is like {other}": now_like(other)
    for other in ("owner.key", "challenge.json", "one.bin.tags", "one.bin", "owner.key.journal")
}
WAYS = ABSENT | CUT_OFF | EDITED | EXTENDED | GARBAGE | KINDS


def cases(inputs: dict[str, list[str]], ways: dict[str, Spoil]) -> list[Any]:
    """Return every input of every command with every way to spoil it."""
    return [
        pytest.param(command, file, spoil, id=f"{command} where {file} {way}")
        for command, files in inputs.items()
        for file in files
        for way, spoil in ways.items()
        if way != f"is like {file}"
    ]


def refused(holding: Workplace, command: str, *more: str) -> str:
    """Return the sentence of a command that must refuse, and make sure that it did nothing."""
    before = snapshot(holding.directory)
    sentence = holding.pdp(command, *more).sentence()
    assert snapshot(holding.directory) == before
    return sentence


@pytest.mark.slow
def test_every_command_runs_as_long_as_nothing_is_spoilt(holding: Workplace) -> None:
    for command in reversed(COMMANDS.values()):
        holding.must(command)


@pytest.mark.parametrize(
    ("command", "file", "spoil"),
    # Without an inventory, `tag` begins a new one.
    [case for case in cases(ENCODED, WAYS) if case.id != "tag where holding.inventory is missing"],
)
def test_a_spoilt_input_is_refused(
    holding: Workplace, command: str, file: str, spoil: Spoil
) -> None:
    spoil(holding.directory / file)
    assert file in refused(holding, COMMANDS[command])


@pytest.mark.parametrize(
    ("command", "file", "spoil"),
    [
        *cases({"tag": ["one.bin"]}, ABSENT),
        *cases(
            {"prove": ["one.bin"], "locate": ["one.bin"]},
            ABSENT | CUT_OFF | EXTENDED | GARBAGE | KINDS,
        ),
    ],
)
def test_data_of_another_length_is_refused(
    holding: Workplace, command: str, file: str, spoil: Spoil
) -> None:
    spoil(holding.directory / file)
    assert file in refused(holding, COMMANDS[command])


@pytest.mark.parametrize(
    ("command", "file", "spoil"),
    [
        case
        for case in cases({"verify with the key": ["passphrase"]}, WAYS)
        if "lacks its last byte" not in case.id  # which is the line end
    ]
    + cases({name: ["passphrase"] for name in ("tag", "challenge", "locate")}, ABSENT | EDITED),
)
def test_a_spoilt_passphrase_file_opens_nothing(
    holding: Workplace, command: str, file: str, spoil: Spoil
) -> None:
    spoil(holding.directory / file)
    assert "passphrase" in refused(holding, COMMANDS[command])


@pytest.mark.parametrize(
    "way",
    [*ABSENT, "is empty", *(way for way in GARBAGE if "megabyte" in way)],
)
def test_no_key_is_made_with_a_passphrase_file_that_is_none(holding: Workplace, way: str) -> None:
    WAYS[way](holding.directory / "passphrase")
    assert "passphrase" in refused(holding, COMMANDS["keygen"])


@pytest.mark.parametrize(
    ("command", "file", "spoil"),
    cases(
        {"tag": ["one.bin.tags"]},
        {"is a directory": directory} | CUT_OFF | EXTENDED | GARBAGE | KINDS,
    ),
)
def test_tags_that_are_none_are_not_replaced(
    holding: Workplace, command: str, file: str, spoil: Spoil
) -> None:
    spoil(holding.directory / file)
    assert file in refused(holding, COMMANDS[command])


@pytest.mark.parametrize("offset", [0, 15, 16, 40, 50, 60, 71, 72, 75, 80, HEADER_BYTES - 1])
def test_an_edited_header_of_tags_is_refused(holding: Workplace, offset: int) -> None:
    damage(holding.directory / "one.bin.tags", offset)
    for command in ("tag", "prove", "locate"):
        assert "one.bin.tags" in refused(holding, COMMANDS[command])


def test_an_edited_tag_is_noticed_where_it_is_sampled_only(holding: Workplace) -> None:
    holding.must("challenge --samples 1 --out challenge.json")
    asked = Challenge.decode((holding.directory / "challenge.json").read_bytes())
    (index,) = asked.expand().indices.tolist()
    file, local = ("one.bin", index) if index < 41 else ("two.bin", index - 41)
    page = local // PAGE_TAGS
    for other in set(range(41 // PAGE_TAGS)) - {page}:
        damage(holding.directory / f"{file}.tags", HEADER_BYTES + other * PAGE_BYTES + 9)
    holding.must(COMMANDS["prove"])
    damage(holding.directory / f"{file}.tags", HEADER_BYTES + page * PAGE_BYTES + 9)
    sentence = refused(holding, COMMANDS["prove"])
    assert f"{file}.tags is damaged: the tags from block {page * PAGE_TAGS} on" in sentence


@pytest.mark.parametrize("offset", [0, 30, 31, BLOCK_BYTES, 20 * BLOCK_BYTES - 1, -1])
def test_an_edited_byte_of_data_is_a_finding(holding: Workplace, offset: int) -> None:
    damage(holding.directory / "two.bin", offset)
    holding.must("prove challenge.json one.bin two.bin --out proof.json")
    for command in ("verify with the key", "verify in public"):
        finished = holding.pdp(COMMANDS[command])
        assert (finished.code, finished.stderr) == (1, "")
    located = holding.pdp(COMMANDS["locate"] + " --json")
    assert located.code == 1
    assert [(place["file"], place["block"]) for place in located.data["damaged"]] == [
        ("two.bin", range(40 * BLOCK_BYTES + 7)[offset] // BLOCK_BYTES)
    ]


def test_two_swapped_files_are_a_finding(holding: Workplace) -> None:
    one, two = holding.directory / "one.bin", holding.directory / "two.bin"
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    holding.must("prove challenge.json one.bin two.bin --out proof.json")
    assert holding.pdp(COMMANDS["verify with the key"]).code == 1


def journal_of(holding: Workplace) -> Path:
    return holding.directory / "owner.key.journal"


@pytest.mark.parametrize(
    ("command", "file", "spoil"),
    cases(
        {"tag": ["owner.key.journal"]},
        {"is a directory": directory, "has a line more": EXTENDED["has a line more"]}
        | GARBAGE
        | KINDS,
    ),
)
def test_a_spoilt_journal_is_refused(
    holding: Workplace, command: str, file: str, spoil: Spoil
) -> None:
    spoil(holding.directory / file)
    assert file in refused(holding, COMMANDS[command])


@pytest.mark.parametrize("place", [0, 31, 32, 33, 34, 35, 50, 51, 52, 85, 102])
def test_an_edited_journal_is_refused(holding: Workplace, place: int) -> None:
    journal = journal_of(holding)
    content = bytearray(journal.read_bytes())
    # A digit becomes another one, so that no rule of spelling notices.
    content[place] = ord("2") if content[place] != ord("2") else ord("3")
    journal.write_bytes(content)
    assert "owner.key.journal" in refused(holding, COMMANDS["tag"])


def test_a_torn_last_line_of_the_journal_is_tolerated(holding: Workplace) -> None:
    journal = journal_of(holding)
    journal.write_bytes(journal.read_bytes() + journal.read_bytes()[:50])
    for version in (2, 3):
        tagged = holding.must(f"tag one.bin two.bin {SECRET} --json").data["files"]
        assert [file["version"] for file in tagged] == [version, version]
    assert len(journal.read_bytes().splitlines()) == 6


def lose_a_line(number: int) -> Spoil:
    def spoil(path: Path) -> None:
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        *(pytest.param(spoil, id=way) for way, spoil in CUT_OFF.items()),
        pytest.param(missing, id="is missing"),
        pytest.param(lose_a_line(0), id="lacks its first line"),
        pytest.param(lose_a_line(1), id="lacks its last line"),
    ],
)
@pytest.mark.parametrize("file", ["one.bin", "two.bin"])
def test_no_loss_of_the_journal_lets_a_version_be_used_twice(
    holding: Workplace, file: str, spoil: Spoil
) -> None:
    """A version is one content. The key is safe without that, by the nonce of every tagging."""
    spoil(journal_of(holding))
    (holding.directory / file).write_bytes(b"changed")
    before = snapshot(holding.directory)
    finished = holding.pdp(f"tag {file} {SECRET} --json")
    if finished.code == 0:
        assert finished.data["files"][0]["version"] >= 2
    else:
        finished.sentence()
        assert snapshot(holding.directory) == before


def test_a_journal_at_its_last_version_is_refused(holding: Workplace) -> None:
    file_id = (holding.directory / "one.bin.tags").read_bytes()[48:64]
    journal = journal_of(holding)
    entry = f"{file_id.hex()} {2**63 - 1}"
    line = f"{entry} {hashlib.sha256(entry.encode()).hexdigest()[:16]}\n"
    journal.write_bytes(journal.read_bytes() + line.encode())
    refused(holding, COMMANDS["tag"])


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("challenge --out new --samples 0", "--samples"),
        ("challenge --out new --samples -1", "--samples"),
        ("challenge --out new --samples 83", "--samples"),
        ("challenge --out new --samples 1.5", "--samples"),
        ("challenge --out new --ratio 0", "--ratio"),
        ("challenge --out new --ratio 2", "--ratio"),
        ("challenge --out new --ratio -0.5", "--ratio"),
        ("challenge --out new --ratio nan", "--ratio"),
        ("challenge --out new --ratio inf", "--ratio"),
        ("challenge --out new --ratio much", "--ratio"),
        ("challenge --out new --confidence 0", "confidence"),
        ("challenge --out new --confidence 1", "confidence"),
        ("challenge --out new --confidence nan", "confidence"),
        ("challenge --out new --damage 0", "--damage"),
        ("challenge --out new --damage 1.5", "--damage"),
        ("challenge --out new --samples 5 --ratio 0.5", "not both"),
        ("challenge --out new --target new-target", "--key"),
        ("challenge --samples 5", "--out"),
        ("keygen --out new --sectors 0", "sectors"),
        ("keygen --out new --sectors 1025", "sectors"),
        ("keygen --out new.pub", "new.pub"),
        ("tag --key owner.key", "FILE"),
        ("tag one.bin", "--key"),
        ("tag one.bin --key owner.key --processes 0", "processes"),
        ("challenge --samples 3 --confidence 5 --out new.json", "--confidence"),
        ("tag one.bin two.bin no.bin --key owner.key", "no.bin"),
        ("tag two.bin file:///no/such/file --key owner.key", "/no/such/file"),
        ("tag nonesuch://address --key owner.key", "nonesuch"),
        ("prove challenge.json --out new", "FILE"),
        ("prove challenge.json one.bin --out new", "name all files"),
        ("verify challenge.json proof.json", "--key"),
        ("verify challenge.json proof.json --public owner.pub", "--target"),
        ("verify challenge.json proof.json --target target.json", "--public"),
        ("verify challenge.json proof.json --public owner.pub --key owner.key", "either"),
        ("verify challenge.json --key owner.key", "PROOF"),
        ("locate one.bin --key owner.key", "name all files"),
        ("locate one.bin two.bin", "--key"),
        ("locate one.bin two.bin --key owner.key --nonesuch", "--nonesuch"),
    ],
)
def test_wrong_options_are_refused(holding: Workplace, line: str, named: str) -> None:
    assert named in refused(holding, line)


@pytest.mark.parametrize(
    "line",
    [
        "keygen --out {}/new.key",
        "tag one.bin --key owner.key --tags-dir {}/new",
        "tag one.bin --key owner.key --inventory {}/new.inventory",
        "challenge --samples 5 --out {}/new.json",
        "challenge --samples 5 --out {}/new.json --key owner.key --target target.json",
        "challenge --samples 5 --out challenge.json --key owner.key --target {}/new.json",
        "prove challenge.json one.bin two.bin --out {}/new.json",
    ],
)
@pytest.mark.parametrize("parent", ["no-such-directory", "one.bin"])
def test_an_output_that_cannot_be_written_changes_nothing(
    holding: Workplace, line: str, parent: str
) -> None:
    assert f"{parent}/new" in refused(holding, line.format(parent))


@pytest.mark.parametrize("place", [".", "..", "/", "", "folder"])
@pytest.mark.parametrize(
    "line",
    [
        "keygen --out",
        "tag --key owner.key",
        "tag one.bin --key owner.key --inventory",
        "tag one.bin --key",
        "challenge --samples 5 --out",
        "challenge --samples 5 --out challenge.json --key owner.key --target",
        "prove challenge.json one.bin two.bin --out",
        "prove challenge.json --out proof.json",
        "verify challenge.json proof.json --key",
        "locate --key owner.key",
    ],
)
def test_a_directory_is_no_file(holding: Workplace, line: str, place: str) -> None:
    (holding.directory / "folder").mkdir()
    refused(holding, line, place)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["/dev/zero", "pipe"])
def test_what_is_no_regular_file_is_refused_without_waiting(holding: Workplace, file: str) -> None:
    os.mkfifo(holding.directory / "pipe")
    tag = f"timeout 5 $holdfast pdp tag {file} --key owner.key"
    assert "not a regular file" in Shell(holding.directory).script(tag).sentence()


def test_an_endless_input_is_refused(holding: Workplace) -> None:
    for line in (
        "verify challenge.json /dev/zero --key owner.key",
        "verify /dev/zero proof.json --key owner.key",
        "verify challenge.json proof.json --key /dev/zero",
        "verify challenge.json proof.json --public /dev/zero --target target.json",
        "verify challenge.json proof.json --public owner.pub --target /dev/zero",
        "verify challenge.json proof.json --key owner.key --passphrase-file /dev/zero",
        "verify challenge.json proof.json --key owner.key --inventory /dev/zero",
    ):
        assert "/dev/zero" in refused(holding, line)


@pytest.mark.parametrize(
    "line",
    ["tag --key owner.key", "tag one.bin --key", "challenge --samples 5 --out x --inventory"],
)
def test_a_line_break_in_a_name_breaks_no_sentence(holding: Workplace, line: str) -> None:
    refused(holding, line, "no such\nfile")


@pytest.mark.parametrize(
    "line",
    [
        "prove challenge.json one.bin two.bin --out one.bin",
        "prove challenge.json one.bin two.bin --out challenge.json",
        "prove challenge.json one.bin two.bin --out holding.inventory",
        "prove challenge.json one.bin two.bin --out owner.key",
        "challenge --samples 5 --out owner.key",
        "challenge --samples 5 --out proof.json",
        f"challenge --samples 5 --out new.json --target owner.pub {SECRET}",
        f"challenge --samples 5 --out new.json --target new.json {SECRET}",
        f"tag one.bin --inventory one.bin {SECRET}",
        f"tag one.bin --inventory owner.key {SECRET}",
        f"tag one.bin --inventory one.bin.tags {SECRET}",
    ],
)
def test_no_output_replaces_an_input_or_what_is_no_such_output(
    holding: Workplace, line: str
) -> None:
    assert "choose another name" in refused(holding, line)


def test_a_public_key_of_another_owner_accuses_nobody(holding: Workplace) -> None:
    (holding.directory / "theirs").mkdir()
    new_key(holding.directory / "theirs")
    line = "verify challenge.json proof.json --public theirs/owner.pub --target target.json"
    assert "another public key" in refused(holding, line)


def test_files_of_another_owner_are_refused(holding: Workplace) -> None:
    (holding.directory / "theirs").mkdir()
    new_key(holding.directory / "theirs")
    theirs = "--key theirs/owner.key --passphrase-file passphrase"
    for line in (
        f"tag one.bin {theirs}",
        f"challenge --samples 5 --out new.json --target new-target.json {theirs}",
        f"verify challenge.json proof.json {theirs}",
        f"locate one.bin two.bin {theirs}",
    ):
        assert "another key" in refused(holding, line)
    holding.must(f"tag two.bin --inventory theirs/inventory --tags-dir theirs {theirs}")
    shutil.copy("theirs/two.bin.tags", "two.bin.tags")
    for line in (COMMANDS["prove"], COMMANDS["locate"]):
        assert "not given" in refused(holding, line)


def test_parts_of_another_audit_are_refused_and_its_proof_is_a_finding(holding: Workplace) -> None:
    holding.must(f"challenge --ratio 1 --out other.json --target other-target.json {SECRET}")
    in_public = "verify challenge.json proof.json --public owner.pub --target other-target.json"
    assert "another challenge" in refused(holding, in_public)
    for form in (SECRET, "--public owner.pub --target other-target.json"):
        finished = holding.pdp(f"verify other.json proof.json {form}")
        assert (finished.code, finished.stderr) == (1, "")


OFF_CURVE = "00" * 31 + "05"  # x^3 + 7 is no square
FORGERIES: list[tuple[str, str, dict[str, Any]]] = [
    ("challenge.json", "prove", {"version": 2}),
    ("challenge.json", "prove", {"version": 1.0}),
    ("challenge.json", "prove", {"version": True}),
    ("challenge.json", "prove", {"holdfast": ["challenge"]}),
    ("challenge.json", "prove", {"extra": 1}),
    ("challenge.json", "prove", {"samples": 0}),
    ("challenge.json", "prove", {"samples": 83}),
    ("challenge.json", "prove", {"samples": -1}),
    ("challenge.json", "prove", {"samples": 82.0}),
    ("challenge.json", "prove", {"samples": "82"}),
    ("challenge.json", "prove", {"samples": True}),
    ("challenge.json", "prove", {"samples": 10**100}),
    ("challenge.json", "prove", {"stop": 0}),
    ("challenge.json", "prove", dict.fromkeys(["stop", "blocks", "samples"], MAX_BLOCKS)),
    ("challenge.json", "prove", {"seed": "00" * 31}),
    ("challenge.json", "prove", {"seed": "AA" * 32}),
    ("challenge.json", "prove", {"seed": ["00"] * 32}),
    ("proof.json", "verify with the key", {"sigma": f"{Q:064x}"}),
    ("proof.json", "verify with the key", {"mu": []}),
    ("proof.json", "verify with the key", {"mu": "00"}),
    ("proof.json", "verify in public", {"mu": [f"{Q:064x}"] * 2}),
    ("proof.json", "verify in public", {"mu": ["00" * 32] * 1025}),
    ("target.json", "verify in public", {"point": f"02{OFF_CURVE}"}),
    ("target.json", "verify in public", {"point": "04" + "00" * 32}),
    ("owner.pub", "verify in public", {"points": []}),
    ("owner.pub", "verify in public", {"points": [OFF_CURVE] * 2}),
    ("owner.pub", "verify in public", {"points": [f"{Q:064x}"] * 2}),
    ("owner.key", "locate", {"kdf_n": 2**30}),
    ("owner.key", "locate", {"kdf_n": 17}),
    ("owner.key", "locate", {"kdf_n": 1}),
    ("owner.key", "locate", {"kdf": "none"}),
    ("owner.key", "locate", {"cipher": "none"}),
    ("owner.key", "locate", {"sectors": 0}),
    ("owner.key", "locate", {"sectors": 3}),
    ("owner.key", "locate", {"ciphertext": "00" * 47}),
    ("owner.key", "locate", {"key_id": "00" * 32}),
    ("holding.inventory", "challenge", {"files": [["00" * 16, 1, 5]] * 2}),
    ("holding.inventory", "challenge", {"files": [["00" * 16, 1]]}),
    ("holding.inventory", "challenge", {"files": [["00" * 16, 0, 5]]}),
    ("holding.inventory", "challenge", {"files": [["00" * 16, 1, 0]]}),
    ("holding.inventory", "challenge", {"files": []}),
    ("holding.inventory", "challenge", {"files": {}}),
    ("holding.inventory", "prove", {"sectors": 3}),
]


@pytest.mark.parametrize(
    ("file", "command", "changes"),
    FORGERIES,
    ids=[f"{file} with {str(changes)[:40]}" for file, _, changes in FORGERIES],
)
def test_a_forgery_with_the_right_checksum_is_refused(
    holding: Workplace, file: str, command: str, changes: dict[str, Any]
) -> None:
    path = holding.directory / file
    fields = json.loads(path.read_bytes())
    assert fields.pop("checksum") == encoding._checksum(fields)
    forged = fields | changes
    path.write_bytes(encoding._text({**forged, "checksum": encoding._checksum(forged)}))
    refused(holding, COMMANDS[command])


@pytest.mark.slow
def test_an_inventory_of_more_blocks_than_can_be_counted_is_refused(holding: Workplace) -> None:
    fields = json.loads((holding.directory / "holding.inventory").read_bytes())
    # 2^16 + 1 files of 2^48 blocks: counted in 64 bits, as many as one of them has.
    files: list[list[str | int]] = [[f"{n:032x}", 1, MAX_BLOCKS] for n in range(2**16 + 1)]
    forged = encoding.dump(
        "inventory", {"key_id": fields["key_id"], "sectors": fields["sectors"], "files": files}
    )
    (holding.directory / "holding.inventory").write_bytes(forged)
    refused(holding, "challenge --samples 5 --out new.json")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "file", "way"),
    [
        ("tag", "one.bin.tags", "is a megabyte of brackets"),
        ("verify in public", "owner.pub", "is edited at 60%"),
    ],
)
def test_a_process_of_its_own_refuses_in_the_same_way(
    holding: Workplace, command: str, file: str, way: str
) -> None:
    WAYS[way](holding.directory / file)
    before = snapshot(holding.directory)
    finished = Shell(holding.directory).run("pdp", *COMMANDS[command].split())
    assert file in finished.sentence()
    assert snapshot(holding.directory) == before
