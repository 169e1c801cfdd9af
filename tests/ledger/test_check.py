"""The check in Python agrees with the primitive's own, and refuses what the contract refuses."""

from dataclasses import replace

import pytest
from coincurve import PublicKey as CurvePoint
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.memory_holding import Holding

from holdfast.errors import InputError, MalformedError
from holdfast.ledger import check
from holdfast.ledger.interface import MAX_BATCH, PART, Batch, Entry, check_owner
from holdfast.ledger.keccak import Tree, keccak
from holdfast.pdp import Target, curve, draw_challenge, target_of, verify_in_public
from holdfast.pdp.field import Q

EMPTY = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"


def test_keccak_is_the_chains_and_not_sha3() -> None:
    assert keccak(b"").hex() == EMPTY


@settings(max_examples=20, deadline=None)
@given(
    sectors=st.integers(1, 5),
    seed=st.binary(min_size=32, max_size=32),
    change=st.integers(0, 3),
    sector=st.integers(0, 4),
)
def test_both_forms_of_the_check_agree(sectors: int, seed: bytes, change: int, sector: int) -> None:
    holding = Holding.of(31 * sectors * 4, sectors=sectors)
    challenge = draw_challenge(holding.inventory, 3, seed=seed)
    target = target_of(holding.key, holding.inventory, challenge)
    proof = holding.prove(challenge)
    mu = list(proof.mu)
    mu[sector % sectors] = (mu[sector % sectors] + change) % Q
    changed = replace(proof, mu=tuple(mu))
    public = holding.key.public
    expected = verify_in_public(public, target, challenge, changed)
    assert check.passes(public, check.target_address(target), changed) == expected
    assert expected == (change == 0)


def test_hints_sum_to_the_target_in_the_order_of_the_contract() -> None:
    holding = Holding.of(31 * 4 * 4, sectors=4)
    challenge = draw_challenge(holding.inventory, 3, seed=bytes(32))
    target = target_of(holding.key, holding.inventory, challenge)
    proof = holding.prove(challenge)
    points, _ = check.hints(holding.key.public, check.target_address(target), proof)
    total = curve.total([CurvePoint.from_point(*point) for point in points])
    minus_t = curve.times(curve.decode(target.point), Q - 1)
    assert curve.encode(total) == curve.encode(minus_t)


def test_malformed_proofs_are_told_from_wrong_ones() -> None:
    holding = Holding.of(31 * 8, sectors=2)
    challenge = draw_challenge(holding.inventory, 2)
    proof = holding.prove(challenge)
    for bad in (
        replace(proof, sigma=Q),
        replace(proof, sigma=-1),
        replace(proof, mu=(Q, 1)),
        replace(proof, mu=(1,)),
    ):
        with pytest.raises(MalformedError):
            check.passes(holding.key.public, bytes(20), bad)


def test_a_target_at_infinity_is_refused() -> None:
    with pytest.raises(InputError, match="infinity"):
        check.target_address(Target(bytes(32), bytes(32), bytes(33)))


def climb(leaf: bytes, index: int, path: tuple[bytes, ...]) -> bytes | None:
    """Return the root that a path leads to, or nothing if the tree has no such index."""
    for sibling in path:
        leaf = keccak(sibling + leaf if index % 2 else leaf + sibling)
        index //= 2
    return None if index else leaf


@given(size=st.integers(1, 40), data=st.data())
def test_every_leaf_climbs_to_the_root_and_by_its_own_index_only(
    size: int, data: st.DataObject
) -> None:
    leaves = [keccak(bytes([n])) for n in range(size)]
    tree = Tree(leaves)
    index = data.draw(st.integers(0, size - 1))
    path = tree.path(index)
    assert climb(leaves[index], index, path) == tree.root
    assert climb(leaves[index], index + 2 ** len(path), path) is None
    other = data.draw(st.integers(0, 2 ** len(path) - 1))
    assert (climb(leaves[index], other, path) == tree.root) == (other == index)


@given(size=st.integers(1, 300), data=st.data())
def test_a_part_of_a_batch_leads_to_the_root_of_all(size: int, data: st.DataObject) -> None:
    words = tuple(Entry(bytes(20), n, 1, bytes(4)).encode() for n in range(size))
    batch = Batch(bytes(20), bytes(32), 1, words)
    first = data.draw(st.integers(0, size - 1))
    last = data.draw(st.integers(first, min(size - 1, first | 127)))
    part = batch.part([first, last])
    assert part.start <= first <= last < part.start + len(part.words)
    below = Batch(bytes(20), bytes(32), 1, part.words)
    level = max((len(part.words) - 1).bit_length(), 2)
    assert climb(below.root, part.start >> level, part.path) == batch.root


def test_a_word_is_read_as_it_was_written() -> None:
    entry = Entry(b"t" * 20, 7, 460, b"hash")
    assert Entry.decode(entry.encode()) == entry
    assert len(entry.encode()) == 32


def test_a_batch_is_bounded_and_a_part_of_it_lies_in_one_subtree() -> None:
    words = tuple(number.to_bytes(32, "big") for number in range(1, 3 * PART))
    batch = Batch(b"o" * 20, b"s" * 32, 100, words)
    for indices, said in (
        ([], "name some of these"),
        ([len(words)], "name some of these"),
        (range(PART + 1), f"at most {PART} challenges are settled at once"),
        ([PART - 1, PART], f"must share a subtree of {PART}"),
    ):
        with pytest.raises(InputError, match=said):
            batch.part(indices)
    for count in (0, MAX_BATCH + 1):
        with pytest.raises(InputError, match=f"a batch has 1 to {MAX_BATCH} challenges"):
            Batch(b"o" * 20, b"s" * 32, 100, words[:1] * count)
    check_owner(batch, b"o" * 20)
    with pytest.raises(InputError, match="only its owner can open it"):
        check_owner(batch, b"x" * 20)
