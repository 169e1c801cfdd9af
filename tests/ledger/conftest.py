"""Every ledger that tests run on."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ledger.world import World, anvil, anvil_world, evm_world, local_world


def anvil_binary() -> Path:
    """Return the binary that `make test` installs, or skip the test."""
    for binary in Path(sys.prefix).glob("anvil/node_modules/@foundry-rs/anvil-*/bin/anvil"):
        return binary
    pytest.skip("anvil is not installed: `make anvil` installs it where npm is present")


@pytest.fixture(
    scope="module",
    params=[("local", 1), ("local", 4), ("evm", 1), ("evm", 4), ("anvil", 1), ("anvil", 4)],
    ids=lambda param: f"{param[0]}-S{param[1]}",
)
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    kind, sectors = request.param
    folder = tmp_path_factory.mktemp("ledger")
    if kind == "local":
        yield local_world(folder, sectors)
    elif kind == "evm":
        yield evm_world(folder, sectors)
    else:
        with anvil(anvil_binary()) as url:
            yield anvil_world(url, folder, sectors)


@pytest.fixture
def chain() -> Iterator[str]:
    """Run a chain in another process, which outlives its clients, and yield its address."""
    with anvil(anvil_binary()) as url:
        yield url
