"""The filter led through a log gives the probability of what the log says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.inference.enumeration import Audit, histories, log_of

from holdfast.inference.backward_sampling import sample_histories
from holdfast.inference.forward_filter import World, make_batches
from holdfast.inference.growth_bands import table_of
from holdfast.inference.likelihood import log_likelihoods
from holdfast.inference.log import Log
from holdfast.model.arrays import FloatArray
from holdfast.model.scenario import Scenario

STEADY = Scenario(blocks=3, honest_rate=0.1, malicious_rate=0.4)
TURNING = Scenario(
    blocks=3, honest_rate=0.1, malicious_rate=0.4, turn_malicious=0.2, turn_honest=0.1
)

worlds = st.sampled_from([STEADY, TURNING])
passes = st.builds(Audit, st.just(1), st.integers(1, 3), st.just(value=False))
failures = st.builds(
    Audit, st.just(1), st.integers(1, 3), st.just(value=True), st.sampled_from([-1, 1, 2, 3])
)


def likelihood_of(scenario: Scenario, log: Log) -> FloatArray:
    (batch,) = make_batches(log)
    (likelihood,) = log_likelihoods([World(scenario)], log, batch, table_of(scenario, 3))
    return np.asarray(likelihood, np.float64)


@settings(max_examples=50)
@given(worlds, st.lists(passes | failures, min_size=1, max_size=3))
def test_the_likelihood_of_a_log_is_that_of_all_its_histories(
    scenario: Scenario, audits: list[Audit]
) -> None:
    (log_likelihood,) = likelihood_of(scenario, log_of(3, audits))
    assert np.exp(log_likelihood) == pytest.approx(
        sum(p for _, p in histories(scenario, audits)), rel=1e-6
    )


@pytest.mark.parametrize("scenario", [STEADY, TURNING])
def test_histories_are_drawn_as_often_as_they_are_likely(scenario: Scenario) -> None:
    audits = [
        *(Audit(1, 1, failed=False), Audit(1, 2, failed=False), Audit(1, 1, failed=True)),
        *(
            Audit(1, 1, failed=False),
            Audit(1, 2, failed=True, damaged=2),
            Audit(1, 1, failed=False),
        ),
    ]
    log = log_of(3, audits)
    (batch,) = make_batches(log)
    worlds, rng = [World(scenario)], np.random.default_rng(1)
    (sampled,) = sample_histories(worlds, log, batch, table_of(scenario, 3), 20_000, rng)
    expected = np.zeros(5)
    for met, chance in histories(scenario, audits):
        missed = [d > 0 and not a.failed for d, a in zip(met, audits, strict=True)]
        expected[sum(missed)] += chance
    share = np.bincount(sampled.misses[:, 0], minlength=5) / 20_000
    assert share == pytest.approx(expected / expected.sum(), abs=0.012)


def test_nodes_with_different_numbers_of_audits_do_not_touch_each_other() -> None:
    long, short = [Audit(1, 1, failed=False)] * 3, [Audit(1, 2, failed=True)]
    parts = [log_of(3, long), log_of(3, short)]
    joined = {name: np.concatenate([vars(p)[name] for p in parts]) for name in vars(parts[0])}
    joined["node"] = np.array([0, 0, 0, 1])
    alone = [likelihood_of(STEADY, part)[0] for part in parts]
    assert likelihood_of(STEADY, Log(**joined)).tolist() == pytest.approx(alone)
