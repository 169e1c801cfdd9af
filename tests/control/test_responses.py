"""After a failed audit: real nodes whose files are damaged, and what is done about it."""

import random
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.control.watch import Watch, watch
from tests.control.world import START
from tests.owner.small_node import SEGMENT_BYTES
from tests.owner.world import World

from holdfast.control.rails import DAY

CONTENT = random.Random(1).randbytes(5 * SEGMENT_BYTES + 77)


@pytest.fixture
def replicated(world: World) -> World:
    """Return a world where both holdings have the same file."""
    path = world.file(CONTENT)
    for holding in ("plain", "secret"):
        world.put(holding, path)
    return world


def test_damage_is_followed_up_located_and_repaired_from_the_other_holding(
    engine: Engine, replicated: World, tmp_path: Path
) -> None:
    with watch(engine, replicated) as running:
        running.until(START + DAY + 1)
        assert running.story("plain") == ["passed"]
        running.damage("plain")
        running.until(START + 3 * DAY)
        assert running.story("plain") == []
