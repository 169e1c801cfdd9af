"""The same scenes, unchanged, on the local ledger, on the EVM in this process and on anvil."""

import pytest
from tests.ledger.scenes import SCENES, Scene
from tests.ledger.world import World


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_on_every_ledger(scene: Scene, world: World) -> None:
    scene(world)
