"""The parameters of a fleet come back from its log, as surely as is said."""

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.inference import FLEET
from benchmarks.simulated_log import operate
from tests.inference.enumeration import log_of

from holdfast.errors import InputError
from holdfast.inference.fit import Fitted, fit
from holdfast.model.action import GRID
from holdfast.model.scenario import PAPER
from holdfast.policy.rules import Constant

WEEKLY = Constant(GRID.index_of(7, 0.10))


@pytest.mark.slow
def test_the_log_of_sixty_days_gives_each_parameter_back_within_its_interval() -> None:
    fitted = fit(operate(WEEKLY, FLEET, nodes=300, units=60, seed=4).log, PAPER)
    for name, estimate in fitted.parameters.items():
        assert estimate.low <= getattr(FLEET, name) <= estimate.high, name
        assert estimate.high - estimate.low < 0.8 * getattr(FLEET, name), name
    assert set(fitted.parameters) == {*fitted.hidden, "latency_median", "latency_noise"}
    assert fitted.scenario.malicious_rate == fitted.parameters["malicious_rate"].value
    assert (fitted.nodes, fitted.audits) == (300, 300 * 8)


@pytest.mark.slow
def test_a_fit_that_begins_at_an_earlier_one_ends_at_the_same_sooner() -> None:
    log = operate(WEEKLY, FLEET, nodes=60, units=60, seed=4).log
    rounds: list[list[int]] = [[], []]
    first = fit(log, PAPER, on_round=lambda: rounds[0].append(1))
    again = fit(log, PAPER, start=first, on_round=lambda: rounds[1].append(1))
    assert len(rounds[1]) < len(rounds[0]) / 2
    for name in first.hidden:
        one, two = first.parameters[name], again.parameters[name]
        assert abs(one.value - two.value) < 0.01 * (one.high - one.low), name
    other = fit(log, replace(PAPER, turn_malicious=0.01), start=first)
    assert set(other.hidden) > set(first.hidden), "another kind of scenario begins anew"


@pytest.mark.slow
def test_damage_that_is_counted_sharpens_the_rates() -> None:
    widths = []
    for counted in (0.0, 1.0):
        log = operate(WEEKLY, FLEET, nodes=60, units=60, seed=4, counted=counted).log
        estimate = fit(log, PAPER).parameters["honest_rate"]
        widths.append(estimate.high - estimate.low)
    assert widths[1] < 0.7 * widths[0]


@pytest.mark.slow
def test_what_the_log_says_nothing_of_stays_at_the_base_and_unsure() -> None:
    honest = replace(FLEET, malicious_share=0.0)
    parameters = fit(operate(WEEKLY, honest, nodes=60, units=60, seed=4).log, PAPER).parameters
    assert parameters["malicious_share"].high < 0.1
    assert parameters["malicious_rate"].low < 0.01
    assert parameters["malicious_rate"].high > 0.3


@pytest.mark.slow
def test_types_that_turn_are_fitted_where_the_base_lets_them() -> None:
    turning = replace(FLEET, blocks=100, malicious_rate=0.05, turn_malicious=0.01, turn_honest=0.02)
    log = operate(Constant(GRID.index_of(3, 0.20)), turning, nodes=150, units=60, seed=2).log
    base = replace(turning, turn_malicious=0.003, turn_honest=0.003)
    parameters = fit(log, base).parameters
    for name in ("turn_malicious", "turn_honest", "malicious_rate"):
        assert parameters[name].low <= getattr(turning, name) <= parameters[name].high, name


@pytest.mark.slow
def test_with_load_the_noise_of_answers_is_not_told_apart() -> None:
    loaded = replace(FLEET, latency_load=0.8)
    parameters = fit(operate(WEEKLY, loaded, nodes=100, units=60, seed=3).log, loaded).parameters
    assert "latency_noise" not in parameters
    assert parameters["latency_median"].value == pytest.approx(0.2, rel=0.1)


def test_a_fit_survives_its_document() -> None:
    fitted = fit(operate(WEEKLY, FLEET, nodes=30, units=30, seed=5).log, PAPER)
    assert Fitted.of_document(json.loads(json.dumps(fitted.document()))) == fitted


@pytest.mark.slow
def test_worlds_are_drawn_about_the_fit_and_differ() -> None:
    fitted = fit(operate(WEEKLY, FLEET, nodes=30, units=30, seed=5).log, PAPER)
    rng = np.random.default_rng(0)
    shares = [fitted.sample(rng).malicious_share for _ in range(200)]
    parameters = fitted.parameters["malicious_share"]
    inside = [parameters.low <= share <= parameters.high for share in shares]
    assert 0.9 <= np.mean(inside) < 1


def test_a_log_without_audits_is_refused() -> None:
    with pytest.raises(InputError, match="nothing to learn from"):
        fit(log_of(10, []), PAPER)
