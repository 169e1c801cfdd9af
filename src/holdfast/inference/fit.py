"""Fits a scenario to a log of audits: its parameters by maximum likelihood.

The filter gives the likelihood of the share of malicious nodes, both rates of damage and, if the
base scenario lets types turn, how often they do. Response times have a separate likelihood.
Spreads, bursts and boldness stay as in the base scenario: a log of weeks hardly identifies them.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from holdfast.errors import InputError
from holdfast.inference.forward_filter import NodeBatch, World, make_batches, subsample
from holdfast.inference.growth_bands import SizeTable, table_of
from holdfast.inference.latency import fit_latency
from holdfast.inference.likelihood import log_likelihoods
from holdfast.inference.log import Log
from holdfast.inference.size_classes import MAX_RATIO, in_classes, size_classes
from holdfast.model.arrays import FloatArray
from holdfast.model.estimate import NORMAL_95, Estimate
from holdfast.model.scenario import Scenario, scenario_from

# The base scenario is the prior mean of each parameter, with this standard deviation on the logit
# scale: a factor of 20 either way. A parameter that the log says nothing about stays there.
PRIOR_SD = 3.0
# Logits beyond which a parameter is as good as 0 or 1.
MAX_LOGIT = 25.0
TOLERANCE = 0.01  # standard errors from the maximum, at the end of the search
ROUGH_TOLERANCE = 0.5  # the same for its rough beginning
MAX_ROUNDS = 100
EPSILON = 1e-5  # in logits, of finite differences
# Far from the truth, exact counts have likelihood zero and give no direction. So the search begins
# with this standard error of the logarithm of counts, and with this many nodes.
ROUGH_BLUR = 0.5
ROUGH_NODES = 256

OnRound = Callable[[], None]  # called now and then while a fit is made


@dataclass(frozen=True)
class Fitted:
    """The fitted scenario, with estimates of its parameters and their covariance."""

    scenario: Scenario
    parameters: dict[str, Estimate]
    log_likelihood: float
    audits: int
    nodes: int
    # Of the parameters that the filter estimates, on the logit scale, in the order of `hidden`.
    hidden: tuple[str, ...]
    covariance: tuple[tuple[float, ...], ...]

    def sample(self, rng: np.random.Generator) -> Scenario:
        """Return a scenario sampled from the uncertainty of the fit."""
        middle = logit(np.array([getattr(self.scenario, name) for name in self.hidden]))
        logits = rng.multivariate_normal(middle, np.array(self.covariance), method="cholesky")
        return with_parameters(self.scenario, self.hidden, logits)

    def document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_document(cls, document: dict[str, Any]) -> "Fitted":
        parts = document | {
            "scenario": scenario_from(document["scenario"]),
            "parameters": {
                name: Estimate(**figures) for name, figures in document["parameters"].items()
            },
            "hidden": tuple(document["hidden"]),
            "covariance": tuple(map(tuple, document["covariance"])),
        }
        return cls(**parts)


def fit(
    log: Log,
    base: Scenario,
    *,
    start: Fitted | None = None,
    max_ratio: float = MAX_RATIO,
    on_round: OnRound = lambda: None,
) -> Fitted:
    """Return the parameters under which the log is most likely, with their intervals.

    The search begins at `start`, a fit of an earlier log, or else at the base scenario.
    `max_ratio` limits the size classes. With 1, every size has its own filter.
    """
    if not log.audits:
        raise InputError("there is nothing to learn from: no audit has passed or failed yet")
    hidden = hidden_parameters(base)
    if start is not None and start.hidden != hidden:
        start = None  # it was fitted in another kind of scenario
    begin = base if start is None else start.scenario
    logits = logit(np.array([getattr(begin, name) for name in hidden]))
    classed = in_classes(log, size_classes(log.blocks, max_ratio))
    batches = make_batches(classed)
    tables = {batch.blocks: table_of(base, batch.blocks) for batch in batches}
    likelihood = _LogLikelihood(classed, batches, base, hidden, tables, on_round)
    if start is None and (log.damaged > 0).any():
        rough = replace(likelihood, batches=subsample(batches, ROUGH_NODES), blur=ROUGH_BLUR)
        logits = rough.maximise(logits, ROUGH_TOLERANCE).logits
    curvature = None if start is None else np.linalg.inv(np.array(start.covariance))
    best = likelihood.maximise(logits, TOLERANCE, curvature)
    logits, covariance = best.logits, _covariance(likelihood.information(best))
    latency = fit_latency(log, base)
    timing: dict[str, Any] = {name: estimate.value for name, estimate in latency.items()}
    widths = NORMAL_95 * np.sqrt(np.diag(covariance))
    estimates = {
        name: Estimate(*map(float, expit(np.array([value, value - width, value + width]))))
        for name, value, width in zip(hidden, logits.tolist(), widths.tolist(), strict=True)
    }
    return Fitted(
        scenario=with_parameters(
            replace(base, name=f"{base.name}-fitted", **timing), hidden, logits
        ),
        parameters=estimates | latency,
        log_likelihood=best.log_likelihood,
        audits=log.audits,
        nodes=log.nodes,
        hidden=hidden,
        covariance=tuple(tuple(map(float, row)) for row in covariance),
    )


def _covariance(information: FloatArray) -> FloatArray:
    """Return the inverse; no direction has more variance than the prior."""
    known, directions = np.linalg.eigh(information)
    return np.asarray((directions / np.maximum(known, PRIOR_SD**-2)) @ directions.T, np.float64)


def hidden_parameters(base: Scenario) -> tuple[str, ...]:
    """Return the parameters that the filter estimates."""
    turning = ("turn_malicious", "turn_honest")
    return (
        *("malicious_share", "honest_rate", "malicious_rate"),
        *(name for name in turning if getattr(base, name) > 0),
    )


def with_parameters(base: Scenario, names: tuple[str, ...], logits: FloatArray) -> Scenario:
    """Return the scenario with these parameters, rates kept below what would exceed 1."""
    values = dict(zip(names, expit(logits).tolist(), strict=True))
    for kind, factor in (("honest", base.burst_factor), ("malicious", base.quiet_factor)):
        max_rate = 0.99 / (factor * getattr(base, f"{kind}_spread"))
        values[f"{kind}_rate"] = min(values[f"{kind}_rate"], max_rate)
    return replace(base, **values)


def logit(share: FloatArray) -> FloatArray:
    inside = np.clip(share, 1e-11, 1 - 1e-11)
    return np.asarray(np.log(inside) - np.log1p(-inside), np.float64)


def expit(x: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -MAX_LOGIT, MAX_LOGIT))), np.float64)


@dataclass(frozen=True, eq=False)
class _Point:
    """The log likelihood at some logits, and its derivatives."""

    logits: FloatArray
    log_likelihood: float
    value: float  # penalised
    gradient: FloatArray  # of the value
    squared: FloatArray  # sum over nodes of the squared gradient


@dataclass(frozen=True, eq=False)
class _LogLikelihood:
    """The log likelihood of logits, penalised by their distance from the base scenario."""

    log: Log
    batches: list[NodeBatch]
    base: Scenario
    names: tuple[str, ...]
    tables: dict[int, SizeTable] = field(repr=False)
    on_round: OnRound = lambda: None
    blur: float = 0.0

    def by_node(self, *points: FloatArray) -> FloatArray:
        """Return the log likelihood of each node at each of these logits: (points, nodes)."""
        worlds = [World(with_parameters(self.base, self.names, logits)) for logits in points]
        values = []
        for batch in self.batches:
            self.on_round()
            table = self.tables[batch.blocks]
            values.append(log_likelihoods(worlds, self.log, batch, table, blur=self.blur))
            if len(self.tables) > 1:
                table.clear()
        return np.concatenate(values, axis=1)

    def totals(self, points: Sequence[FloatArray]) -> list[float]:
        """Return the penalised log likelihood at each of these logits."""
        by_node = self.by_node(*points)
        return [self._penalised(row, x) for row, x in zip(by_node, points, strict=True)]

    def maximise(
        self, start: FloatArray, tolerance: float, curvature: FloatArray | None = None
    ) -> _Point:
        """Return the maximum, by the quasi-Newton method of Broyden, Fletcher, Goldfarb, Shanno.

        The first estimate of the curvature, if none is given, is the sum of squared gradients of
        single nodes.
        """
        here = self._differentiate(start)
        curvature = here.squared if curvature is None else curvature
        for _ in range(MAX_ROUNDS):
            step = np.linalg.solve(curvature, here.gradient)
            if float(step @ here.gradient) < tolerance**2:
                return here
            step *= min(1.0, 2.0 / float(np.abs(step).max()))
            # Most first steps are taken, and the gradient there is cheap beside the value.
            after = self._differentiate(here.logits + step)
            while after.value < here.value + 1e-4 * float(step @ here.gradient):
                step /= 2
                if np.abs(step).max() < EPSILON:
                    return here
                after = self._differentiate(here.logits + step)
            y, curved = here.gradient - after.gradient, curvature @ step
            here = after
            if float(y @ step) > 0:
                curvature = curvature + np.outer(y, y) / float(y @ step)
                curvature -= np.outer(curved, curved) / float(step @ curved)
        raise InputError("the log has no likeliest parameters: the search for them did not end")

    def information(self, at: _Point) -> FloatArray:
        """Return the observed information: the negative Hessian, by differences."""
        x, middle = at.logits, at.value
        # About a third of a standard error, where the function is close to a parabola.
        width = 0.3 / np.sqrt(np.diag(at.squared))
        steps, pairs = np.diag(width), np.tril_indices(len(x), -1)
        both = [steps[i] + steps[j] for i, j in zip(*pairs, strict=True)]
        values = self.totals([x + sign * step for step in [*steps, *both] for sign in (1, -1)])
        sums = np.reshape(values, (-1, 2)).sum(axis=1)  # of each step up and down
        single, joint = sums[: len(x)], sums[len(x) :]
        hessian = np.diag((2 * middle - single) / width**2)
        for i, j, total in zip(*pairs, joint.tolist(), strict=True):
            mixed = single[i] + single[j] - 2 * middle - total
            hessian[i, j] = hessian[j, i] = mixed / (2 * width[i] * width[j])
        return hessian

    def _differentiate(self, x: FloatArray) -> _Point:
        by_node, *moved = self.by_node(x, *(x + EPSILON * np.eye(len(x))))
        gradients = (np.stack(moved, axis=1) - by_node[:, np.newaxis]) / EPSILON
        return _Point(
            logits=x,
            log_likelihood=float(by_node.sum()),
            value=self._penalised(by_node, x),
            gradient=gradients.sum(axis=0) - (x - self._prior_mean) / PRIOR_SD**2,
            squared=gradients.T @ gradients + np.eye(len(x)) / PRIOR_SD**2,
        )

    @property
    def _prior_mean(self) -> FloatArray:
        return logit(np.array([getattr(self.base, name) for name in self.names]))

    def _penalised(self, by_node: FloatArray, x: FloatArray) -> float:
        return float(by_node.sum() - ((x - self._prior_mean) ** 2).sum() / (2 * PRIOR_SD**2))
