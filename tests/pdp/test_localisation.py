"""Damaged blocks are found, all and only these, with few proofs."""

from math import ceil, log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.memory_holding import Holding

from holdfast.pdp import Challenge, Proof, locate

BLOCKS = 256


@pytest.mark.slow
@given(damaged=st.sets(st.integers(0, BLOCKS - 1), max_size=12))
@settings(max_examples=40, deadline=None)
def test_all_and_only_the_damaged_blocks_are_found(damaged: set[int]) -> None:
    holding = Holding.of(31 * (BLOCKS - 100) - 1, 31 * 100 - 1, sectors=1)
    assert holding.inventory.blocks == BLOCKS
    for block in damaged:
        entry, local = holding.inventory.place(block)
        holding.damage(local, holding.ids.index(entry.file_id))
    damage = locate(holding.key, holding.inventory, holding.prover().prove)
    assert set(damage.blocks) == damaged
    assert damage.inconsistent == ()
    assert damage.proofs <= 2 * len(damaged) * ceil(log2(BLOCKS)) + 1


def test_progress_ends_with_every_block_settled() -> None:
    holding = Holding.of(31 * 100, sectors=1)
    holding.damage(17)
    seen: list[tuple[int, int]] = []
    damage = locate(
        holding.key,
        holding.inventory,
        holding.prover().prove,
        on_progress=lambda settled, proofs: seen.append((settled, proofs)),
    )
    assert seen == sorted(seen)
    assert seen[-1] == (holding.inventory.blocks, damage.proofs)


def test_a_span_can_be_searched_alone() -> None:
    holding = Holding.of(31 * 100, sectors=1)
    holding.damage(3)
    holding.damage(70)
    damage = locate(holding.key, holding.inventory, holding.prover().prove, span=(50, 101))
    assert damage.blocks == (70,)


def test_a_node_that_changes_its_answers_is_reported_as_such() -> None:
    holding = Holding.of(31 * 64, sectors=1)
    prover = holding.prover()
    first = True

    def moody(challenge: Challenge) -> Proof:
        nonlocal first
        proof = prover.prove(challenge)
        if first:
            first = False
            return Proof(proof.challenge_id, proof.sigma ^ 1, proof.mu)
        return proof

    damage = locate(holding.key, holding.inventory, moody)
    assert damage.blocks == ()
    assert damage.inconsistent == ((0, holding.inventory.blocks),)
    assert damage.proofs == 3


@given(
    damaged=st.sets(st.integers(0, BLOCKS - 1), max_size=12), grain=st.sampled_from([2, 16, BLOCKS])
)
@settings(max_examples=20, deadline=None)
def test_small_spans_may_be_looked_at_instead(damaged: set[int], grain: int) -> None:
    holding = Holding.of(31 * BLOCKS - 1, sectors=1)
    for block in damaged:
        holding.damage(block)
    looked_at: list[tuple[int, int]] = []

    def inspect(span: tuple[int, int]) -> list[int]:
        looked_at.append(span)
        return [block for block in damaged if span[0] <= block < span[1]]

    damage = locate(
        holding.key, holding.inventory, holding.prover().prove, grain=grain, inspect=inspect
    )
    assert set(damage.blocks) == damaged
    assert damage.inconsistent == ()
    assert all(stop - start <= grain for start, stop in looked_at)


def test_a_span_that_fails_but_looks_sound_is_reported_as_such() -> None:
    holding = Holding.of(31 * 100, sectors=1)
    holding.damage(17)
    damage = locate(
        holding.key, holding.inventory, holding.prover().prove, grain=200, inspect=lambda _span: ()
    )
    assert (damage.blocks, damage.inconsistent) == ((), ((0, 101),))


def test_a_span_that_is_not_answered_for_has_failed() -> None:
    holding = Holding.of(31 * 100, sectors=1)
    prover = holding.prover()

    def reticent(challenge: Challenge) -> Proof | None:
        return None if challenge.start <= 17 < challenge.stop else prover.prove(challenge)

    assert locate(holding.key, holding.inventory, reticent).blocks == (17,)
