"""Policies are found by the names that users write."""

import numpy as np
import pytest

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.scenario import PAPER
from holdfast.model.truth import Truth
from holdfast.policy.belief import BeliefPolicy
from holdfast.policy.interface import AnyPolicy
from holdfast.policy.registry import NAMES, policy_named


def first_action(policy: AnyPolicy) -> int:
    state = policy.initial_state(1)
    seen = np.full((1, 5), 0.5)
    if policy.privileged:
        actions, _ = policy.act(state, seen, Truth(np.array([False]), np.array([0])))
    else:
        actions, _ = policy.act(state, seen)
    return int(actions[0])


@pytest.mark.parametrize("name", [name for name in NAMES if name != "constant"])
def test_every_name_gives_a_policy_that_acts(name: str) -> None:
    assert 0 <= first_action(policy_named(name, PAPER)) < GRID.size


def test_only_the_references_are_privileged() -> None:
    names = [name for name in NAMES if name != "constant"]
    privileged = {name for name in names if policy_named(name, PAPER).privileged}
    assert privileged == {"oracle", "clairvoyant"}


def test_a_constant_is_named_by_its_action() -> None:
    policy = policy_named("constant:14,0.20", PAPER)
    assert GRID.action(first_action(policy)) == (14, 0.20)


def test_options_set_the_ceilings() -> None:
    default = policy_named("belief", PAPER)
    assert policy_named("belief:rho=0.05", PAPER) is default
    swift = policy_named("belief:rho=0.045,latency=7.5", PAPER)
    assert isinstance(default, BeliefPolicy)
    assert isinstance(swift, BeliefPolicy)
    assert swift.plan.mixture.totals[0] > default.plan.mixture.totals[0]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("beliefs", "the known ones are fixed-high, fixed-low,.*constant, belief, clairvoyant"),
        ("heuristic:0.5", "takes no options"),
        ("constant", "write the interval and the ratio"),
        ("constant:2,0.20", "not on the grid"),
        ("belief:nu=3", "the options are rho and latency, not 'nu=3'"),
        ("belief:rho=0.1,rho=0.2", "the options are"),
        ("belief:rho=low", "rho must be a number, not 'low'"),
        ("clairvoyant:rho=1.5", "rho must lie between 0 and 1"),
        ("belief:rho=nan", "rho must lie between 0 and 1"),
    ],
)
def test_a_name_that_means_nothing_is_refused_with_a_reason(name: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        policy_named(name, PAPER)
