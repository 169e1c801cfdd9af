"""Each plausible slip in the contract breaks a scene: else the scenes would not guard it."""

from pathlib import Path

import pytest
from tests.ledger.hints import hostile_hints_are_malformed_even_with_the_nodes_signature
from tests.ledger.mutants import MUTANTS, Mutant
from tests.ledger.scenes import SCENES
from tests.ledger.world import World, evm_world

from holdfast.errors import HoldfastError
from holdfast.ledger import artefact
from holdfast.ledger.build import compiled


def first_broken(world: World) -> str | None:
    hostile = [hostile_hints_are_malformed_even_with_the_nodes_signature]
    for scene in SCENES + hostile * (world.owner.sectors > 1):
        try:
            scene(world)
        except (AssertionError, pytest.fail.Exception, HoldfastError):
            return scene.__name__
    return None


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_dies(mutant: Mutant, tmp_path: Path) -> None:
    sources = artefact.sources(mutant.sectors)
    assert sources[mutant.file].count(mutant.old) == 1
    sources[mutant.file] = sources[mutant.file].replace(mutant.old, mutant.new)
    slip = compiled(mutant.sectors, sources)
    assert first_broken(evm_world(tmp_path, mutant.sectors, slip)) is not None
