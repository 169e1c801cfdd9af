"""The binary form of requests for proofs: nothing is lost on the way, and nothing odd is taken."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InputError, MalformedError
from holdfast.ledger.interface import Answer, Domain, Opening
from holdfast.node.proof_codec import (
    MAX_QUESTIONS,
    MAX_REQUEST_BYTES,
    ProofRequest,
    decode_answers,
    encode_answers,
)
from holdfast.node.proof_messages import AnswerTo, ProofQuestion
from holdfast.node.wire import Reason
from holdfast.pdp import Challenge, Proof

NUMBERS = st.integers(0, 2**63 - 1)


def octets(length: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=length, max_size=length)


@st.composite
def challenges(draw: st.DrawFn) -> Challenge:
    blocks = draw(st.integers(1, 2**48))
    start = draw(st.integers(0, blocks - 1))
    stop = draw(st.integers(start + 1, blocks))
    samples = draw(st.integers(1, stop - start))
    return Challenge(draw(octets(32)), draw(octets(32)), blocks, samples, start, stop)


OPENINGS = st.builds(Opening, octets(20), NUMBERS, st.none() | octets(32))
ASKERS = st.builds(
    AnswerTo, st.builds(Domain, NUMBERS, octets(20)), st.integers(0, 2**192 - 1), OPENINGS
)
QUESTIONS = st.builds(ProofQuestion, octets(32), challenges(), st.none() | ASKERS)
REQUESTS = st.builds(
    ProofRequest,
    st.lists(QUESTIONS, min_size=1, max_size=MAX_QUESTIONS).map(tuple),
    st.integers(1, 2**32 - 1),
)
SCALARS = st.integers(0, 2**256 - 1)
PROOFS = st.builds(
    Proof, octets(32), SCALARS, st.lists(SCALARS, min_size=1, max_size=20).map(tuple)
)
REASONS = st.builds(
    Reason,
    code=st.text(st.characters(codec="ascii"), max_size=20),
    message=st.text(st.characters(codec="utf-8"), max_size=100),
)
ENTRIES = st.lists(st.builds(Answer, PROOFS, octets(65)) | REASONS, max_size=8)


@given(REQUESTS)
def test_a_request_arrives_as_it_was_sent(request: ProofRequest) -> None:
    content = request.encode()
    assert len(content) <= MAX_REQUEST_BYTES
    assert ProofRequest.decode(content) == request


@given(ENTRIES)
def test_an_answer_arrives_as_it_was_sent(entries: list[Answer | Reason]) -> None:
    assert decode_answers(encode_answers(entries), len(entries)) == entries


@given(st.binary(max_size=400), st.booleans())
def test_whatever_comes_is_decoded_or_malformed(content: bytes, framed: bool) -> None:
    with suppress(MalformedError):
        ProofRequest.decode(b"HFPQ\1" + content if framed else content)
    with suppress(MalformedError):
        decode_answers(b"HFPA\1\0\1" + content if framed else content, 1)


@given(REQUESTS, st.data())
def test_a_request_with_changed_bytes_is_malformed_or_another_one(
    request: ProofRequest, data: st.DataObject
) -> None:
    """A decoder that accepts what no encoder writes would let two readers disagree."""
    content = bytearray(request.encode())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(MalformedError):
        assert ProofRequest.decode(bytes(content)).encode() == content


@given(REQUESTS, ENTRIES, st.data())
def test_what_is_cut_off_or_longer_is_malformed(
    request: ProofRequest, entries: list[Answer | Reason], data: st.DataObject
) -> None:
    asked, answered = request.encode(), encode_answers(entries)
    for content in (asked[: data.draw(st.integers(0, len(asked) - 1))], asked + b"\0"):
        with pytest.raises(MalformedError, match="the request for proofs"):
            ProofRequest.decode(content)
    for content in (answered[: data.draw(st.integers(0, len(answered) - 1))], answered + b"\0"):
        with pytest.raises(MalformedError, match="the answer with proofs"):
            decode_answers(content, len(entries))


def test_a_request_has_at_least_one_challenge_and_at_most_64() -> None:
    question = ProofQuestion(bytes(32), Challenge(bytes(32), bytes(32), 5, 1, 0, 5))
    whole = ProofRequest((question,) * MAX_QUESTIONS, 1000)
    assert ProofRequest.decode(whole.encode()) == whole
    for count in (0, MAX_QUESTIONS + 1):
        with pytest.raises(InputError, match="1 to 64 challenges"):
            ProofRequest((question,) * count, 1000).encode()
    content = ProofRequest((question,), 1000).encode()
    for count in (0, MAX_QUESTIONS + 1):
        with pytest.raises(MalformedError, match="1 to 64 challenges"):
            ProofRequest.decode(content[:9] + count.to_bytes(2, "big") + content[11:])


def test_a_message_that_is_too_long_or_no_text_is_cut_and_replaced() -> None:
    """The name of a file may be in the message, and need not be UTF-8."""
    (reason,) = decode_answers(
        encode_answers([Reason(code="damaged", message="\udcff" + "é" * 1000)]), 1
    )
    assert reason == Reason(code="damaged", message="?" + "é" * 499)
