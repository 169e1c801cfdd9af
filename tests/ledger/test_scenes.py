"""The same scenes, unchanged, on the local ledger, on the EVM in this process and on anvil."""

import pytest
from tests.ledger.scenes import SCENES, Scene, keep
from tests.support.ledger_env import World, batch_of

from holdfast.errors import InputError
from holdfast.ledger.interface import Answer, Passed, max_answers


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_on_every_ledger(scene: Scene, world: World) -> None:
    scene(world)


@pytest.mark.slow
def test_a_full_batch_of_the_default_width_is_settled_in_full_transactions(
    wide_world: World,
) -> None:
    kept = [keep(wide_world) for _ in range(4)] * 4
    batch, audits = batch_of(wide_world, kept)
    wide_world.owner.open_many(batch)
    answers = {index: Answer(audit.proof) for index, audit in enumerate(audits)}
    most = max_answers(wide_world.owner.sectors)
    assert most == 8
    with pytest.raises(InputError, match="at most 8"):
        wide_world.owner.settle(batch, {index: answers[index] for index in range(most + 1)})
    for start in (0, most):
        receipt = wide_world.stranger.settle(
            batch, {index: answers[index] for index in range(start, start + most)}
        )
        assert receipt.events == tuple(
            Passed(audits[index].holding, batch.challenge_id(index))
            for index in range(start, start + most)
        )
        assert receipt.gas <= most * 140_000


@pytest.mark.slow
def test_one_proof_of_the_default_width_passes(wide_world: World) -> None:
    kept = keep(wide_world)
    audit = kept.open()
    receipt = wide_world.stranger.submit(kept.id, audit.id, Answer(audit.proof))
    assert receipt.events == (Passed(kept.id, audit.id),)
    assert receipt.gas <= 140_000
