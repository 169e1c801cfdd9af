"""Challenges are uniform, distinct, and the same for both sides for ever."""

import hashlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InputError
from holdfast.pdp import Challenge, FileEntry, Inventory, draw_challenge
from holdfast.pdp.challenge import distinct_below, nonzero_rows

FILES = FileEntry(b"a" * 16, 1, b"c" * 32, 1000), FileEntry(b"b" * 16, 2, b"d" * 32, 500)
INVENTORY = Inventory(b"k" * 32, 16, FILES)


def plainly_distinct(label: bytes, count: int, bound: int) -> list[int]:
    """Return what the docstring says, one number at a time."""
    if 2 * count > bound:
        left_out = set(plainly_distinct(label, bound - count, bound))
        return [number for number in range(bound) if number not in left_out]
    bits = (bound - 1).bit_length()
    width = max(1, (bits + 7) // 8)
    stream = hashlib.shake_256(label).digest(width * 40 * (count + 10))
    chosen: list[int] = []
    while len(chosen) < count:
        number = int.from_bytes(stream[:width], "little") % 2**bits
        stream = stream[width:]
        if number < bound and number not in chosen:
            chosen.append(number)
    return sorted(chosen)


@given(bound=st.integers(1, 400), share=st.floats(0, 1), label=st.binary(max_size=8))
@settings(max_examples=150, deadline=None)
def test_indices_follow_their_definition(bound: int, share: float, label: bytes) -> None:
    count = round(share * bound)
    assert distinct_below(label, count, bound).tolist() == plainly_distinct(label, count, bound)


@given(bound=st.integers(2**20, 2**48), count=st.integers(1, 500))
@settings(max_examples=30, deadline=None)
def test_indices_of_a_large_holding_are_distinct_and_in_range(bound: int, count: int) -> None:
    indices = distinct_below(b"label", count, bound)
    assert len(np.unique(indices)) == count
    assert indices.min() >= 0
    assert indices.max() < bound


def test_every_pair_of_blocks_is_equally_likely() -> None:
    rounds = 6000
    pairs = Counter(
        tuple(distinct_below(n.to_bytes(4, "big"), 2, 5).tolist()) for n in range(rounds)
    )
    assert len(pairs) == 10
    expected = rounds / 10
    chi_square = sum((seen - expected) ** 2 / expected for seen in pairs.values())
    assert chi_square < 27.9  # 9 degrees of freedom, 0.1 %


def test_coefficients_are_never_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        """A stream whose second number is zero, which SHAKE gives once in 2^128."""

        def digest(self, length: int) -> bytes:
            return (b"\1" * 16 + bytes(16) + b"\2" * 16 + b"\3" * 32)[:length]

    monkeypatch.setattr(hashlib, "shake_256", lambda _label: Stream())
    assert nonzero_rows(b"label", 2).tolist() == [[1] * 16, [2] * 16]


def test_both_sides_reconstruct_the_same_sample_for_ever() -> None:
    """A change of these values would break every recorded audit."""
    challenge = Challenge(b"s" * 32, b"h" * 32, 10**6, 5, 0, 10**6)
    sample = challenge.expand()
    assert challenge.id.hex() == GOLDEN_ID
    assert sample.indices.tolist() == GOLDEN_INDICES
    assert sample.coefficients[0].tobytes().hex() == GOLDEN_COEFFICIENT


GOLDEN_ID = "7b45bae8ea826721fae86b35f4cfd5a21d26b2741906b39e971bb45a2f82c8b2"
GOLDEN_INDICES = [108519, 432524, 655480, 861761, 954497]
GOLDEN_COEFFICIENT = "850efef28a981471bd7fdc3330eb6753"


def test_everything_in_a_challenge_changes_its_sample() -> None:
    plain = Challenge(b"s" * 32, b"h" * 32, 1000, 50, 0, 1000)
    others = [
        Challenge(b"t" * 32, b"h" * 32, 1000, 50, 0, 1000),
        Challenge(b"s" * 32, b"i" * 32, 1000, 50, 0, 1000),
        Challenge(b"s" * 32, b"h" * 32, 1001, 50, 0, 1000),
        Challenge(b"s" * 32, b"h" * 32, 1000, 51, 0, 1000),
        Challenge(b"s" * 32, b"h" * 32, 1000, 50, 1, 1000),
        Challenge(b"s" * 32, b"h" * 32, 1000, 50, 0, 999),
    ]
    first = plain.expand().coefficients[0].tobytes()
    assert all(other.expand().coefficients[0].tobytes() != first for other in others)
    assert len({other.id for other in others} | {plain.id}) == 7


def test_a_span_is_sampled_and_nothing_else() -> None:
    sample = draw_challenge(INVENTORY, 40, span=(700, 760)).expand()
    assert len(sample.indices) == 40
    assert sample.indices.min() >= 700
    assert sample.indices.max() < 760


def test_all_blocks_can_be_asked_for() -> None:
    sample = draw_challenge(INVENTORY, 1500).expand()
    assert sample.indices.tolist() == list(range(1500))


@pytest.mark.parametrize(("samples", "span"), [(0, None), (1501, None), (11, (0, 10)), (1, (5, 5))])
def test_impossible_challenges_are_refused(samples: int, span: tuple[int, int] | None) -> None:
    with pytest.raises(InputError, match="can't"):
        draw_challenge(INVENTORY, samples, span=span)


def test_an_empty_inventory_cannot_be_challenged() -> None:
    with pytest.raises(InputError, match="empty"):
        draw_challenge(Inventory(b"k" * 32, 16), 1)
