"""Planted damage tells whether audits find what they should."""

import numpy as np
import pytest
from tests.inference.enumeration import Audit, log_of
from tests.support.fits import fitted

from holdfast.inference.confidence import confidence
from holdfast.inference.efficacy import Trials, efficacy


def trials(detected: int, missed: int, chance: float = 0.999) -> Trials:
    outcomes = np.array([True] * detected + [False] * missed)
    return Trials(np.full(detected + missed, chance), outcomes)


def test_without_canaries_audits_are_taken_to_work() -> None:
    posterior = efficacy(trials(0, 0))
    assert (posterior.sound, posterior.estimate.low) == (1.0, 1.0)


def test_canaries_that_are_found_confirm_the_formula() -> None:
    few, many = efficacy(trials(3, 0)), efficacy(trials(30, 0))
    assert 0.5 < few.sound < many.sound
    assert many.sound > 0.95
    assert many.estimate.low > few.estimate.low


def test_misses_that_the_formula_expects_are_held_against_nobody() -> None:
    assert efficacy(trials(10, 10, chance=0.5)).sound > 0.5


def test_canaries_that_are_missed_reveal_a_broken_audit() -> None:
    posterior = efficacy(trials(10, 10))
    assert posterior.sound < 1e-9
    assert posterior.estimate.value == pytest.approx(0.5, abs=0.03)
    assert posterior.estimate.low < 0.5 < posterior.estimate.high


@pytest.mark.slow
def test_a_broken_audit_raises_what_may_have_been_missed() -> None:
    log = log_of(1000, [Audit(14, 200, failed=False), Audit(14, 200, failed=True)] * 3)
    sound, broken = (
        confidence(log, fitted(0.1), efficacy=efficacy(trials(10, missed))) for missed in (0, 30)
    )
    assert broken.miss_rate.value > sound.miss_rate.value
