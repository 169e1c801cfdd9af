"""The API on loopback, over an operation that has lived for some days."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import parts
from tests.support.live_web import Served, serving

_numbers = itertools.count()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Yield an API over each kind of database, which nobody changes."""
    folder = tmp_path_factory.mktemp("served")
    if request.param == "sqlite":
        with serving(folder, str(folder / "holdfast.db")) as running:
            yield running
        return
    server = request.getfixturevalue("postgres")
    name = f"web{next(_numbers)}"
    with (
        parts.database(server, name) as address,
        serving(folder, f"{address}&schema=public") as running,
    ):
        yield running


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[Served]:
    """Yield an API of one's own to change things by."""
    with serving(tmp_path, str(tmp_path / "holdfast.db"), count=2, days=20) as running:
        yield running
