"""A leaf has one text; anything else is refused with one sentence."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evidence.leaves import leaves
from tests.support.sample_log import sample

from holdfast.errors import InputError, MalformedError
from holdfast.evidence.leaf import (
    Audit,
    Change,
    Choice,
    ConfigurationChange,
    Decision,
    Freshness,
    Leaf,
    Override,
    Policy,
    PolicyChange,
    Setting,
    Telemetry,
    decode,
    encode,
)
from holdfast.model.action import Action
from holdfast.model.observation import Observation

POLICY = Policy("belief", bytes(32))
SEEN = Telemetry(Freshness.STALE, Observation(0.1, 0.2, 0.3, 0.4, 0.5), 7)
CHANGE = PolicyChange(5, Change.PROMOTED, POLICY, None, "operator", "better")


def edited(leaf: Leaf, **fields: Any) -> bytes:
    """Return a leaf's text with other fields, in the canonical form all the same."""
    document = {**json.loads(encode(leaf)), **fields}
    kept = {name: value for name, value in document.items() if value is not ...}
    return json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.slow
@given(leaves)
@settings(deadline=None)
def test_every_leaf_is_read_as_it_was_written(leaf: Leaf) -> None:
    content = encode(leaf)
    assert decode(content) == leaf
    assert encode(decode(content)) == content
    assert b"\n" not in content


@pytest.mark.slow
@given(leaves, st.data())
@settings(deadline=None)
def test_an_edited_byte_gives_another_leaf_or_none(leaf: Leaf, data: st.DataObject) -> None:
    content = bytearray(encode(leaf))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    try:
        read = decode(bytes(content))
    except MalformedError:
        return
    assert read != leaf
    assert encode(read) == content


@given(st.binary() | st.text().map(str.encode))
def test_noise_is_refused_in_one_sentence(content: bytes) -> None:
    with pytest.raises(MalformedError):
        decode(content)


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.sampled_from(sorted(json.loads(encode(CHANGE)))), documents)
def test_no_value_of_a_field_makes_a_reader_stumble(field: str, value: Any) -> None:
    content = edited(CHANGE, **{field: value})
    with suppress(MalformedError):
        assert encode(decode(content)) == content


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"extra": 1}, "the field 'extra' is unknown"),
        ({"by": ...}, "the field 'by' is missing"),
        ({"version": 2}, "version 1"),
        ({"version": True}, "version 1"),
        ({"holdfast": "gossip"}, "a kind"),
        ({"holdfast": ...}, "kind of document"),
        ({"at": -1}, "leaf: 'at': it is not a number"),
        ({"at": 1.0}, "leaf: 'at': it is not a number"),
        ({"at": 2**53}, "leaf: 'at': it is not a number"),
        ({"by": "a\nb"}, "leaf: 'by': it is not a text"),
        ({"by": "x" * 501}, "leaf: 'by': it is not a text"),
        ({"change": "demoted"}, "promoted, rolled-back"),
        ({"policy": None}, "leaf: 'policy': it is not an object"),
        ({"forced": 1}, "leaf: 'forced': it is not true or false"),
        ({"forced": True, "reason": ""}, "forced has a reason"),
        ({"change": "rolled-back", "forced": True}, "only a promotion"),
        ({"change": "named", "report": "00" * 32}, "only a promotion"),
        (
            {"checks": [{"name": "miss rate", "passed": False, "detail": ""}]},
            "whose checks failed is a forced one",
        ),
        (
            {"policy": {"name": "belief", "hash": "AA" * 32}},
            "'policy': 'hash': it is not .* hexadecimal",
        ),
    ],
)
def test_what_no_leaf_can_have_is_named(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(MalformedError, match=said):
        decode(edited(CHANGE, **fields))


def test_a_second_text_of_the_same_leaf_is_refused() -> None:
    content = encode(CHANGE)
    for other in (content + b" ", content.replace(b":", b": ", 1), content + b"\n"):
        with pytest.raises(MalformedError, match="canonical"):
            decode(other)
    doubled = content[:-1] + b',"version":1}'
    with pytest.raises(MalformedError):
        decode(doubled)


@pytest.mark.parametrize("share", [b"-0.0", b"1.5", b"0", b"NaN", b"1e400", b"true"])
def test_a_signal_is_a_share_with_one_text(share: bytes) -> None:
    content = sample().entries_[3].leaf
    assert content.count(b'"consecutive_failures":0.0,') == 1
    with pytest.raises(MalformedError):
        decode(content.replace(b'"consecutive_failures":0.0', b'"consecutive_failures":' + share))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"by": "two\nlines"}, "'by': it is not a text"),
        ({"by": "x" * 501}, "'by': it is not a text"),
        ({"at": -1}, "'at': it is not a number"),
        ({"at": 2**53}, "'at': it is not a number"),
        ({"change": "demoted"}, "'change': it is not one of"),
        ({"policy": Policy("belief", bytes(31))}, "'policy': 'hash': it has 31 bytes, not 32"),
        ({"policy": CHANGE}, "'policy': it is not a Policy"),
    ],
)
def test_what_a_reader_would_refuse_is_never_written(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(MalformedError, match=said):
        encode(replace(CHANGE, **fields))


@given(st.integers(), st.text(), st.binary(max_size=40), st.lists(st.floats(), min_size=5))
def test_whatever_is_written_can_be_read(
    number: int, text: str, octets: bytes, signals: list[float]
) -> None:
    audit = decode(sample().entries_[3].leaf)
    assert isinstance(audit, Audit)
    seen = Telemetry(Freshness.FRESH, Observation(*signals[:5]), number)
    for leaf in (
        replace(CHANGE, at=number),
        replace(CHANGE, reason=text),
        replace(CHANGE, previous=Policy(text, bytes(32))),
        replace(CHANGE, policy=Policy("", octets)),
        replace(audit, decision=replace(audit.decision, telemetry=seen)),
        replace(audit, holding=replace(audit.holding, id=number)),
        replace(audit, target=octets),
    ):
        with suppress(MalformedError):
            assert decode(encode(leaf)) == leaf


def test_a_leaf_too_large_to_be_read_is_never_written() -> None:
    setting = Setting("n", "\N{GRINNING FACE}" * 500, None)
    with pytest.raises(MalformedError, match="larger than"):
        encode(ConfigurationChange(5, bytes(32), (setting,) * 4000, "operator"))


def test_the_last_rail_has_the_last_word() -> None:
    rails = (
        Override("cap", "at most 460 samples", Action(7, 0.01)),
        Override("stale", "telemetry is stale", Action(1, 0.10)),
    )
    decision = Decision(9, SEEN, Choice(POLICY, Action(7, 0.05)), None, rails)
    assert decision.action == Action(1, 0.10)
    assert replace(decision, overrides=()).action == Action(7, 0.05)


def test_somebody_must_have_decided() -> None:
    with pytest.raises(InputError, match="neither"):
        Decision(9, SEEN, None, None, ())


def test_an_observation_has_its_time() -> None:
    with pytest.raises(InputError, match="unless it is missing"):
        replace(SEEN, at=None)
    with pytest.raises(InputError, match="unless it is missing"):
        replace(SEEN, freshness=Freshness.MISSING)
