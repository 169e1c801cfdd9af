"""What ships is what the source says."""

from pathlib import Path

import pytest

from holdfast.errors import InputError
from holdfast.ledger import artefact, build
from holdfast.ledger.build import compile_contract, write_artefacts


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


@pytest.mark.slow
def test_a_build_writes_the_bytes_that_ship(tmp_path: Path) -> None:
    write_artefacts(tmp_path, 1)
    (written,) = tmp_path.iterdir()
    shipped = Path(build.__file__).parent / "contract" / written.name
    assert written.read_bytes() == shipped.read_bytes()
