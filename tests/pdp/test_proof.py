"""One proof answers for all files of a holding and reads only what was sampled."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.memory_holding import Holding

from holdfast.errors import InputError, StorageError
from holdfast.pdp import (
    Location,
    Proof,
    Prover,
    StoredFile,
    TagFile,
    Target,
    curve,
    draw_challenge,
    target_of,
    verify_in_public,
    verify_with_key,
)
from holdfast.pdp.field import Q
from holdfast.pdp.limbs import MAX_ROWS
from holdfast.pdp.readers import Memory, Part, Range


class Recording:
    """A reader that remembers which bytes were asked of it."""

    def __init__(self, content: bytes, gap_bytes: int = 0) -> None:
        self._memory = Memory(content)
        self.name = "recording"
        self.batch_bytes, self.gap_bytes = 1000, gap_bytes
        self.ranges: list[Range] = []

    def size(self) -> int:
        return self._memory.size()

    def read_many(self, ranges: Sequence[Range]) -> Sequence[Part]:
        self.ranges += ranges
        return self._memory.read_many(ranges)


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=5),
    sectors=st.sampled_from([1, 2, 3, 16]),
    share=st.floats(0.001, 1),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_honest_proofs_pass_in_both_forms(
    sizes: list[int], sectors: int, share: float, seed: int
) -> None:
    holding = Holding.of(*sizes, sectors=sectors, seed=seed)
    challenge = draw_challenge(holding.inventory, max(1, round(share * holding.inventory.blocks)))
    proof = holding.prove(challenge)
    target = target_of(holding.key, holding.inventory, challenge)
    assert verify_with_key(holding.key, holding.inventory, challenge, proof)
    assert verify_in_public(holding.key.public, target, challenge, proof)


@given(block=st.integers(0, 99), bit=st.integers(0, 7), seed=st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_one_flipped_bit_in_a_sampled_block_fails(block: int, bit: int, seed: int) -> None:
    holding = Holding.of(62 * 100, sectors=2, seed=seed)
    holding.contents[0][block * 62 + seed % 62] ^= 1 << bit
    assert not holding.passes()


def test_only_sampled_blocks_are_read() -> None:
    holding = Holding.of(62 * 500 + 9)
    data = Recording(bytes(holding.contents[0]))
    tags = TagFile(Memory(bytes(holding.tags[0])))
    prover = Prover(holding.inventory, {holding.ids[0]: StoredFile(data, tags)})
    challenge = draw_challenge(holding.inventory, 7)
    assert holding.verify(challenge, prover.prove(challenge))
    read = {at // 62 for offset, length in data.ranges for at in range(offset, offset + length)}
    assert read == set(challenge.expand().indices.tolist())


def test_more_rows_than_one_sum_can_take_are_proved_in_parts() -> None:
    holding = Holding.of(31 * (MAX_ROWS + 100), sectors=1)
    assert holding.passes()


@pytest.mark.parametrize("fill", [b"\0", b"\xff"])
@pytest.mark.parametrize("sectors", [1, 16])
def test_extreme_data_is_proved(fill: bytes, sectors: int) -> None:
    holding = Holding.of(0, sectors=sectors)
    constant = Holding(holding.key, [bytearray(fill * 31 * sectors * 50)])
    challenge = draw_challenge(constant.inventory, 50, span=(0, 50))
    proof = constant.prove(challenge)
    assert constant.verify(challenge, proof)
    target = target_of(constant.key, constant.inventory, challenge)
    assert verify_in_public(constant.key.public, target, challenge, proof)
    if fill == b"\0":
        assert proof.mu == (0,) * sectors, "which the check on the curve must bear"


def test_the_point_at_infinity_is_borne() -> None:
    holding = Holding.of(100, sectors=1)
    challenge = draw_challenge(holding.inventory, 1)
    alpha = holding.key.alphas[0]
    nothing = Target(holding.key.public.id, challenge.id, curve.encode(None))  # tau = 0
    public = holding.key.public
    assert verify_in_public(public, nothing, challenge, Proof(challenge.id, 0, (0,)))
    assert verify_in_public(public, nothing, challenge, Proof(challenge.id, alpha, (1,)))
    assert not verify_in_public(public, nothing, challenge, Proof(challenge.id, 1, (0,)))
    cancelling = Target(holding.key.public.id, challenge.id, curve.encode(curve.times_base(-alpha)))
    assert verify_in_public(public, cancelling, challenge, Proof(challenge.id, 0, (1,)))
    assert not verify_in_public(public, cancelling, challenge, Proof(challenge.id, 1, (1,)))


def test_stored_files_can_lie_behind_fsspec(tmp_path: Path) -> None:
    holding = Holding.of(5000, 3000)
    with fsspec.open("memory://node/a", "wb") as file:
        file.write(bytes(holding.contents[0]))
    (tmp_path / "b").write_bytes(bytes(holding.contents[1]))
    places = [Location("memory://node/a"), Location(f"file://{tmp_path}/b")]
    files = {
        file_id: StoredFile(place.open(), TagFile(Memory(bytes(tags))))
        for file_id, place, tags in zip(holding.ids, places, holding.tags, strict=True)
    }
    challenge = draw_challenge(holding.inventory, 60)
    assert holding.verify(challenge, Prover(holding.inventory, files).prove(challenge))
    with pytest.raises(InputError, match="no such file"):
        Location("memory://node/missing").open()
    with pytest.raises(InputError, match="can't read nonsense://x"):
        Location("nonsense://x").open()
    with pytest.raises(StorageError, match="ends before"):
        places[0].open().read_many([(4990, 20)])


def test_a_file_that_is_not_at_hand_is_named() -> None:
    holding = Holding.of(5000, 3000)
    prover = holding.prover()
    lacking = replace(prover, files={holding.ids[0]: prover.files[holding.ids[0]]})
    with pytest.raises(InputError, match=holding.ids[1].hex()):
        lacking.prove(holding.challenge_all())


def test_tags_of_another_file_version_or_key_are_named() -> None:
    holding, other = Holding.of(5000, 5000), Holding.of(5000, seed=1)
    prover = holding.prover()
    first, second = (prover.files[file_id] for file_id in holding.ids)
    swapped = replace(prover, files=dict(zip(holding.ids, (second, first), strict=True)))
    with pytest.raises(InputError, match="where the inventory has version 1 of file"):
        swapped.prove(holding.challenge_all())
    stranger = replace(first, tags=other.prover().files[other.ids[0]].tags)
    with pytest.raises(InputError, match="under another key"):
        replace(prover, files={**prover.files, holding.ids[0]: stranger}).prove(
            holding.challenge_all()
        )


def test_keys_inventories_and_challenges_that_do_not_belong_together_are_named() -> None:
    holding, other = Holding.of(5000), Holding.of(4000, seed=1)
    challenge = holding.challenge_all()
    proof = holding.prove(challenge)
    with pytest.raises(InputError, match="belongs to another key"):
        verify_with_key(other.key, holding.inventory, challenge, proof)
    with pytest.raises(InputError, match="older state"):
        verify_with_key(other.key, other.inventory, challenge, proof)
    target = target_of(holding.key, holding.inventory, holding.challenge_all())
    with pytest.raises(InputError, match="another challenge"):
        verify_in_public(holding.key.public, target, challenge, proof)
    right = target_of(holding.key, holding.inventory, challenge)
    with pytest.raises(InputError, match="another public key"):
        verify_in_public(other.key.public, right, challenge, proof)


def test_proofs_of_any_number_of_blocks_have_one_size() -> None:
    holding = Holding.of(62 * 1000)
    sizes = {
        len(holding.prove(draw_challenge(holding.inventory, samples)).encode())
        for samples in (1, 10, 1000)
    }
    assert len(sizes) == 1
    assert np.all(np.array(holding.prove(holding.challenge_all()).mu) < Q)


def test_tags_of_another_tagging_or_of_more_blocks_than_the_inventory_has_are_named() -> None:
    holding = Holding.of(5000)
    (entry,) = holding.inventory.files
    for wrong, said in (
        (replace(entry, nonce=b"n" * 32), "another tagging of version 1"),
        (replace(entry, blocks=entry.blocks - 1), f"{entry.blocks} blocks, the inventory"),
    ):
        stored = holding.prover().files[entry.file_id]
        with pytest.raises(InputError, match=said):
            stored.check(wrong, holding.inventory)
