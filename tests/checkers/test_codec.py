"""Samples and reports come back as they were written, and nothing else is read as one."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.checkers import codec
from holdfast.checkers.interface import (
    MAX_WORDS,
    DamagedUnit,
    Defect,
    Finding,
    Report,
    Sample,
)
from holdfast.errors import MalformedError

TEXTS = st.text(max_size=20) | st.binary(max_size=20).map(
    lambda raw: raw.decode(errors="surrogateescape")  # a file's name may be no text
)
COUNTS = st.integers(0, 2**63)
SAMPLES = st.builds(
    Sample, st.binary(max_size=32), COUNTS, st.lists(TEXTS, max_size=3).map(tuple), st.integers()
)
UNITS = st.builds(DamagedUnit, TEXTS, st.sampled_from(Defect), TEXTS, TEXTS)
REPORTS = st.builds(
    Report,
    finding=st.sampled_from(Finding),
    reason=TEXTS,
    units=COUNTS,
    checked=COUNTS,
    damaged=st.lists(UNITS, max_size=3).map(tuple),
    verified=st.lists(TEXTS, max_size=3).map(tuple),
    read_bytes=COUNTS,
    requests=COUNTS,
    began=COUNTS,
    ended=COUNTS,
    tool=TEXTS,
    words=TEXTS,
)
REPORT = Report(Finding.INTACT, "", 1, 1, (), (), 0, 0, 0, 0, "tool")


@settings(max_examples=30)
@given(SAMPLES | REPORTS)
def test_what_was_written_is_read(value: Sample | Report) -> None:
    content = codec.dump(value)
    assert codec.load(type(value), content, "it") == value
    assert codec.dump(codec.load(type(value), content, "it")) == content


@pytest.mark.parametrize(
    "change",
    [
        {"finding": "perfect"},
        {"checked": "1"},
        {"checked": True},
        {"damaged": {}},
        {"damaged": [{"name": "a"}]},
        {"verified": [1]},
        {"more": 1},
        {"reason": None},
    ],
)
def test_a_report_of_other_fields_is_refused(change: dict[str, object]) -> None:
    document = json.loads(codec.dump(REPORT)) | change
    with pytest.raises(MalformedError, match="the report is damaged"):
        codec.load(Report, json.dumps(document).encode(), "the report")


@given(st.binary(max_size=50))
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(MalformedError, match="the report is damaged"):
        codec.load(Report, content, "the report")


@given(st.text(), st.text(max_size=2 * MAX_WORDS))
def test_a_report_is_bounded(reason: str, words: str) -> None:
    long = Report(Finding.UNKNOWN, reason * 50, 1, 1, (), (), 0, 0, 0, 0, "tool", words * 2)
    bounded = codec.bound(long)
    assert len(bounded.reason) <= codec.MAX_REASON
    assert bounded.reason.isprintable()
    assert len(bounded.words) <= MAX_WORDS
    assert (words * 2).endswith(bounded.words[2:]), "its end is kept"
