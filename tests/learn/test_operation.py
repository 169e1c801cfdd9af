"""Learning from a log alone: costs nobody observed, and actions nobody took."""

from dataclasses import replace

import numpy as np
import pytest
from tests.learn.worlds import quick

from holdfast.bench.logged import Logged, operate
from holdfast.learn.operation import OperationLearner, OperationSettings, _goals, inferred
from holdfast.learn.plus import DialRange, PlusSettings
from holdfast.model.action import GRID
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.scenario import PAPER
from holdfast.policy import dial
from holdfast.policy.network import forward

WORLD = replace(PAPER, name="busy", blocks=100, honest_rate=0.002, malicious_rate=0.02)
FEW = (GRID.index_of(5, 0.05), GRID.index_of(14, 0.20))


class Alternating:
    """Takes the one or the other of two actions, by chance."""

    def __init__(self) -> None:
        self._draws = np.random.default_rng(0)

    def initial_state(self, _batch: int) -> None:
        return None

    def act(self, _state: None, observations: FloatArray) -> tuple[IntArray, None]:
        return self._draws.choice(np.array(FEW), size=len(observations)), None


@pytest.fixture(scope="module")
def logged() -> Logged:
    return operate(Alternating(), WORLD, nodes=400, units=90, seed=3)


def settings(**changes: object) -> OperationSettings:
    usual = quick("drqn-cmdp-plus")
    assert isinstance(usual, PlusSettings)
    found = OperationSettings(**vars(usual))
    return replace(found, **changes)  # type: ignore[arg-type]


def learner(logged: Logged, rounds: int, **changes: object) -> OperationLearner:
    return OperationLearner(logged.log, WORLD, 0, settings(**changes), rounds)


def chosen(agent: OperationLearner, logged: Logged, dials: DialRange) -> IntArray:
    """Return what the agent would do first, at these observations."""
    seen = logged.log.observation[:500]
    signals = dial.signals(dials.draw(len(seen), np.random.default_rng(1)))
    hidden = np.zeros((len(seen), agent.architecture.recurrent), np.float32)
    inputs = np.concatenate((seen, signals), axis=1)
    outputs, _ = forward(agent.architecture, agent.served(), inputs, hidden)
    return np.asarray(outputs.argmax(axis=1), np.int64)


def test_inferred_costs_add_up_to_the_true_ones(logged: Logged) -> None:
    log = logged.log
    gas, missed, met, waited, found = inferred(log, WORLD).sum(axis=0, dtype=np.float64)
    encounters = logged.missed | log.failed
    assert gas == pytest.approx(WORLD.gas_of[log.action].sum(), rel=1e-5)
    # Four standard deviations of a sum of so many outcomes.
    assert missed == pytest.approx(logged.missed.sum(), abs=4 * logged.missed.sum() ** 0.5)
    assert found == pytest.approx(log.failed.sum(), abs=4 * log.failed.sum() ** 0.5)
    assert met == pytest.approx(missed + found, rel=1e-4)
    assert waited == pytest.approx(log.interval[encounters].sum(), rel=0.05)


def test_what_the_log_never_did_is_not_done(logged: Logged) -> None:
    agent = learner(logged, 30)
    for _ in range(30):
        agent.advance()
    assert np.isin(chosen(agent, logged, settings().dials), FEW).mean() > 0.95


def test_the_cheaper_of_two_actions_is_learnt_where_nothing_else_has_a_price(
    logged: Logged,
) -> None:
    free = DialRange(miss_price=(1e-6, 2e-6), steepness=0.0, latency_price=(1e-6, 2e-6))
    agent = learner(logged, 60, dials=free)
    for _ in range(60):
        agent.advance()
    cheap = min(FEW, key=lambda action: WORLD.gas_of[action] / GRID.interval_of[action])
    assert (chosen(agent, logged, free) == cheap).mean() > 0.9


def test_goals_look_ahead_only_as_long_as_the_log_did_what_is_best() -> None:
    draws = np.random.default_rng(3)
    values, rewards = draws.normal(size=(7, 5)), draws.normal(size=(6, 5))
    kept, lasting = draws.uniform(0.8, 1.0, (6, 5)), draws.random((6, 5)) < 0.8
    trace = 0.8 * (draws.random((6, 5)) < 0.5)

    def goal(now: int, node: int) -> float:
        if now == 6 or not lasting[now, node]:
            return float(values[now, node])
        follow = trace[now, node]
        ahead = values[now + 1, node]
        if follow:
            ahead = follow * goal(now + 1, node) + (1 - follow) * ahead
        return float(rewards[now, node] + kept[now, node] * ahead)

    found = _goals(values, rewards, kept, lasting, trace)  # type: ignore[arg-type]
    expected = [[goal(now, node) for node in range(5)] for now in range(6)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_an_interrupted_learner_goes_on_as_if_it_had_not_been(logged: Logged) -> None:
    one, other = learner(logged, 4), learner(logged, 4)
    one.advance()
    other.restore(one.saved())
    one.advance()
    other.advance()
    for name, array in one.served().items():
        np.testing.assert_array_equal(array, other.served()[name])


def test_a_window_teaches_nothing_about_a_node_that_it_meets_midway(logged: Logged) -> None:
    agent = learner(logged, 1, settled=1000)
    _, fresh, *_, lasting, known = agent._drawn()
    begun = np.cumsum(fresh[:, :-1], axis=1) > 0
    np.testing.assert_array_equal(known, begun)
    assert not (lasting & fresh[:, 1:]).any(), "nothing is known of what follows a node's last row"
