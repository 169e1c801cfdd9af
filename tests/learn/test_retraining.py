"""An order is carried out to the same challenger, whoever was interrupted; validation chooses."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.learn.worlds import VISIBLE

from holdfast.errors import InputError
from holdfast.learn import retraining, training
from holdfast.learn.drqn_cmdp_plus import DialRange
from holdfast.learn.retraining import Budget, RetrainingRequest, make_request, retrain
from holdfast.model.scenario import PAPER
from holdfast.policy import checkpoint, json_schema
from holdfast.policy.lagrangian import Ceilings
from holdfast.policy.rules import fixed_high

pytestmark = pytest.mark.usefixtures("brief")

REQUEST = RetrainingRequest(
    scenario=VISIBLE,
    ranges={},
    ceilings=Ceilings(0.9, 20.0),
    targets=(Ceilings(0.9, 20.0),),
    dials=DialRange(rho=(0.5, 0.9), latency=(1.0, 20.0)),
    budget=Budget(seeds=2, rounds=2, validation=10, episodes=20),
    facts={"fit": 7},
)


@pytest.mark.slow
def test_validation_chooses_the_cheapest_seed_and_the_manifest_tells_why(tmp_path: Path) -> None:
    phases: set[tuple[int, str]] = set()
    done = retrain(
        REQUEST, fixed_high(), tmp_path, lambda seed, phase, _: phases.add((seed, phase))
    )
    assert phases == {(seed, phase) for seed in (0, 1) for phase in ("training", "validation")}
    gas = [candidate.validated.gas for candidate in done.candidates if candidate.validated]
    assert len(gas) == 2
    assert done.seed == int(np.argmin(gas))
    manifest = checkpoint.load(done.folder).manifest
    assert manifest.seed == done.seed
    assert manifest.default is not None
    assert manifest.default.ceilings() == REQUEST.ceilings
    assert manifest.training["retraining"] == {"fit": 7}
    assert len(manifest.training["candidates"]) == 2
    assert manifest.evaluation["seed"] == retraining.EVALUATION_SEED != training.VALIDATION_SEED
    assert manifest.evaluation["challenger"]["gas"]["value"] == done.challenger.gas.value

    again = retrain(REQUEST, fixed_high(), tmp_path)
    assert again == replace(done, challenger=again.challenger, champion=again.champion)
    assert again.challenger.gas == done.challenger.gas


def test_an_order_survives_its_text() -> None:
    assert (
        json_schema.read(RetrainingRequest, json_schema.parse(json_schema.dump(REQUEST))) == REQUEST
    )


@pytest.mark.slow
def test_no_challenger_comes_of_ceilings_that_no_seed_kept(tmp_path: Path) -> None:
    request = replace(
        REQUEST, ceilings=Ceilings(0.001, 1.0), budget=replace(REQUEST.budget, seeds=1)
    )
    with pytest.raises(InputError, match="no seed stayed below"):
        retrain(request, fixed_high(), tmp_path)
    assert not (tmp_path / retraining.CHALLENGER).exists()


@pytest.mark.slow
def test_ceilings_out_of_reach_become_what_the_champion_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retraining, "CHAMPION_EPISODES", 50)
    world = replace(PAPER, blocks=100, horizon=60, honest_rate=0.003)
    sizes, declared, budget = np.array([80, 100, 400]), Ceilings(0.01), REQUEST.budget
    request = make_request(world, sizes, fixed_high(), declared, budget, {})
    assert request.scenario.blocks == 100
    assert request.ranges == {"blocks": (80, 400)}
    assert request.ceilings.miss_rate > 0.1
    assert request.ceilings.latency is not None
    reachable = Ceilings(0.6)
    assert make_request(world, sizes, fixed_high(), reachable, budget, {}).ceilings == reachable


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="at least one seed"):
        Budget(seeds=0)
