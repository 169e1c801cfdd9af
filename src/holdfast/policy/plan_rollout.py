"""Rollouts of a policy in the model of its own filter, to check what a plan achieves.

The model has modes and counts but no response times, so it suits policies that look at outcomes
alone.
"""

import numpy as np

from holdfast.model.action import GRID
from holdfast.model.arrays import FloatArray, IntArray, take
from holdfast.model.observation import OBSERVATION
from holdfast.policy.filter import BayesFilter
from holdfast.policy.interface import FAILURES, Policy, S


def mean_totals(
    policy: Policy[S], bayes: BayesFilter, episodes: int, rng: np.random.Generator
) -> FloatArray:
    """Return the mean totals of an episode, in the order of `lagrangian.COMPONENTS`."""
    scenario, modes = bayes.scenario, bayes.modes
    # Stratified: the modes have their shares to within one node.
    quantiles = (np.arange(episodes) + rng.random()) / episodes
    mode = np.minimum(np.searchsorted(np.cumsum(modes.prior), quantiles), len(modes.prior) - 1)
    time, quiet, corrupted = (np.zeros(episodes, np.int64) for _ in range(3))
    observations = np.zeros((episodes, len(OBSERVATION)))
    state = policy.initial_state(episodes)
    totals = np.zeros(5)
    while len(time):
        actions, state = policy.act(state, observations)
        interval = GRID.interval_of[actions]
        mode, loss_probability = _wait(bayes, mode, quiet, interval, rng)
        corrupted = corrupted + rng.binomial(scenario.blocks - corrupted, loss_probability)
        probability = scenario.detection_probability(corrupted, scenario.samples_of[actions])
        detected = rng.random(len(time)) < probability
        encounters = corrupted > 0
        totals += (
            scenario.gas_of[actions].sum(),
            np.count_nonzero(encounters & ~detected),
            np.count_nonzero(encounters),
            interval[encounters].sum(),
            np.count_nonzero(detected),
        )
        corrupted = np.where(detected, 0, corrupted)
        quiet = np.where(detected, 0, quiet + interval)
        time = time + interval
        observations[:, FAILURES] = detected
        alive = time < scenario.horizon
        if not alive.all():
            batch = (time, quiet, corrupted, mode, observations, state)
            time, quiet, corrupted, mode, observations, state = take(batch, alive)
    return totals / episodes


def _wait(
    bayes: BayesFilter,
    mode: IntArray,
    quiet: IntArray,
    interval: IntArray,
    rng: np.random.Generator,
) -> tuple[IntArray, FloatArray]:
    """Return the modes after the interval, and the probability that a block was lost in it."""
    modes = bayes.modes
    log_survival = np.zeros(len(mode))
    for unit in range(int(interval.max())):
        if not modes.fixed:
            cumulative = np.cumsum(modes.turning, axis=1)[mode]
            turned = np.count_nonzero(rng.random((len(mode), 1)) >= cumulative[:, :-1], axis=1)
            mode = np.where(unit < interval, turned, mode)
        bold = quiet + unit >= bayes.scenario.quiet_after
        rate = np.where(bold, modes.bold_rate[mode], modes.rate[mode])
        log_survival += np.where(unit < interval, np.log1p(-rate), 0.0)
    return mode, -np.expm1(log_survival)
