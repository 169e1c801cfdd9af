"""Stress scenarios: variants somewhat harder than the fleet's, which a policy must survive.

Slow damage is harder to detect: where blocks fail faster, a sample finds them sooner.
"""

from dataclasses import replace

from holdfast.model.scenario import Scenario

MAX_RATE = 0.99  # after spread and factor


def stress_scenarios(scenario: Scenario) -> dict[str, Scenario]:
    """Return the variants of a scenario by name."""
    return {
        "twice as many malicious nodes": replace(
            scenario, malicious_share=min(1.0, 2 * scenario.malicious_share)
        ),
        "honest faults at three times the rate": _honest(scenario, 3),
        "honest faults at two thirds of the rate": _honest(scenario, 2 / 3),
        "malicious damage at twice the rate": _malicious(scenario, 2),
        "malicious damage at a third of the rate": _malicious(scenario, 1 / 3),
    }


def _honest(scenario: Scenario, factor: float) -> Scenario:
    most = MAX_RATE / (scenario.honest_spread * scenario.burst_factor)
    return replace(scenario, honest_rate=min(most, factor * scenario.honest_rate))


def _malicious(scenario: Scenario, factor: float) -> Scenario:
    most = MAX_RATE / (scenario.malicious_spread * scenario.quiet_factor)
    return replace(scenario, malicious_rate=min(most, factor * scenario.malicious_rate))
