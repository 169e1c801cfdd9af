"""Each plausible slip in the contract breaks the scene that it names: so the scenes guard it."""

from dataclasses import asdict
from pathlib import Path

import pytest
import vyper
from tests.ledger.mutants import MUTANTS, Mutant, sources
from tests.ledger.scenes import Scene
from tests.support.ledger_env import evm_world

from holdfast.errors import HoldfastError
from holdfast.ledger.artefact import Artefact, source_hash
from holdfast.ledger.build import compile_contract


def compiled(cache: pytest.Cache, sectors: int, contract: dict[str, str]) -> Artefact:
    """Compile a contract, or take what the same compiler made of the same source before."""
    name = f"vyper-{vyper.__version__}/{source_hash(contract)}"
    if (known := cache.get(name, None)) is not None:
        return Artefact(**known)
    artefact = compile_contract(sectors, contract)
    cache.set(name, asdict(artefact))
    return artefact


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mutant_dies(mutant: Mutant, tmp_path: Path, cache: pytest.Cache) -> None:
    changed = sources(mutant.sectors)
    assert changed[mutant.file].count(mutant.old) == 1
    changed[mutant.file] = changed[mutant.file].replace(mutant.old, mutant.new)
    world = evm_world(tmp_path, mutant.sectors, compiled(cache, mutant.sectors, changed))
    with pytest.raises((AssertionError, pytest.fail.Exception, HoldfastError)):
        mutant.killer(world)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sectors", "killer"),
    dict.fromkeys((mutant.sectors, mutant.killer) for mutant in MUTANTS),
    ids=lambda given: getattr(given, "__name__", given),
)
def test_without_a_slip_it_lives(
    sectors: int, killer: Scene, tmp_path: Path, cache: pytest.Cache
) -> None:
    killer(evm_world(tmp_path, sectors, compiled(cache, sectors, sources(sectors))))
