"""Scenarios are written as users name them, and read back as they were."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InputError
from holdfast.model.scenario import FIELD, PAPER, SCENARIOS, Scenario
from holdfast.sim.scenario_file import load_scenario, scenario_name

CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "blocks": st.integers(1, 10**7),
        "detection": st.sampled_from(("approximate", "exact")),
        "malicious_share": st.floats(0, 1),
        "honest_rate": st.floats(0, 1e-4),
        "latency_median": st.floats(1e-6, 1e6),
    },
)


def test_single_fields_of_a_known_scenario_are_set_by_name() -> None:
    changed = load_scenario("field:blocks=5000,malicious_share=0.02")
    assert changed == replace(FIELD, blocks=5000, malicious_share=0.02)
    assert load_scenario("field") is not load_scenario("paper") == PAPER


@given(name=st.sampled_from(sorted(SCENARIOS)), base=st.sampled_from(sorted(SCENARIOS)), by=CHANGES)
def test_what_is_written_is_read_back(name: str, base: str, by: dict[str, float]) -> None:
    scenario: Scenario = replace(SCENARIOS[name], **by)  # type: ignore[arg-type]
    assert load_scenario(scenario_name(scenario, base)) == replace(scenario, name=base)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("field:blokcs=1", "scenario field blokcs: there is no such field"),
        ("field:blocks", "scenario field: write its changes as in blocks=5000, not 'blocks'"),
        ("field:blocks=0", "scenario field blocks: must lie between"),
        ("moon:blocks=1", "there is no scenario 'moon'"),
    ],
)
def test_a_change_that_means_nothing_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        load_scenario(text)
