"""DRQN-CMDP-plus learns from the costs an operator has, and from nothing beyond an episode."""

from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest
from tests.learn.worlds import LATE, VISIBLE, quick

from holdfast.learn import drqn_cmdp_plus
from holdfast.learn.drqn_cmdp_plus import PlusLearner, PlusSettings, Sequence
from holdfast.learn.vec_env import Crowd
from holdfast.model.action import GRID
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import PAPER
from holdfast.policy import dial
from holdfast.sim import fleet
from holdfast.sim.tally import TallyBuilder


def settings() -> PlusSettings:
    found = quick("drqn-cmdp-plus")
    assert isinstance(found, PlusSettings)
    return found


@pytest.fixture(scope="module")
def learner() -> PlusLearner:
    """Return an agent that has lived through a round, at the horizon of which many episodes end."""
    found = PlusLearner(VISIBLE, 0, settings(), rounds=4)
    found._replay.append(found._live(found._epsilon))
    return found


@pytest.fixture(scope="module")
def lived(learner: PlusLearner) -> Sequence:
    return learner._replay[-1]


def test_costs_are_gas_and_what_exceeds_the_ceilings_at_its_price() -> None:
    draws = np.random.default_rng(0)
    components = draws.random((3, 4, 5)).astype(np.float32)
    dials = draws.random((3, 4, 4))
    found = drqn_cmdp_plus.costs(components, dials)
    for place in np.ndindex(3, 4):
        gas, missed, met, waited, detected = components[place].tolist()
        miss_price, latency_price, rho, latency = dials[place].tolist()
        expected = gas + miss_price * (missed - rho * met)
        expected += latency_price * (waited - latency * detected)
        assert found[place] == pytest.approx(expected, rel=1e-5)


def test_waiting_adds_up_to_the_latency_that_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = replace(PAPER, horizon=70, malicious_share=0.5)
    crowd = Crowd(scenario, {}, 200, np.random.default_rng(1))
    book = TallyBuilder(crowd._fleets[0].malicious)
    step = fleet.step

    def entered(*arguments: Any) -> Any:
        nodes, outcome = step(*arguments)
        book.enter(np.arange(200), nodes, outcome)
        return nodes, outcome

    monkeypatch.setattr(fleet, "step", entered)
    draws = np.random.default_rng(2)
    priced = np.zeros(200)
    free = replace(LATE, latency_price=1e-300)
    # All nodes wait alike, so that their episodes end together.
    for interval in (14, 7, 1, 14, 3, 7, 5, 5, 14):
        ratios = draws.integers(len(GRID.ratios), size=200)
        actions = len(GRID.ratios) * GRID.intervals.index(interval) + ratios
        components = crowd.step(actions).components
        with_price, without = (
            drqn_cmdp_plus.costs(components, np.tile(astuple(each), (200, 1)))
            for each in (LATE, free)
        )
        priced += with_price - without
    tally = book.closed()
    whole = tally.undetected == 0
    assert 20 < whole.sum() < 180
    expected = LATE.latency_price * (tally.latency - LATE.latency * tally.detections)
    np.testing.assert_allclose(priced[whole], expected[whole], atol=1e-5)
    assert (priced[~whole] > expected[~whole] - 1e-5).all(), "what stays undetected costs as well"


def test_targets_look_ahead_as_far_as_the_episode_and_lambda_allow() -> None:
    draws = np.random.default_rng(3)
    values = draws.normal(size=(7, 5))
    rewards, kept = draws.normal(size=(6, 5)), draws.uniform(0.8, 1.0, (6, 5))
    lasting = draws.random((6, 5)) < 0.7

    def goal(now: int, node: int) -> float:
        if now == 6 or not lasting[now, node]:
            return float(values[now, node])
        ahead = 0.8 * goal(now + 1, node) + (1 - 0.8) * values[now + 1, node]
        return float(rewards[now, node] + kept[now, node] * ahead)

    found = drqn_cmdp_plus._goals(values, rewards, kept, lasting, 0.8)  # type: ignore[arg-type]
    expected = [[goal(now, node) for node in range(5)] for now in range(6)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_new_episode_begins_with_an_unknown_node_and_a_new_dial(lived: Sequence) -> None:
    begins = lived.fresh[1:]
    assert begins.any()
    assert (lived.lasting == ~begins).all()
    seen = lived.inputs[1:][begins]
    assert (seen[:, OBSERVATION.index("previous_interval")] == 0).all()
    later = lived.inputs[1:][~begins]
    assert (later[:, OBSERVATION.index("previous_interval")] > 0).all()
    signals = lived.inputs[..., len(OBSERVATION) :]
    changed = (signals[1:] != signals[:-1]).any(axis=-1)
    assert (changed == begins).all()
    np.testing.assert_array_equal(signals[:-1], dial.signals(lived.dials))


def test_intervals_and_actions_belong_together(lived: Sequence) -> None:
    assert (GRID.interval_of[lived.actions] == lived.interval).all()
    _, missed, met, waited, detected = np.moveaxis(lived.components, -1, 0)
    assert (waited == lived.interval * met).all()
    assert (missed <= met).all()
    assert (detected <= met).all()


def test_what_the_last_decision_of_an_episode_cost_teaches_nothing(learner: PlusLearner) -> None:
    batch = learner._drawn()
    rewards, lasting = batch[4], batch[6]
    assert not lasting.all()
    state = (learner._weights, learner._target, learner._moments)

    def taught(rewards: np.ndarray) -> dict[str, np.ndarray]:
        (weights, _, _), _ = learner._updates(state, [*batch[:4], rewards, *batch[5:]])
        return {name: np.asarray(array) for name, array in weights.items()}

    once = taught(rewards)
    ends, others = (np.where(which, rewards - 5, rewards) for which in (~lasting, lasting))
    assert all((array == once[name]).all() for name, array in taught(ends).items())
    assert any((array != once[name]).any() for name, array in taught(others).items())


def test_even_a_single_node_has_figures() -> None:
    single = PlusLearner(VISIBLE, 0, replace(settings(), nodes=1), rounds=1)
    calmest = single._epsilon == single._epsilon.min()
    found = drqn_cmdp_plus._figures(single._live(single._epsilon), calmest)
    assert found["decisions"] == single._settings.length
    assert found["gas"] > 0


def test_drawn_dials_lie_in_their_ranges() -> None:
    drawn = drqn_cmdp_plus.DialRange().draw(2000, np.random.default_rng(0))
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
