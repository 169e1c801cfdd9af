"""A check says what a tool said, and never more than it can know."""

import hashlib
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sample_checks import PASSED, UNIT, failed

from holdfast.checkers import interface
from holdfast.errors import InputError, MalformedError
from holdfast.evidence import escaping
from holdfast.evidence.codecs import LONGEST_TEXT
from holdfast.evidence.escaping import CUT, MAX_WORDS, are_words, escape_name, escape_words
from holdfast.evidence.leaf import (
    CheckedHolding,
    CheckResponse,
    DamagedUnit,
    Defect,
    Outcome,
    Step,
    decode,
    encode,
)
from holdfast.evidence.storage_check import MAX_DAMAGED

FAILED = failed(PASSED)


@pytest.mark.parametrize("check", [PASSED, FAILED])
def test_a_check_is_read_as_it_was_written(check: Any) -> None:
    assert decode(encode(check)) == check


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"checked": 0}, "read 0 of 164 units did not pass"),
        ({"checked": 165}, "read 165 of 164 units did not pass"),
        ({"damaged_units": 1}, "found damage did not pass"),
        ({"outcome": Outcome.FAILED, "reason": "bad"}, "names a damaged unit"),
        (
            {"outcome": Outcome.FAILED, "reason": "5 are bad", "damaged_units": 5},
            "names a damaged unit",
        ),
        ({"outcome": Outcome.UNKNOWN}, "has a reason"),
        ({"outcome": Outcome.OFFLINE}, "has a reason"),
        ({"outcome": Outcome.TIMED_OUT, "reason": "late"}, "never ends as timed-out"),
        ({"outcome": Outcome.ADMITTED, "reason": "lost"}, "never ends as admitted"),
        ({"tool": ""}, "names its tool"),
        ({"number": 0}, "numbered from 1"),
        ({"unit": ""}, "names its unit"),
        ({"drawn": 165}, "165 units can't be drawn from 164"),
        ({"began_at": PASSED.ended_at + 1}, "ends after it began"),
    ],
)
def test_what_no_check_can_say_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        replace(PASSED, **fields)


def test_a_check_names_64_damaged_units_and_counts_them_all() -> None:
    units = tuple(replace(UNIT, name=f"pack {n}") for n in range(MAX_DAMAGED))
    assert replace(FAILED, damaged=units, damaged_units=1000).damaged_units == 1000
    with pytest.raises(InputError, match="no more than there are"):
        replace(FAILED, damaged=units, damaged_units=MAX_DAMAGED - 1)
    with pytest.raises(InputError, match="at most 64"):
        replace(FAILED, damaged=(*units, UNIT), damaged_units=1000)


def test_the_largest_check_fits_into_a_leaf() -> None:
    face = "\N{GRINNING FACE}"  # 12 bytes of ASCII
    unit = DamagedUnit(face * LONGEST_TEXT, Defect.MISSING, face * LONGEST_TEXT)
    holding = CheckedHolding(1, face * LONGEST_TEXT, face * LONGEST_TEXT, face * 2048)
    large = replace(
        FAILED,
        holding=holding,
        damaged=(unit,) * MAX_DAMAGED,
        damaged_units=MAX_DAMAGED,
        words=face * MAX_WORDS,
        unit=face * LONGEST_TEXT,
        tool=face * LONGEST_TEXT,
        reason=face * LONGEST_TEXT,
    )
    assert decode(encode(large)) == large


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"words": "x" * (MAX_WORDS + 1)}, "'words': it is not a text of one line and 4096"),
        ({"words": "two\nlines"}, "'words': it is not a text of one line"),
        ({"words": "\x1b[31m"}, "'words': it is not a text of one line"),
        ({"reason": "\x1b[31m"}, "'reason': it is not a text of one line"),
        ({"tool": "restic\r"}, "'tool': it is not a text of one line"),
        ({"damaged": (DamagedUnit("a\nb", Defect.MISSING, ""),)}, "'damaged': 'name': it is not"),
        ({"words_hash": b""}, "'words_hash': it has 0 bytes"),
    ],
)
def test_no_leaf_has_control_characters_or_endless_words(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(MalformedError, match=said):
        encode(replace(FAILED, **fields))


@pytest.mark.parametrize(
    "address",
    [
        "rest:https://olga:hunter2@backup.example:8000/",
        "s3://KEY:SECRET@bucket/prefix",
        ":s3,access_key_id=A,secret_access_key=B:bucket",
        ":sftp,host=example.org,pass=obscured:backup",
        "webdav://example.org/?token=abc",
    ],
)
def test_an_address_with_a_password_is_kept_out_of_the_evidence(address: str) -> None:
    with pytest.raises(InputError, match="contains a password") as caught:
        CheckedHolding(1, "attic", "restic", address)
    assert "hunter2" not in str(caught.value)
    assert "SECRET@" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "/srv/restic",
        "s3:https://s3.example:9000/bucket/a:b@c",
        "sftp:olga@example.org:/srv/restic",
        "sftp://olga@example.org:2222/srv",
        "remote:backup,old",
        "file:///srv/tokens",
    ],
)
def test_other_addresses_are_taken(address: str) -> None:
    assert CheckedHolding(1, "attic", "restic", address).address == address


@pytest.mark.parametrize("texts", [("", "restic", "/srv"), ("a", "", "/srv"), ("a", "restic", "")])
def test_checked_storage_has_a_name_a_kind_and_an_address(texts: tuple[str, str, str]) -> None:
    with pytest.raises(InputError, match="a name, a kind and an address"):
        CheckedHolding(1, *texts)


def test_a_response_to_a_check_names_units() -> None:
    response = CheckResponse(PASSED.at, PASSED.holding, 1, Step.REPAIRED, ("pack 1",), "restored")
    assert decode(encode(response)) == response
    with pytest.raises(InputError, match="at most 64 units"):
        replace(response, units=("a pack",) * (MAX_DAMAGED + 1))
    with pytest.raises(InputError, match="by their names"):
        replace(response, units=("",))
    with pytest.raises(InputError, match="has a name"):
        DamagedUnit("", Defect.MISSING, "")


def test_every_defect_that_a_checker_reports_can_be_recorded() -> None:
    assert set(map(str, Defect)) == set(map(str, interface.Defect))
    assert interface.MAX_WORDS == MAX_WORDS


@given(st.text(), st.text())
def test_two_names_that_differ_are_recorded_as_different(one: str, other: str) -> None:
    assert escape_name(one).isprintable()
    assert (escape_name(one) == escape_name(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "recorded"),
    [
        ("photos/tower.jpg", "photos/tower.jpg"),
        ("süß\N{GRINNING FACE}", "süß\N{GRINNING FACE}"),
        ("a\nb", r"a\nb"),
        (r"a\nb", r"a\\nb"),
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("gpj.\u202eexe", r"gpj.\u202eexe"),
        ("\ud800", r"\ud800"),
    ],
)
def test_names_are_escaped_only_where_they_must_be(name: str, recorded: str) -> None:
    unit = DamagedUnit.from_tool(name, "changed", "two\nlines" * 100)
    assert unit.name == recorded
    leaf = replace(FAILED, damaged=(unit,))
    assert decode(encode(leaf)) == leaf


def test_long_names_that_begin_alike_stay_apart() -> None:
    names = [escape_name("x" * 5000 + end) for end in "ab"]
    assert names[0] != names[1]
    assert {len(name) for name in names} == {LONGEST_TEXT}
    assert len(escape_name("\n" * 5000)) <= LONGEST_TEXT


@given(st.text(), st.integers(0, 2000))
def test_words_can_be_held_against_their_hash(text: str, times: int) -> None:
    words = text * times
    escaped, digest = escape_words(words), escaping.hash_words(words)
    assert escaped.isprintable()
    assert len(escaped) <= MAX_WORDS
    assert are_words(escaped, digest)


def test_edited_words_do_not_have_the_hash() -> None:
    words = "\x1b[32mno errors were found\x1b[0m\n"
    escaped, digest = escape_words(words), hashlib.sha256(words.encode()).digest()
    assert escaped == r"\x1b[32mno errors were found\x1b[0m\n"
    assert are_words(escaped, digest)
    assert not are_words(escaped.replace("no errors", "5 errors"), digest)
    assert not are_words(r"\N{BULLET} \U99999999 \8", digest)


def test_of_words_without_end_the_last_are_kept_in_whole_escapes() -> None:
    endless = "\x1b" * 2**26 + "Fatal: 3 packs are damaged"
    escaped = escape_words(endless)
    assert re.fullmatch(rf"{CUT}(\\x1b)+Fatal: 3 packs are damaged", escaped)
    assert MAX_WORDS - 4 < len(escaped) <= MAX_WORDS
    assert are_words(escaped, bytes(32))


def test_the_sample_of_one_name_with_a_line_break_is_not_that_of_two_names() -> None:
    assert escaping.hash_names(["a", "b"]) == hashlib.sha256(b"a\nb\n").digest()
    assert escaping.hash_names(["a\nb"]) != escaping.hash_names(["a", "b"])
    assert escaping.hash_names([]) == hashlib.sha256().digest()
