"""Every agent learns what is plain to see: to audit those often who fail, and others seldom."""

import pytest
from tests.learn.worlds import LATE, VISIBLE, quick

from holdfast.learn.methods import METHODS, make_learner
from holdfast.learn.policy_gradient import GradientSettings
from holdfast.policy.learned import Learned
from holdfast.sim.evaluation import evaluate


def units_of(method: str) -> int:
    if method == "drqn-cmdp-plus":
        return 100
    if method in ("focops", "recurrent-ppo-lagrangian"):
        return 700
    return 400 if isinstance(METHODS[method], GradientSettings) else 250


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_it_tells_malicious_nodes_from_honest_ones(method: str) -> None:
    units = units_of(method)
    agent = make_learner(quick(method), VISIBLE, 0, units)
    for _ in range(units):
        agent.advance()
    policy = Learned(
        agent.architecture,
        agent.policy_weights(),
        agent.inputs,
        LATE if agent.inputs.dial else None,
    )
    tally = evaluate(policy, VISIBLE, episodes=100, seed=5)
    malicious, honest = (
        VISIBLE.horizon / tally.audits[tally.malicious == kind].mean() for kind in (True, False)
    )
    # Seeds differ in how short they make it, and rounding differs between machines.
    assert honest > 2 * malicious
    assert honest > 5
