"""DRQN-CMDP-plus learns from the costs an operator has, and from nothing beyond an episode."""

from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest
from tests.learn.worlds import LATE, VISIBLE, quick

from holdfast.learn import drqn_cmdp_plus
from holdfast.learn.drqn_cmdp_plus import PlusLearner, PlusSettings, Rollout
from holdfast.learn.td_target import q_lambda_targets
from holdfast.learn.vec_env import VecEnv
from holdfast.model.action import GRID
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import PAPER
from holdfast.policy import dial
from holdfast.sim import fleet
from holdfast.sim.tally import TallyBuilder


def settings() -> PlusSettings:
    plus = quick("drqn-cmdp-plus")
    assert isinstance(plus, PlusSettings)
    return plus


@pytest.fixture(scope="module")
def learner() -> PlusLearner:
    """Return an agent that has lived through a round, at the horizon of which many episodes end."""
    agent = PlusLearner(VISIBLE, 0, settings(), rounds=4)
    agent._replay_buffer.append(agent._collect_rollout(agent._epsilon))
    return agent


@pytest.fixture(scope="module")
def rollout(learner: PlusLearner) -> Rollout:
    return learner._replay_buffer[-1]


def test_costs_are_gas_and_what_exceeds_the_ceilings_at_its_price() -> None:
    rng = np.random.default_rng(0)
    components = rng.random((3, 4, 5)).astype(np.float32)
    dials = rng.random((3, 4, 4))
    costs = drqn_cmdp_plus.costs(components, dials)
    for place in np.ndindex(3, 4):
        gas, missed, met, waited, detected = components[place].tolist()
        miss_price, latency_price, rho, latency = dials[place].tolist()
        expected = gas + miss_price * (missed - rho * met)
        expected += latency_price * (waited - latency * detected)
        assert costs[place] == pytest.approx(expected, rel=1e-5)


def test_waiting_adds_up_to_the_latency_that_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = replace(PAPER, horizon=70, malicious_share=0.5)
    env = VecEnv(scenario, {}, 200, np.random.default_rng(1))
    tallies = TallyBuilder(env._fleets[0].malicious)
    step = fleet.step

    def record(*arguments: Any) -> Any:
        nodes, outcome = step(*arguments)
        tallies.record(np.arange(200), nodes, outcome)
        return nodes, outcome

    monkeypatch.setattr(fleet, "step", record)
    rng = np.random.default_rng(2)
    latency_cost = np.zeros(200)
    free = replace(LATE, latency_price=1e-300)
    # All nodes wait alike, so that their episodes end together.
    for interval in (14, 7, 1, 14, 3, 7, 5, 5, 14):
        ratios = rng.integers(len(GRID.ratios), size=200)
        actions = len(GRID.ratios) * GRID.intervals.index(interval) + ratios
        components = env.step(actions).components
        with_price, without = (
            drqn_cmdp_plus.costs(components, np.tile(astuple(dial_setting), (200, 1)))
            for dial_setting in (LATE, free)
        )
        latency_cost += with_price - without
    tally = tallies.build()
    whole = tally.undetected == 0
    assert 20 < whole.sum() < 180
    expected = LATE.latency_price * (tally.latency - LATE.latency * tally.detections)
    np.testing.assert_allclose(latency_cost[whole], expected[whole], atol=1e-5)
    assert (latency_cost[~whole] > expected[~whole] - 1e-5).all(), (
        "what stays undetected costs as well"
    )


def test_targets_look_ahead_as_far_as_the_episode_and_lambda_allow() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(7, 5))
    rewards, discounts = rng.normal(size=(6, 5)), rng.uniform(0.8, 1.0, (6, 5))
    continues = rng.random((6, 5)) < 0.7

    def target(now: int, node: int) -> float:
        if now == 6 or not continues[now, node]:
            return float(values[now, node])
        ahead = 0.8 * target(now + 1, node) + (1 - 0.8) * values[now + 1, node]
        return float(rewards[now, node] + discounts[now, node] * ahead)

    targets = q_lambda_targets(values, rewards, discounts, continues, 0.8)  # type: ignore[arg-type]
    expected = [[target(now, node) for node in range(5)] for now in range(6)]
    np.testing.assert_allclose(targets, expected, rtol=1e-5)


def test_a_new_episode_begins_with_an_unknown_node_and_a_new_dial(rollout: Rollout) -> None:
    starts = rollout.episode_starts[1:]
    assert starts.any()
    assert (rollout.continues == ~starts).all()
    seen = rollout.inputs[1:][starts]
    assert (seen[:, OBSERVATION.index("previous_interval")] == 0).all()
    later = rollout.inputs[1:][~starts]
    assert (later[:, OBSERVATION.index("previous_interval")] > 0).all()
    signals = rollout.inputs[..., len(OBSERVATION) :]
    changed = (signals[1:] != signals[:-1]).any(axis=-1)
    assert (changed == starts).all()
    np.testing.assert_array_equal(signals[:-1], dial.signals(rollout.dials))


def test_intervals_and_actions_belong_together(rollout: Rollout) -> None:
    assert (GRID.interval_of[rollout.actions] == rollout.interval).all()
    _, missed, met, waited, detected = np.moveaxis(rollout.components, -1, 0)
    assert (waited == rollout.interval * met).all()
    assert (missed <= met).all()
    assert (detected <= met).all()


@pytest.mark.slow
def test_what_the_last_decision_of_an_episode_cost_teaches_nothing(learner: PlusLearner) -> None:
    batch = learner._sample_batches()
    rewards, continues = batch[4], batch[6]
    assert not continues.all()
    state = (learner._weights, learner._target_weights, learner._optimiser_state)

    def taught(rewards: np.ndarray) -> dict[str, np.ndarray]:
        (weights, _, _), _ = learner._run_updates(state, [*batch[:4], rewards, *batch[5:]])
        return {name: np.asarray(array) for name, array in weights.items()}

    once = taught(rewards)
    ends, others = (np.where(which, rewards - 5, rewards) for which in (~continues, continues))
    assert all((array == once[name]).all() for name, array in taught(ends).items())
    assert any((array != once[name]).any() for name, array in taught(others).items())


def test_even_a_single_node_has_figures() -> None:
    single = PlusLearner(VISIBLE, 0, replace(settings(), nodes=1), rounds=1)
    greediest = single._epsilon == single._epsilon.min()
    figures = drqn_cmdp_plus._figures(single._collect_rollout(single._epsilon), greediest)
    assert figures["decisions"] == single._settings.sequence_length
    assert figures["gas"] > 0


def test_drawn_dials_lie_in_their_ranges() -> None:
    drawn = drqn_cmdp_plus.DialRange().sample(2000, np.random.default_rng(0))
    miss_price, latency_price, rho, latency = drawn.T
    for array, (low, high) in (
        (latency_price, (0.001, 0.05)),
        (rho, (0.02, 0.2)),
        (latency, (4.0, 16.0)),
        (miss_price / (0.05 / rho) ** 1.5, (0.3, 8.0)),
    ):
        assert low <= array.min() < 1.1 * low
        assert 0.9 * high < array.max() <= high
    spans = np.abs(dial.signals(drawn))
    assert spans.max() <= 1, "the network sees them within its range"
