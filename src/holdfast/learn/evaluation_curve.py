"""How good an agent is while it learns: its greedy policy on fixed episodes, every so many units.

The episodes are the same every time, and their draws are their own: a training with this curve
ends with the same weights as one without.
"""

import math
from typing import Any

from holdfast.learn.drqn_cmdp_plus import PlusSettings
from holdfast.learn.learner import Figures, Learner
from holdfast.model.scenario import Scenario
from holdfast.policy.dial import Dial
from holdfast.policy.learned import Learned
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import MAIN_FIGURES, measure

EPISODES = 200
SEED = 1_000_033  # no other evaluation uses these episodes
COLUMNS = (*MAIN_FIGURES, "multiplier")


def evaluate_agent(agent: Learner, settings: Any, scenario: Scenario) -> Figures:
    """Return gas, latency and miss rate on the fixed episodes, and the price of a miss."""
    dial = _middle_dial(settings) if isinstance(settings, PlusSettings) else None
    if agent.inputs.dial and dial is None:
        return {}  # a method of somebody else's, whose dial is not known yet
    policy = Learned(agent.architecture, agent.policy_weights(), agent.inputs, dial)
    tally = evaluate(policy, scenario, episodes=EPISODES, seed=SEED)
    measures = measure(tally, resamples=0)
    figures = {name: getattr(measures, name).value for name in MAIN_FIGURES}
    if agent.multiplier is not None:
        figures["multiplier"] = agent.multiplier.value
    elif dial is not None:
        figures["multiplier"] = dial.miss_price
    return figures


def _middle_dial(settings: PlusSettings) -> Dial:
    """Return the dial for the default ceilings at the middle of the prices of training.

    Dials are chosen after training. Until then this one shows how the network gets on.
    """
    dials, ceilings = settings.dials, settings.default
    factor = (0.05 / ceilings.miss_rate) ** dials.steepness
    return Dial(
        miss_price=factor * math.sqrt(dials.miss_price[0] * dials.miss_price[1]),
        latency_price=math.sqrt(dials.latency_price[0] * dials.latency_price[1]),
        rho=ceilings.miss_rate,
        latency=dials.latency[1] if ceilings.latency is None else ceilings.latency,
    )
