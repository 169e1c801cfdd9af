"""What ships is what the source says."""

import pytest

from holdfast.errors import InputError
from holdfast.ledger import artefact
from holdfast.ledger.build import compile_contract


@pytest.mark.slow
@pytest.mark.parametrize("sectors", artefact.SECTORS)
def test_the_shipped_contract_is_compiled_from_the_shipped_source(sectors: int) -> None:
    assert compile_contract(sectors, artefact.sources(sectors)) == artefact.load(sectors)


def test_no_function_takes_funds() -> None:
    for entry in artefact.load(1).abi:
        assert entry.get("stateMutability") != "payable"


def test_other_numbers_of_sectors_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="1, 4, 16, 64, 128"):
        artefact.load(3)
