"""Hints are checked one by one: bad ones neither pass a proof nor fail a node for a good one."""

from pathlib import Path

import pytest
from tests.ledger.hints import (
    Values,
    hostile_hints_are_malformed_even_with_the_nodes_signature,
    refusal,
)
from tests.ledger.world import Kept, World, evm_world, names, wrong
from web3 import Web3

from holdfast.ledger import check
from holdfast.ledger.evm import EvmLedger
from holdfast.ledger.interface import Answer, Reason


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return evm_world(tmp_path_factory.mktemp("ledger"), 4)


def test_hostile_hints_are_malformed_even_with_the_nodes_signature(world: World) -> None:
    hostile_hints_are_malformed_even_with_the_nodes_signature(world)


def test_a_wrong_proof_with_true_hints_is_wrong_and_not_malformed(world: World) -> None:
    kept = Kept(world, 4, seed=1)
    audit = kept.open()
    forged = wrong(audit.proof)
    points, inverse = check.hints(kept.store.key.public, audit.target, forged)
    values: Values = (forged.sigma, list(forged.mu), points, inverse)
    refused = refusal(world, kept, audit.id, values, Answer(forged))
    assert refused == f"execution reverted: {Reason.WRONG}"


def test_the_key_is_stored_as_code_that_cannot_run(world: World) -> None:
    kept = Kept(world, 4, seed=2)
    ledger = world.owner
    assert isinstance(ledger, EvmLedger)
    assert ledger.key(kept.id) == kept.store.key.public
    where = Web3.to_checksum_address(ledger._contract.functions.keys(kept.id).call().to_bytes(20))
    assert ledger._web3.eth.get_code(where)[:1] == b"\0"


@pytest.mark.parametrize("sectors", [16])
def test_the_default_number_of_sectors_passes_too(sectors: int, tmp_path: Path) -> None:
    kept = Kept(evm_world(tmp_path, sectors), sectors)
    audit = kept.open()
    receipt = kept.world.owner.submit(kept.id, audit.id, Answer(audit.proof))
    assert names(receipt) == ["Passed"]
    assert receipt.gas <= 140_000
