"""The measures of small tallies can be worked out by hand, and their intervals cover."""

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from holdfast.sim.measures import measure, still_undetected
from holdfast.sim.tally import Tally

# Two honest episodes and a malicious one; five events, one of them never detected.
SMALL = Tally(
    malicious=np.array([False, False, True]),
    gas=np.array([1.0, 2.0, 6.0]),
    audits=np.array([10.0, 20.0, 30.0]),
    detections=np.array([1.0, 0.0, 3.0]),
    misses=np.array([2.0, 1.0, 1.0]),
    detections_malicious=np.array([0.0, 0.0, 3.0]),
    misses_malicious=np.array([0.0, 0.0, 1.0]),
    latency=np.array([10.0, 0.0, 14.0]),
    exposure=np.array([30.0, 60.0, 90.0]),
    undetected=np.array([0.0, 1.0, 0.0]),
    event_episode=np.array([0, 1, 2, 2, 2]),
    event_delay=np.array([9, 8, 2, 5, 5]),
    event_detected=np.array([True, False, True, True, True]),
)


def test_the_measures_of_a_small_tally() -> None:
    measures = measure(SMALL)
    assert measures.gas.value == 3
    assert measures.audits.value == 20
    assert measures.latency.value == 24 / 4
    assert measures.miss_rate.value == 4 / 8
    assert measures.miss_rate_honest.value == 3 / 4
    assert measures.miss_rate_malicious.value == 1 / 4
    assert measures.detections_per_100.value == pytest.approx(400 / 3)
    assert measures.exposure.value == 60
    assert measures.undetected.value == pytest.approx(1 / 3)


def test_an_undetected_event_counts_as_censored() -> None:
    """One of 5 events is found after 2 units, 2 after 5; of the 2 left, one leaves at 8."""
    measures = measure(SMALL)
    assert measures.detected_within[7].value == pytest.approx(3 / 5)
    assert measures.detected_within[14].value == 1.0, "the last event at risk was detected"
    curve = still_undetected(SMALL)
    np.testing.assert_allclose(curve, [1, 1, 0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.4, 0.0], atol=1e-12)
    assert measures.time_to_detection_p95.value == 9

    undetected = replace(SMALL, event_detected=np.array([False, False, True, True, True]))
    assert math.isinf(measure(undetected).time_to_detection_p95.value)


def idle(episodes: int, **figures: Any) -> Tally:
    """Return a tally in which nothing happened but the given figures."""
    nothing: dict[str, Any] = {part.name: np.zeros(episodes) for part in fields(Tally)}
    nothing["malicious"] = np.zeros(episodes, np.bool_)
    for name in ("event_episode", "event_delay", "event_detected"):
        nothing[name] = np.zeros(0, np.bool_ if name == "event_detected" else np.int64)
    return Tally(**(nothing | figures))


def test_what_never_happened_is_not_a_number() -> None:
    measures = measure(idle(3, gas=np.array([1.0, 2.0, 6.0])))
    assert math.isnan(measures.miss_rate.value)
    assert math.isnan(measures.latency.value)
    assert measures.gas.value == 3


def test_the_types_are_resampled_apart() -> None:
    """A figure that depends on the type alone has no spread, for the types are not drawn."""
    malicious = np.arange(100) < 30
    gas = measure(idle(100, malicious=malicious, gas=np.where(malicious, 10.0, 1.0))).gas
    assert gas.value == pytest.approx(3.7)
    assert gas.high - gas.low < 1e-9


@pytest.mark.slow
def test_the_interval_covers_the_truth_about_95_times_in_100() -> None:
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        gas = measure(idle(60, gas=generator.exponential(size=60)), resamples=300).gas
        covered += gas.low <= 1.0 <= gas.high
    assert 175 <= covered <= 199


def test_any_deadline_can_be_asked_for() -> None:
    measures = measure(SMALL, within=(2, 5, 100)).detected_within
    assert {units: round(estimate.value, 3) for units, estimate in measures.items()} == {
        2: 0.2,
        5: 0.6,
        100: 1.0,
    }
