"""What the client would never send is refused by the contract itself."""

import pytest
from tests.ledger import raw
from tests.ledger.raw import Values, refusal
from tests.support.ledger_env import Kept, World, evm_world, wrong
from web3 import Web3

from holdfast.ledger import check
from holdfast.ledger.evm import EvmLedger
from holdfast.ledger.interface import Reason


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return evm_world(tmp_path_factory.mktemp("ledger"), 4)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> World:
    return evm_world(tmp_path_factory.mktemp("ledger"), 1)


def test_hostile_hints_are_malformed_even_with_the_nodes_signature(world: World) -> None:
    raw.hostile_hints_are_malformed_even_with_the_nodes_signature(world)


def test_a_part_of_a_batch_is_only_what_and_where_it_was_opened(narrow: World) -> None:
    raw.a_part_of_a_batch_is_only_what_and_where_it_was_opened(narrow)


def test_a_challenge_samples_some_of_its_blocks(narrow: World) -> None:
    raw.a_challenge_samples_some_of_its_blocks(narrow)


def test_a_wrong_proof_with_true_hints_is_wrong_and_not_malformed(world: World) -> None:
    kept = Kept(world, 4, seed=1)
    audit = kept.open()
    forged = wrong(audit.proof)
    points, inverse = check.hints(kept.store.key.public, audit.target, forged)
    values: Values = (forged.sigma, list(forged.mu), points, inverse)
    refused = refusal(world, "submit", kept.id, audit.id, values, (0, 0, 0))
    assert refused == f"execution reverted: {Reason.WRONG}"


def test_the_key_is_stored_as_code_that_cannot_run(world: World) -> None:
    kept = Kept(world, 4, seed=2)
    ledger = world.owner
    assert isinstance(ledger, EvmLedger)
    assert ledger.key(kept.id) == kept.store.key.public
    where = Web3.to_checksum_address(ledger._contract.functions.keys(kept.id).call().to_bytes(20))
    assert ledger._web3.eth.get_code(where)[:1] == b"\0"
