"""The paper's Bayesian rule: a posterior probability of malice and five grades of response.

The paper says no more than "posterior P(mal) with 5-level graded response and latency damping".
Our reading: each outcome has a fixed likelihood under either type, whatever the audit sampled;
fifths of the posterior choose the response, which ends in the other rules' aggressive action; and
what a slow answer says counts less, because congestion may have caused it. The constants are not
fitted to the paper's row (gas 45.1, 56.9 % misses, 8,397 detections). Of 24 combinations of
likelihoods and responses that were tried, the nearest in gas detected 1.8 times as often and none
had fewer than 10,513 detections, so no choice among them would have reproduced it.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from holdfast.model.action import GRID
from holdfast.model.arrays import BoolArray, FloatArray, IntArray
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import Scenario
from holdfast.policy.interface import last_failed

LATENCY = OBSERVATION.index("latency")

# How likely an audit fails, by the type of the node.
FAILURE_MALICIOUS = 0.6
FAILURE_HONEST = 0.1
# The posterior stays between 0.02 and 0.98, so that new evidence can always change it.
MAX_LOG_ODDS = 4.0
GRADES = np.array(
    [
        GRID.index_of(14, 0.01),
        GRID.index_of(7, 0.03),
        GRID.index_of(5, 0.03),
        GRID.index_of(3, 0.05),
        GRID.index_of(1, 0.10),
    ]
)


@dataclass(frozen=True)
class Suspicion:
    log_odds: FloatArray  # of malice
    audited: BoolArray


@dataclass(frozen=True)
class Bayesian:
    scenario: Scenario
    privileged: ClassVar[Literal[False]] = False

    def initial_state(self, batch: int) -> Suspicion:
        share = np.clip(self.scenario.malicious_share, 1e-9, 1 - 1e-9)
        start = np.clip(np.log(share / (1 - share)), -MAX_LOG_ODDS, MAX_LOG_ODDS)
        return Suspicion(np.full(batch, start), np.zeros(batch, np.bool_))

    def act(self, state: Suspicion, observations: FloatArray) -> tuple[IntArray, Suspicion]:
        evidence = np.where(
            last_failed(observations),
            np.log(FAILURE_MALICIOUS / FAILURE_HONEST),
            np.log((1 - FAILURE_MALICIOUS) / (1 - FAILURE_HONEST)),
        )
        damping = 1.0 - observations[:, LATENCY]
        log_odds = np.clip(
            state.log_odds + state.audited * damping * evidence, -MAX_LOG_ODDS, MAX_LOG_ODDS
        )
        posterior = 1.0 / (1.0 + np.exp(-log_odds))
        grade = np.minimum((posterior * len(GRADES)).astype(np.int64), len(GRADES) - 1)
        audited = np.ones_like(state.audited)
        return GRADES[grade], replace(state, log_odds=log_odds, audited=audited)
