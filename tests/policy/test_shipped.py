"""The checkpoints in the package: all there, all sound, and the one we stand for keeps its word."""

import pytest

from holdfast.model.scenario import SCENARIOS, scenario_named
from holdfast.policy.checkpoint import load
from holdfast.policy.registry import LEARNED, policy_named
from holdfast.policy.shipped import Shipped, shipped
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import measure

PLUS = "drqn-cmdp-plus"


def test_every_learned_method_is_there_for_paper_and_ours_for_all() -> None:
    shipped_pairs = {(checkpoint.scenario, checkpoint.method) for checkpoint in shipped()}
    assert shipped_pairs == {("paper", method) for method in LEARNED} | {
        (scenario, PLUS) for scenario in SCENARIOS
    }


@pytest.mark.parametrize(
    "checkpoint", shipped(), ids=lambda checkpoint: f"{checkpoint.scenario}-{checkpoint.method}"
)
def test_each_says_truly_what_it_is(checkpoint: Shipped) -> None:
    manifest = load(checkpoint.folder).manifest
    assert manifest.method == checkpoint.method
    assert manifest.scenario == scenario_named(checkpoint.scenario)
    assert manifest.seed == 0, "the first seed, not the best"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_ours_keeps_its_default_ceilings_where_it_was_trained(scenario: str) -> None:
    world = scenario_named(scenario)
    (folder,) = (
        checkpoint.folder for checkpoint in shipped() if checkpoint[:2] == (scenario, PLUS)
    )
    default = load(folder).manifest.default
    assert default is not None
    measures = measure(evaluate(policy_named(PLUS, world), world, episodes=600, seed=61))
    # The intervals of 600 episodes reach some way above the ceilings; their lower ends must not.
    assert measures.miss_rate.low < default.rho
    assert default.latency is not None
    assert measures.latency.low < default.latency


def test_the_dial_of_ours_trades_gas_for_misses_and_latency() -> None:
    world = scenario_named("paper")

    def gas(options: str) -> float:
        policy = policy_named(f"{PLUS}:{options}", world)
        return measure(evaluate(policy, world, episodes=200, seed=62), resamples=2).gas.value

    strict, usual, lax = (gas(f"rho={rho},latency=9.1") for rho in (0.03, 0.05, 0.1))
    assert strict > usual > lax
    assert gas("rho=0.05,latency=6") > usual
