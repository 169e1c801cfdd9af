"""Calls that the client would never make, offered to the contract itself."""

from typing import Any

from tests.support.ledger_env import Kept, World, batch_of, names
from web3 import Web3

from holdfast.ledger import check
from holdfast.ledger.evm import EvmLedger, _signature
from holdfast.ledger.interface import Reason, Receipt
from holdfast.pdp import Proof, curve, target_of
from holdfast.pdp.field import Q

Values = tuple[int, list[int], list[tuple[int, int]], int]
MALFORMED = f"execution reverted: {Reason.MALFORMED}"
UNKNOWN = f"execution reverted: {Reason.UNKNOWN}"


def refusal(world: World, name: str, *arguments: Any) -> str:
    """Return how the contract refuses these arguments, or nothing if it takes them."""
    ledger = world.owner
    assert isinstance(ledger, EvmLedger)
    call = ledger._contract.functions[name](*arguments)
    try:
        call.call({"from": Web3.to_checksum_address(ledger.sender)})
    except Exception as error:  # noqa: BLE001 - the EVM in this process has errors of its own
        return str(error)
    return ""


def hostile_hints_are_malformed_even_with_the_nodes_signature(world: World) -> None:
    kept = Kept(world, 4)
    audit = kept.open()
    public, proof = kept.store.key.public, audit.proof
    points, inverse = check.hints(public, audit.target, proof)
    honest: Values = (proof.sigma, list(proof.mu), points, inverse)
    signature = _signature(kept.signed(audit.id, proof))
    assert refusal(world, "submit", kept.id, audit.id, honest, signature) == ""

    target = target_of(kept.store.key, kept.store.inventory, audit.challenge)
    minus_t = curve.times(curve.decode(target.point), Q - 1)
    assert minus_t is not None
    true = minus_t.point()
    for hints, z in (
        ([true, *points[1:]], inverse),
        ([*points[:3], true], inverse),
        ([points[1], points[0], *points[2:]], inverse),
        ([(0, 0)] * 4, 0),
        ([true] * 4, 1),
        (points, inverse + 1),
        (points, 0),
    ):
        values: Values = (proof.sigma, list(proof.mu), hints, z)
        assert refusal(world, "submit", kept.id, audit.id, values, signature) == MALFORMED

    # A forger without the data needs one sector only, and offers the true -T as its sum.
    lone: Values = (1, [1, 0, 0, 0], [true, (0, 0), (0, 0), (0, 0)], 1)
    assert refusal(world, "submit", kept.id, audit.id, lone, (0, 0, 0)) == MALFORMED


def a_part_of_a_batch_is_only_what_and_where_it_was_opened(world: World) -> None:
    kept = [Kept(world, seed=seed) for seed in range(4)]
    batch, audits = batch_of(world, [*kept, *kept, *kept, *kept], b"p" * 32)
    world.owner.open_many(batch)
    head = (Web3.to_checksum_address(batch.owner), batch.seed, batch.deadline)
    two_leaves = batch.part([0, 7])
    assert (len(two_leaves.words), len(two_leaves.path)) == (8, 1)

    def settled(start: int, words: Any, path: Any, offset: int, signatures: Any = ()) -> str:
        answers = [(offset, _values(audits[0].proof))]
        return refusal(world, "settle", head, (start, words, path), answers, list(signatures))

    words, path = two_leaves.words, two_leaves.path
    assert settled(0, words, path, 0) == ""
    # Under the place of its neighbour a challenge could be settled twice, and the other never.
    for start in (1, 4, 16):
        assert settled(start, words, path, 0) == MALFORMED
    assert settled(0, [], path, 0) == MALFORMED
    assert settled(0, words[::-1], path, 0) == MALFORMED
    assert settled(0, words, path, 8) == UNKNOWN
    assert settled(8, words, path, 0) == UNKNOWN
    assert settled(0, words, (), 0) == UNKNOWN
    assert settled(0, words[:4], path, 0) == UNKNOWN
    assert settled(0, words[:7], path, 0) == UNKNOWN
    assert settled(0, words, path, 0, [(0, 0, 0)] * 2) == MALFORMED
    # What is named twice is settled once, and nothing is never settled.
    where = (0, words, path)
    twice = [(0, _values(audits[0].proof)), (0, _values(audits[0].proof))]
    assert names(_sent(world, "settle", head, where, twice, [])) == ["Passed"]
    assert refusal(world, "settle", head, where, twice, []) == UNKNOWN
    assert refusal(world, "settle", head, where, [], []) == UNKNOWN
    world.advance(200)
    assert names(_sent(world, "expire_many", head, where, [1, 1])) == ["TimedOut"]
    for offsets in ([8], [1, 0], []):
        assert refusal(world, "expire_many", head, where, offsets) == UNKNOWN


def a_challenge_samples_some_of_its_blocks(world: World) -> None:
    kept = Kept(world)
    target, deadline = Web3.to_checksum_address(b"t" * 20), world.now() + 100
    for blocks, samples, reason in ((5, 5, ""), (5, 6, MALFORMED), (5, 0, MALFORMED)):
        question = (kept.number, b"s" * 32, bytes(32), blocks, samples, target, deadline)
        assert refusal(world, "open", *question) == reason


def _sent(world: World, name: str, *arguments: Any) -> Receipt:
    ledger = world.owner
    assert isinstance(ledger, EvmLedger)
    return ledger._send(name, *arguments)


def _values(proof: Proof) -> tuple[int, list[int]]:
    return proof.sigma, list(proof.mu)
