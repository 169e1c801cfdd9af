"""The answering times of a log: their median and noise, by maximum likelihood.

Without load and tampering their logarithm is logistic. What those two add is kept from the base
scenario; then only the median is told, for the noise can't be told from the load.
"""

import numpy as np

from holdfast.inference.estimate import NORMAL_95, Estimate
from holdfast.inference.log import Log
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.scenario import Scenario

MEAN_LOAD = 0.5
_ROUNDS = 50


def fit_latency(log: Log, base: Scenario) -> dict[str, Estimate]:
    """Return the parameters that answers tell; none where hardly any was timed."""
    timed = np.flatnonzero(log.latency > 0)
    if len(timed) < 2 or not np.ptp(log.latency[timed]):
        return {}
    values = np.log(log.latency[timed]) - base.latency_load * MEAN_LOAD
    at = _logistic(values)
    width = NORMAL_95 * np.sqrt(np.diag(_covariance(values, at, log.node[timed])))
    ends = np.exp([at, at - width, at + width]).T.tolist()
    names = ["latency_median", "latency_noise"]
    if base.latency_load or base.latency_tampering:
        names.remove("latency_noise")
    return {name: Estimate(*told) for name, told in zip(names, ends, strict=False)}


def _logistic(values: FloatArray) -> FloatArray:
    """Return the location and the logarithm of the scale, by Newton's method."""
    at = np.array([np.median(values), np.log(max(values.std() * np.sqrt(3) / np.pi, 1e-9))])
    for _ in range(_ROUNDS):
        scores, information = _slopes(values, at)
        step = np.linalg.solve(information, scores.sum(axis=0))
        at += np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < 1e-9:
            break
    return at


def _covariance(values: FloatArray, at: FloatArray, node: IntArray) -> FloatArray:
    """Return the covariance that holds even where answers of one node resemble each other."""
    scores, information = _slopes(values, at)
    by_node = np.zeros((int(node.max()) + 1, 2))
    np.add.at(by_node, node, scores)
    inverse = np.linalg.inv(information)
    return np.asarray(inverse @ (by_node.T @ by_node) @ inverse, np.float64)


def _slopes(values: FloatArray, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each value's gradient by location and log scale, and the expected information."""
    scale = float(np.exp(at[1]))
    z = (values - at[0]) / scale
    lean = np.tanh(z / 2)
    scores = np.stack([lean / scale, z * lean - 1], axis=1)
    expected = len(values) * np.diag([1 / (3 * scale**2), (3 + np.pi**2) / 9])
    return scores, expected
