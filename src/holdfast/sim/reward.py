"""The paper's reward (Eq. reward), for a fleet and for a single node."""

import numpy as np

from holdfast.model.arrays import FloatArray
from holdfast.model.scenario import Scenario
from holdfast.sim.fleet import StepResult

CLEAN = 0.1
MIN_MISSED_SHARE = 0.01  # the least share of blocks that a miss counts


def reward(scenario: Scenario, outcome: StepResult, multiplier: float) -> FloatArray:
    """Return alpha R_det - beta C_gas - gamma C_comp; `multiplier` is the paper's lambda."""
    share = outcome.corrupted / scenario.blocks
    missed = -multiplier * np.maximum(share, MIN_MISSED_SHARE)
    security = np.where(outcome.detection, 1.0 + share, np.where(outcome.miss, missed, CLEAN))
    return (
        scenario.reward_detection * security
        - scenario.reward_gas * outcome.gas
        - scenario.reward_compute * outcome.compute
    )


def reward_of_one(
    scenario: Scenario,
    multiplier: float,
    *,
    corrupted: int,
    detected: bool,
    gas: float,
    compute: float,
) -> float:
    """Return the same for one node."""
    share = corrupted / scenario.blocks
    if detected:
        security = 1.0 + share
    elif corrupted:
        security = -multiplier * max(share, MIN_MISSED_SHARE)
    else:
        security = CLEAN
    return (
        scenario.reward_detection * security
        - scenario.reward_gas * gas
        - scenario.reward_compute * compute
    )
