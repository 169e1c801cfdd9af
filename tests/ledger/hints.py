"""Hostile hints, offered to the contract itself: the client would never make them."""

from typing import Any

from tests.ledger.world import Kept, World
from web3 import Web3

from holdfast.ledger import check
from holdfast.ledger.evm import EvmLedger, _signature
from holdfast.ledger.interface import Answer, Reason
from holdfast.pdp import curve, target_of
from holdfast.pdp.field import Q

Values = tuple[int, list[int], list[tuple[int, int]], int]


def refusal(world: World, kept: Kept, challenge: bytes, values: Values, answer: Answer) -> str:
    """Return how the contract refuses these values, or nothing if it takes them."""
    ledger = world.owner
    assert isinstance(ledger, EvmLedger)
    arguments: Any = (kept.id, challenge, values, _signature(answer))
    call = ledger._contract.functions.submit(*arguments)
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
    signed = kept.signed(audit.id, proof)
    assert refusal(world, kept, audit.id, honest, signed) == ""

    target = target_of(kept.store.key, kept.store.inventory, audit.challenge)
    minus_t = curve.times(curve.decode(target.point), Q - 1)
    assert minus_t is not None
    true = minus_t.point()
    malformed = f"execution reverted: {Reason.MALFORMED}"
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
        assert refusal(world, kept, audit.id, values, signed) == malformed

    # A forger without the data needs one sector only, and offers the true -T as its sum.
    lone: Values = (1, [1, 0, 0, 0], [true, (0, 0), (0, 0), (0, 0)], 1)
    assert refusal(world, kept, audit.id, lone, Answer(proof)) == malformed
