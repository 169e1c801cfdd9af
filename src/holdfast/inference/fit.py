"""The world that a log speaks for: the scenario's parameters by maximum likelihood.

The share of malicious nodes, both rates of damage and, where the base scenario lets types turn,
how often they do: through the filter, over all nodes at once. Answering times have a likelihood of
their own. Spreads, bursts and boldness are kept from the base scenario, for a log of weeks tells
them from the rest only poorly.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from holdfast.errors import InputError
from holdfast.inference.estimate import NORMAL_95, Estimate
from holdfast.inference.forward_filter import NodeBatch, filter_of, lots, passed_through, some
from holdfast.inference.latency import fit_latency
from holdfast.inference.log import Log
from holdfast.model.arrays import FloatArray
from holdfast.model.scenario import Scenario, scenario_from

# What the base scenario says counts as one look at each parameter, with this standard deviation on
# the logit scale: a factor of 20 either way. A parameter that the log says nothing of stays there.
VAGUE = 3.0
# Logits beyond which a parameter is as good as 0 or 1.
FARTHEST = 25.0
NEAR = 0.01  # standard errors from the maximum at which the search ends
ROUGHLY = 0.5  # the same where it begins
MOST_ROUNDS = 100
TINY = 1e-5  # of a logit: the step of a slope
# Far from the truth, exact counts are impossible and tell no direction. So the search begins with
# counts of so large a standard error of their logarithm, and with so many of the nodes.
BLUR = 0.5
FEW = 256


@dataclass(frozen=True)
class Fitted:
    """What a log says about its world, and how surely."""

    scenario: Scenario
    parameters: dict[str, Estimate]
    log_likelihood: float
    audits: int
    nodes: int
    # Of those parameters that the filter told, on the logit scale, in the order of `hidden`.
    hidden: tuple[str, ...]
    covariance: tuple[tuple[float, ...], ...]

    def draw(self, source: np.random.Generator) -> Scenario:
        """Return a world that may as well be the one behind the log."""
        middle = logit(np.array([getattr(self.scenario, name) for name in self.hidden]))
        drawn = source.multivariate_normal(middle, np.array(self.covariance), method="cholesky")
        return with_parameters(self.scenario, self.hidden, drawn)

    def document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_document(cls, document: dict[str, Any]) -> "Fitted":
        parts = document | {
            "scenario": scenario_from(document["scenario"]),
            "parameters": {n: Estimate(**each) for n, each in document["parameters"].items()},
            "hidden": tuple(document["hidden"]),
            "covariance": tuple(map(tuple, document["covariance"])),
        }
        return cls(**parts)


def fit(log: Log, base: Scenario) -> Fitted:
    """Return the parameters under which the log is most likely, with their intervals."""
    if not log.audits:
        raise InputError("there is nothing to learn from: no audit has passed or failed yet")
    hidden = hidden_in(base)
    found = logit(np.array([getattr(base, name) for name in hidden]))
    everyone = lots(log)
    if (log.found > 0).any():
        found = _Target(log, some(everyone, FEW), base, hidden, BLUR).climb(found, ROUGHLY)
    target = _Target(log, everyone, base, hidden)
    found = target.climb(found, NEAR)
    covariance = _covariance(target.information(found))
    answering = fit_latency(log, base)
    timed: dict[str, Any] = {name: told.value for name, told in answering.items()}
    spread = NORMAL_95 * np.sqrt(np.diag(covariance))
    told = {
        name: Estimate(*map(float, expit(np.array([at, at - width, at + width]))))
        for name, at, width in zip(hidden, found.tolist(), spread.tolist(), strict=True)
    }
    return Fitted(
        scenario=with_parameters(replace(base, name=f"{base.name}-fitted", **timed), hidden, found),
        parameters=told | answering,
        log_likelihood=float(target.by_node(found).sum()),
        audits=log.audits,
        nodes=log.nodes,
        hidden=hidden,
        covariance=tuple(tuple(map(float, row)) for row in covariance),
    )


def _covariance(information: FloatArray) -> FloatArray:
    """Return the inverse; in no direction is less known than the vague look has told."""
    known, directions = np.linalg.eigh(information)
    return np.asarray((directions / np.maximum(known, VAGUE**-2)) @ directions.T, np.float64)


def hidden_in(base: Scenario) -> tuple[str, ...]:
    """Return the parameters that only the filter can tell, of those that the scenario has."""
    turning = ("turn_malicious", "turn_honest")
    return (
        *("malicious_share", "honest_rate", "malicious_rate"),
        *(name for name in turning if getattr(base, name) > 0),
    )


def with_parameters(base: Scenario, names: tuple[str, ...], logits: FloatArray) -> Scenario:
    """Return the scenario with these parameters, rates kept below what would exceed 1."""
    values = dict(zip(names, expit(logits).tolist(), strict=True))
    for kind, factor in (("honest", base.burst_factor), ("malicious", base.quiet_factor)):
        most = 0.99 / (factor * getattr(base, f"{kind}_spread"))
        values[f"{kind}_rate"] = min(values[f"{kind}_rate"], most)
    return replace(base, **values)


def logit(share: FloatArray) -> FloatArray:
    inside = np.clip(share, 1e-11, 1 - 1e-11)
    return np.asarray(np.log(inside) - np.log1p(-inside), np.float64)


def expit(x: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -FARTHEST, FARTHEST))), np.float64)


@dataclass(frozen=True, eq=False)
class _Target:
    """The log likelihood as a function of the logits, and of where the base scenario has them."""

    log: Log
    lots: list[NodeBatch]
    base: Scenario
    names: tuple[str, ...]
    blur: float = 0.0

    def by_node(self, at: FloatArray) -> FloatArray:
        scenario = with_parameters(self.base, self.names, at)
        filters = {lot.blocks: filter_of(scenario, lot.blocks) for lot in self.lots}
        told = [
            passed_through(filters[lot.blocks], self.log, lot, blur=self.blur) for lot in self.lots
        ]
        return np.concatenate([belief.log_likelihood for belief in told])

    def total(self, at: FloatArray) -> float:
        return self._height(self.by_node(at), at)

    def climb(self, at: FloatArray, near: float) -> FloatArray:
        """Return the maximum, by the quasi-Newton method of Broyden, Fletcher, Goldfarb, Shanno.

        Squared slopes of single nodes are the first idea of the curvature.
        """
        height, slope, curvature = self._slopes(at, self.by_node(at))
        for _ in range(MOST_ROUNDS):
            step = np.linalg.solve(curvature, slope)
            if float(step @ slope) < near**2:
                return at
            step *= min(1.0, 2.0 / float(np.abs(step).max()))
            before, there = slope, self.by_node(at + step)
            while self._height(there, at + step) < height + 1e-4 * float(step @ slope):
                step /= 2
                if np.abs(step).max() < TINY:
                    return at
                there = self.by_node(at + step)
            at = at + step
            height, slope, _ = self._slopes(at, there)
            bend, push = before - slope, curvature @ step
            if float(bend @ step) > 0:
                curvature = curvature + np.outer(bend, bend) / float(bend @ step)
                curvature -= np.outer(push, push) / float(step @ push)
        raise InputError("the log has no likeliest parameters: the search for them did not end")

    def information(self, at: FloatArray) -> FloatArray:
        """Return the observed information: the negative Hessian, by differences."""
        middle, _, squares = self._slopes(at, self.by_node(at))
        # About a third of a standard error: there the function is a parabola and its bend shows.
        width = 0.3 / np.sqrt(np.diag(squares))
        steps = np.diag(width)
        single = [(self.total(at + step), self.total(at - step)) for step in steps]
        result = np.empty((len(at), len(at)))
        for i, (up, down) in enumerate(single):
            result[i, i] = (2 * middle - up - down) / width[i] ** 2
        for i in range(len(at)):
            for j in range(i):
                both = self.total(at + steps[i] + steps[j]) + self.total(at - steps[i] - steps[j])
                alone = sum(single[i]) + sum(single[j])
                result[i, j] = (alone - 2 * middle - both) / (2 * width[i] * width[j])
                result[j, i] = result[i, j]
        return result

    def _slopes(self, at: FloatArray, here: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the height, its gradient, and the sum over nodes of the gradient's square."""
        rises = [self.by_node(at + step) - here for step in TINY * np.eye(len(at))]
        slopes = np.stack(rises, axis=1) / TINY
        slope = slopes.sum(axis=0) - (at - self._middle) / VAGUE**2
        squares = slopes.T @ slopes + np.eye(len(at)) / VAGUE**2
        return self._height(here, at), slope, squares

    @property
    def _middle(self) -> FloatArray:
        return logit(np.array([getattr(self.base, name) for name in self.names]))

    def _height(self, by_node: FloatArray, at: FloatArray) -> float:
        return float(by_node.sum() - ((at - self._middle) ** 2).sum() / (2 * VAGUE**2))
