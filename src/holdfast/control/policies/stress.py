"""Worlds somewhat worse than the one a policy was made for, in which it must not fail badly.

Slow damage is the harder one to find: where blocks go bad faster, a sample meets them sooner.
"""

from dataclasses import replace

from holdfast.model.scenario import Scenario

HIGHEST_RATE = 0.99  # that spread and factor may make of a rate


def stressed(scenario: Scenario) -> dict[str, Scenario]:
    """Return the variants of a world by name."""
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
    most = HIGHEST_RATE / (scenario.honest_spread * scenario.burst_factor)
    return replace(scenario, honest_rate=min(most, factor * scenario.honest_rate))


def _malicious(scenario: Scenario, factor: float) -> Scenario:
    most = HIGHEST_RATE / (scenario.malicious_spread * scenario.quiet_factor)
    return replace(scenario, malicious_rate=min(most, factor * scenario.malicious_rate))
