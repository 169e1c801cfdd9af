"""Response times of a log: their median and noise, by maximum likelihood.

Without load and tampering their logarithm is logistic. The effects of load and tampering are those
of the base scenario; then only the median is estimated, as noise and load can't be separated.
"""

import numpy as np

from holdfast.inference.log import Log
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.estimate import NORMAL_95, Estimate
from holdfast.model.scenario import Scenario

MEAN_LOAD = 0.5
_MAX_ROUNDS = 50


def fit_latency(log: Log, base: Scenario) -> dict[str, Estimate]:
    """Return the parameters of response times; none if fewer than two differ."""
    timed = np.flatnonzero(log.latency > 0)
    if len(timed) < 2 or not np.ptp(log.latency[timed]):
        return {}
    values = np.log(log.latency[timed]) - base.latency_load * MEAN_LOAD
    parameters = _logistic(values)
    width = NORMAL_95 * np.sqrt(np.diag(_covariance(values, parameters, log.node[timed])))
    bounds = np.exp([parameters, parameters - width, parameters + width]).T.tolist()
    names = ["latency_median", "latency_noise"]
    if base.latency_load or base.latency_tampering:
        names.remove("latency_noise")
    return {name: Estimate(*ends) for name, ends in zip(names, bounds, strict=False)}


def _logistic(values: FloatArray) -> FloatArray:
    """Return the location and the logarithm of the scale, by Newton's method."""
    parameters = np.array([np.median(values), np.log(max(values.std() * np.sqrt(3) / np.pi, 1e-9))])
    for _ in range(_MAX_ROUNDS):
        scores, information = _scores(values, parameters)
        step = np.linalg.solve(information, scores.sum(axis=0))
        parameters += np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-9:
            break
    return parameters


def _covariance(values: FloatArray, parameters: FloatArray, node: IntArray) -> FloatArray:
    """Return the covariance, robust to correlated response times of one node."""
    scores, information = _scores(values, parameters)
    by_node = np.zeros((int(node.max()) + 1, 2))
    np.add.at(by_node, node, scores)
    inverse = np.linalg.inv(information)
    return np.asarray(inverse @ (by_node.T @ by_node) @ inverse, np.float64)


def _scores(values: FloatArray, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each value's gradient by location and log scale, and the expected information."""
    scale = float(np.exp(parameters[1]))
    z = (values - parameters[0]) / scale
    lean = np.tanh(z / 2)
    scores = np.stack([lean / scale, z * lean - 1], axis=1)
    expected = len(values) * np.diag([1 / (3 * scale**2), (3 + np.pi**2) / 9])
    return scores, expected
