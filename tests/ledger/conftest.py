"""Every ledger that tests run on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support import parts
from tests.support.ledger_env import World, anvil, anvil_world, evm_world, local_world

from holdfast.pdp.field import DEFAULT_SECTORS


@contextmanager
def world_of(kind: str, sectors: int, folder: Path) -> Iterator[World]:
    if kind == "local":
        yield local_world(folder, sectors)
    elif kind == "evm":
        yield evm_world(folder, sectors)
    else:
        with anvil() as url:
            yield anvil_world(url, folder, sectors)


@pytest.fixture(
    scope="module",
    params=[("local", 1), ("local", 4), ("evm", 1), ("evm", 4), ("anvil", 1), ("anvil", 4)],
    ids=lambda param: f"{param[0]}-S{param[1]}",
)
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    kind, sectors = request.param
    with world_of(kind, sectors, tmp_path_factory.mktemp("ledger")) as world:
        yield world


@pytest.fixture(params=["local", "evm", "anvil"])
def wide_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Yield a ledger for the default number of sectors."""
    with world_of(request.param, DEFAULT_SECTORS, tmp_path) as world:
        yield world


@pytest.fixture(params=["sqlite", "postgres"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the address of an empty database for journals, once of each kind."""
    if request.param == "sqlite":
        yield str(tmp_path / "holdfast.db")
        return
    with parts.database(request.getfixturevalue("postgres"), "journals") as address:
        yield address


@pytest.fixture
def chain() -> Iterator[str]:
    """Run a chain in another process, which outlives its clients, and yield its address."""
    with anvil() as url:
        yield url
