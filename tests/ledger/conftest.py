"""Every ledger that tests run on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.ledger_env import World, anvil, anvil_world, evm_world, local_world

from holdfast.pdp.field import DEFAULT_SECTORS
from holdfast.tables import PostgresSchema


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
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Path | PostgresSchema:
    """Return where journals can be, once of each kind: an empty folder or schema."""
    if request.param == "sqlite":
        return tmp_path
    rooms: Iterator[PostgresSchema] = request.getfixturevalue("rooms")
    return next(rooms)


@pytest.fixture
def chain() -> Iterator[str]:
    """Run a chain in another process, which outlives its clients, and yield its address."""
    with anvil() as url:
        yield url
