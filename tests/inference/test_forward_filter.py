"""The filter led through a log gives the probability of what the log says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.inference.enumeration import Audit, histories, log_of

from holdfast.inference.backward_sampling import sample_histories
from holdfast.inference.banded_filter import filter_of
from holdfast.inference.forward_filter import make_batches, run_filter
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


@settings(max_examples=50)
@given(worlds, st.lists(passes | failures, min_size=1, max_size=3))
def test_the_likelihood_of_a_log_is_that_of_all_its_histories(
    scenario: Scenario, audits: list[Audit]
) -> None:
    log = log_of(3, audits)
    (batch,) = make_batches(log)
    (log_likelihood,) = run_filter(filter_of(scenario, 3), log, batch).log_likelihood
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
    sampled = sample_histories(filter_of(scenario, 3), log, batch, 20_000, np.random.default_rng(1))
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
    (batch,) = make_batches(type(parts[0])(**joined))
    log_likelihood = run_filter(
        filter_of(STEADY, 3), type(parts[0])(**joined), batch
    ).log_likelihood
    alone = [
        run_filter(filter_of(STEADY, 3), p, make_batches(p)[0]).log_likelihood[0] for p in parts
    ]
    assert log_likelihood.tolist() == pytest.approx(alone)
