"""Rules do what their descriptions say, node by node."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast.model.action import GRID, Action
from holdfast.model.scenario import FIELD, PAPER
from holdfast.model.truth import Truth
from holdfast.policy import rules
from holdfast.policy.bayesian import GRADES, Bayesian
from holdfast.policy.interface import Policy

AGGRESSIVE = GRID.index_of(1, 0.10)


def observation(reputation: float = 0.5, failures: float = 0.0, latency: float = 0.5) -> np.ndarray:
    return np.array([[reputation, 0.5, latency, failures, 0.5]], np.float32)


def chosen(policy: rules.Constant | rules.TwoSpeed, seen: np.ndarray) -> Action:
    actions, _ = policy.act(policy.initial_state(1), seen)
    return GRID.action(actions[0])


def test_the_heuristic_trusts_only_a_good_reputation_without_a_recent_failure() -> None:
    assert chosen(rules.heuristic(), observation(reputation=0.9)) == (5, 0.03)
    assert chosen(rules.heuristic(), observation(reputation=0.79)) == (1, 0.10)
    assert chosen(rules.heuristic(), observation(reputation=0.9, failures=0.3)) == (1, 0.10)


def test_two_speed_comes_back_soon_after_a_failure_whatever_the_reputation() -> None:
    assert chosen(rules.two_speed(), observation(reputation=0.0)) == (14, 0.01)
    assert chosen(rules.two_speed(), observation(reputation=1.0, failures=0.3)) == (1, 0.01)


def test_samples_of_a_fixed_size_become_the_nearest_ratio_of_the_holding() -> None:
    assert chosen(rules.sample_460(PAPER), observation()) == (7, 0.20)
    assert chosen(rules.sample_460(replace(PAPER, blocks=10_000)), observation()) == (7, 0.05)
    assert chosen(rules.sample_460(FIELD), observation()) == (7, 0.01)
    assert chosen(rules.daily_5(PAPER), observation()) == (1, 0.01)


def test_the_oracle_looks_at_corruption_and_not_at_the_type() -> None:
    truth = Truth(np.array([True, True, False]), np.array([0, 3, 1]))
    actions, _ = rules.Oracle().act(None, np.zeros((3, 5)), truth)
    assert [GRID.action(a) for a in actions] == [(14, 0.01), (1, 0.20), (1, 0.20)]


def test_bayesian_grows_severe_with_failures_and_relents_with_passes() -> None:
    policy = Bayesian(PAPER)
    state = policy.initial_state(1)
    first, state = policy.act(state, observation())
    assert first[0] == GRADES[1]  # the fifth in which the prior of 0.3 lies
    for _ in range(3):
        actions, state = policy.act(state, observation(failures=0.5))
    assert actions[0] == AGGRESSIVE
    for _ in range(60):
        actions, state = policy.act(state, observation())
    assert actions[0] == GRADES[0]


def test_a_slow_answer_moves_bayesian_less() -> None:
    policy = Bayesian(PAPER)
    _, state = policy.act(policy.initial_state(1), observation())
    _, quick = policy.act(state, observation(failures=0.5, latency=0.1))
    _, slow = policy.act(state, observation(failures=0.5, latency=0.9))
    assert state.log_odds[0] < slow.log_odds[0] < quick.log_odds[0]


@pytest.mark.parametrize("rule", [rules.fixed_high(), rules.heuristic(), Bayesian(PAPER)])
def test_ten_thousand_nodes_are_decided_in_one_call(rule: Policy[Any]) -> None:
    actions, _ = rule.act(rule.initial_state(10_000), np.full((10_000, 5), 0.5))
    assert actions.shape == (10_000,)
    assert actions.dtype == np.int64
