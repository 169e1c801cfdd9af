"""Stages on the local ledger, and on an EVM for those whose ends a contract decides."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.adversaries.stage import Stage
from tests.support.ledger_env import evm_world, local_world


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with ExitStack() as opened:
        yield Stage(tmp_path, local_world(tmp_path), opened)


@pytest.fixture(params=[("local", 1), ("evm", 1), ("evm", 4)], ids=lambda p: f"{p[0]}-S{p[1]}")
def any_stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    kind, sectors = request.param
    world = (local_world if kind == "local" else evm_world)(tmp_path, sectors)
    with ExitStack() as opened:
        yield Stage(tmp_path, world, opened)
