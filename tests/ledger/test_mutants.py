"""Each plausible slip in the contract breaks the scene that it names: so the scenes guard it."""

from functools import cache
from pathlib import Path

import pytest
from tests.ledger.mutants import MUTANTS, Mutant, sources
from tests.ledger.scenes import Scene
from tests.support.ledger_env import evm_world

from holdfast.errors import HoldfastError
from holdfast.ledger.artefact import Artefact
from holdfast.ledger.build import compile_contract


@cache
def sound(sectors: int) -> Artefact:
    return compile_contract(sectors, sources(sectors))


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_dies(mutant: Mutant, tmp_path: Path) -> None:
    changed = sources(mutant.sectors)
    assert changed[mutant.file].count(mutant.old) == 1
    changed[mutant.file] = changed[mutant.file].replace(mutant.old, mutant.new)
    world = evm_world(tmp_path, mutant.sectors, compile_contract(mutant.sectors, changed))
    with pytest.raises((AssertionError, pytest.fail.Exception, HoldfastError)):
        mutant.killer(world)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sectors", "killer"),
    dict.fromkeys((mutant.sectors, mutant.killer) for mutant in MUTANTS),
    ids=lambda given: getattr(given, "__name__", given),
)
def test_without_a_slip_it_lives(sectors: int, killer: Scene, tmp_path: Path) -> None:
    killer(evm_world(tmp_path, sectors, sound(sectors)))
