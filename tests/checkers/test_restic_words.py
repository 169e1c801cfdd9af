"""What versions of restic print that not every machine has, read as it was printed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checkers.interface import Defect
from holdfast.checkers.restic_check import GROUPS, cover
from holdfast.checkers.restic_words import LINES, CheckWords, Complaint, Weight

PACK = "1a4274123cb2d69cd680a5a438de02d7c7fdb00ef02f24afdee056909c505eb5"
BLOB = "91c53c02ed342335ab2918a13b5a638ffe41679e36072e260e834bdc6a4da5a5"
DOWNLOAD = "partial download error: readFull: unexpected EOF"
FAILED = "failed: ciphertext verification failed"
DECRYPTING = f"decrypting blob <data/91c53c02> from 1a427412 {FAILED}"
LOAD_SNAPSHOT = "LoadRaw(<snapshot/1a4274123c>): invalid data returned"
AT_FIRST = "check successful on second attempt, original error"
JSON = f"""
{{"message_type":"error","message":"pack {PACK} contains 1 errors: [{DOWNLOAD}]\\n"}}
{{"message_type":"error","message":"restic repair packs {PACK}\\nrestic repair snapshots\\n\\n"}}
{{"message_type":"summary","num_errors":1,"broken_packs":["{PACK}"],"suggest_prune":false}}
{{"message_type":"exit_error","code":1,"message":"Fatal: repository contains errors"}}
"""


def read(text: str) -> CheckWords:
    words = CheckWords()
    for match in LINES.finditer(text.encode()):
        words.take(match[0].decode())
    return words


def complaints(text: str) -> list[Complaint]:
    return list(read(text).complaints.values())


@pytest.mark.parametrize("end", [")", ""])
def test_the_packs_that_were_read_are_counted(end: str) -> None:
    words = read(f"read group #3 of 5 data packs (out of total 164 packs in 256 groups{end}\n")
    assert (words.packs_read, words.packs_in_index) == (5, 164)


def test_json_does_not_count_the_packs_that_were_read() -> None:
    words = read('{"message_type":"summary","num_errors":0,"broken_packs":null}\n')
    assert words.packs_read is None
    assert not words.complaints


@pytest.mark.parametrize(
    ("line", "weight", "defect"),
    [
        (f"pack {PACK}: does not exist", Weight.DOUBT, Defect.MISSING),
        (
            f"pack {PACK}: unexpected file size: got 1000, expected 5169921",
            Weight.DOUBT,
            Defect.TRUNCATED,
        ),
        (
            f"pack {PACK}: unexpected file size: got 9000000, expected 5169921",
            Weight.DOUBT,
            Defect.CHANGED,
        ),
        (f"Pack ID does not match, want {PACK}, got {BLOB}", Weight.DAMAGE, Defect.CHANGED),
        (
            f"pack {PACK} contains 2 errors: [blob {BLOB}: {DECRYPTING} unexpected pack id {BLOB}]",
            Weight.DAMAGE,
            Defect.CHANGED,
        ),
    ],
)
def test_a_pack_is_named_with_what_is_wrong(line: str, weight: Weight, defect: Defect) -> None:
    as_json = f'{{"message_type":"error","message":"{line}\\n"}}'
    for text in (line, as_json):
        (complaint,) = complaints(text + "\n")
        assert (complaint.pack, complaint.weight, complaint.defect) == (PACK, weight, defect)


@pytest.mark.parametrize(
    "text",
    [
        f"pack {PACK} contains 1 errors: [{DOWNLOAD}]",
        f"pack {PACK} failed to download: StreamPack: ReadFull: unexpected EOF",
        f"download error: open repo/data/1a/{PACK}: permission denied",
        "download error: Get https://s3/bucket: dial tcp: connection refused",
        f"{AT_FIRST} pack {PACK} contains 1 errors: [unexpected pack id {BLOB}]",
        f"{AT_FIRST} download error: readFull: unexpected EOF",
        f"pack {PACK} has different data in indexes: [{BLOB}]",
        f"pack {PACK} is empty or not indexed",
        f"pack {PACK} does something that no version did yet",
        "error: Found indexes using the legacy format, you must run `restic repair index'",
        "error for tree 0aff0621:\n  ReadFull(<data/f338a1b28a>): connection refused",
        "error for tree 0aff0621:\n  some new kind of error",
        JSON,
    ],
)
def test_what_could_not_be_read_or_is_not_known_is_no_damage(text: str) -> None:
    found = complaints(text + "\n")
    assert {complaint.weight for complaint in found} == {Weight.UNREAD}


@pytest.mark.parametrize(
    "line",
    [
        f"pack {PACK}: not referenced in any index",
        f"pack {PACK} contained in several indexes: {{{BLOB}}}",
        "pack 1a427412 contains a mix of tree and data blobs",
        "2 additional files were found in the repo, which likely contain duplicate data.",
        "Load(<data/1a4274123c>, 5169921, 0) failed: file is too short",
        "Load(<data/1a4274123c>, 0, 0) returned error, retrying after 1.3s: EOF",
    ],
)
def test_what_is_no_trouble_is_no_complaint(line: str) -> None:
    assert complaints(line + "\n") == []


@pytest.mark.parametrize(
    ("line", "pack", "blob"),
    [
        (f"decrypting blob {BLOB} failed: ciphertext verification failed", "", BLOB),
        (f"decrypting blob <tree/0aff0621> from 1a427412 {FAILED}", PACK[:8], ""),
        (f"decrypting blob <tree/0aff0621> from pack {PACK} {FAILED}", PACK, ""),
    ],
)
def test_a_damaged_tree_says_where_it_lies(line: str, pack: str, blob: str) -> None:
    text = (
        f"error for tree 0aff0621:\n[0:00] 100.00%  4 / 4 snapshots\nLoad(<x>) failed\n  {line}\n"
    )
    (complaint,) = complaints(text)
    assert (complaint.weight, complaint.pack, complaint.blob) == (Weight.DAMAGE, pack, blob)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"error: error loading index {PACK}: load <index/1a42>: invalid data returned", "index"),
        (f"error: error loading index {PACK}: LoadRaw(<index/1a>): invalid data returned", "index"),
        ("error: load <snapshot/1a4274123c>: invalid data returned", "snapshot"),
        (f"error: failed to load snapshot 1a427412: {LOAD_SNAPSHOT}", "snapshot"),
        ("Fatal: LoadRaw(<key/1a4274123c>): invalid data returned", "key"),
    ],
)
def test_a_damaged_file_beside_the_packs_is_to_be_confirmed(line: str, name: str) -> None:
    (complaint,) = complaints(line + "\n")
    assert (complaint.weight, complaint.name) == (Weight.DOUBT, f"{name} {PACK[:10]}")


@given(st.text())
def test_no_text_becomes_damage_by_chance(text: str) -> None:
    assert not read(text).about(Weight.DAMAGE)


@given(st.sets(st.integers(0, GROUPS - 1)), st.sets(st.integers(0, GROUPS - 1)))
def test_the_calls_read_what_is_wanted_once_and_beside_it_only_what_is_empty(
    wanted: set[int], empty: set[int]
) -> None:
    read_bytes = [byte for subset in cover(wanted, empty) for byte in subset.first_bytes]
    assert len(set(read_bytes)) == len(read_bytes)
    assert wanted <= set(read_bytes) <= wanted | empty


@pytest.mark.parametrize(
    ("wanted", "empty", "calls"),
    [
        (range(256), (), ["1/1"]),
        (range(0, 256, 2), (), ["1/2"]),
        ([0], (), ["1/256"]),
        ([255], (), ["256/256"]),
        ([3, 131], (), ["4/128"]),
        ([3], range(256), ["1/1"]),
        ([], range(256), []),
    ],
)
def test_a_sample_takes_as_few_calls_as_restic_allows(
    wanted: list[int], empty: list[int], calls: list[str]
) -> None:
    assert [str(subset) for subset in cover(wanted, empty)] == calls
