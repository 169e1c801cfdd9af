"""Databases for the control plane: SQLite in a file, and a real PostgreSQL."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.support import parts
from tests.support.owner_site import site, world

from holdfast.storage.database import connect, migrate

__all__ = ["site", "world"]  # two real nodes, and a home

_numbers = itertools.count()


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield where an empty database is, once of each kind."""
    if request.param == "sqlite":
        yield str(tmp_path / "holdfast.db")
        return
    server = request.getfixturevalue("postgres")
    name = f"test{next(_numbers)}"
    with parts.database(server, name) as address:
        yield f"{address}&schema=public"


@pytest.fixture
def engine(address: str) -> Iterator[Engine]:
    engine = connect(address)
    migrate(engine)
    yield engine
    engine.dispose()
