"""Each plausible slip in the contract breaks the scene that it names: so the scenes guard it."""

from pathlib import Path

import pytest
from tests.ledger.mutants import MUTANTS, Mutant
from tests.ledger.world import evm_world

from holdfast.errors import HoldfastError
from holdfast.ledger import artefact
from holdfast.ledger.build import compiled


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_dies(mutant: Mutant, tmp_path: Path) -> None:
    sources = artefact.sources(mutant.sectors)
    assert sources[mutant.file].count(mutant.old) == 1
    sources[mutant.file] = sources[mutant.file].replace(mutant.old, mutant.new)
    world = evm_world(tmp_path, mutant.sectors, compiled(mutant.sectors, sources))
    with pytest.raises((AssertionError, pytest.fail.Exception, HoldfastError)):
        mutant.killer(world)
