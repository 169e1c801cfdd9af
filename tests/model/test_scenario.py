"""A scenario is one value; a mapping changes single fields, and a wrong one is named."""

import json
from dataclasses import replace
from typing import Any

import pytest

from holdfast.errors import InputError
from holdfast.model.scenario import DRIFT, FIELD, PAPER, SCENARIOS, scenario_from, scenario_named


def test_the_papers_scenario_has_the_papers_figures() -> None:
    assert (PAPER.horizon, PAPER.blocks, PAPER.malicious_share) == (365, 1000, 0.3)
    assert (PAPER.honest_rate, PAPER.malicious_rate) == (0.001, 0.05)
    assert PAPER.samples_of[:5].tolist() == [10, 30, 50, 100, 200]
    assert PAPER.steady
    assert not DRIFT.steady


def test_samples_in_the_field_are_capped() -> None:
    assert FIELD.samples_of[:5].tolist() == [1000, 3000, 5000, 10_000, 10_000]


def test_a_mapping_changes_single_fields_of_its_base() -> None:
    changed = scenario_from({"base": "field", "blocks": 200_000, "honest_rate": 0})
    assert (changed.blocks, changed.honest_rate, changed.detection) == (200_000, 0, "exact")
    assert scenario_from({}) == PAPER


@pytest.mark.parametrize(
    ("mapping", "field"),
    [
        ({"blokcs": 10}, "blokcs"),
        ({"base": "paper-2"}, "base"),
        ({"base": ["paper"]}, "base"),
        ({"name": 7}, "name"),
        ({"blocks": 10.5}, "blocks"),
        ({"blocks": True}, "blocks"),
        ({"blocks": 0}, "blocks"),
        ({"blocks": 10**8}, "blocks"),
        ({"honest_rate": "0.1"}, "honest_rate"),
        ({"honest_rate": float("nan")}, "honest_rate"),
        ({"malicious_share": 1.1}, "malicious_share"),
        ({"detection": "sometimes"}, "detection"),
        ({"detection": ["exact"]}, "detection"),
        ({"malicious_rate": 0.5, "quiet_factor": 2}, "malicious_rate"),
    ],
)
def test_a_wrong_field_type_or_range_is_refused_by_name(
    mapping: dict[str, Any], field: str
) -> None:
    with pytest.raises(InputError, match=f"scenario field {field}:"):
        scenario_from(mapping)


def test_an_unknown_scenario_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="paper, drift, field"):
        scenario_named("papyrus")


def test_a_scenario_is_what_its_parameters_say() -> None:
    renamed = replace(DRIFT, name="mine")
    assert renamed.hash == DRIFT.hash
    assert "name" not in DRIFT.parameters
    assert json.loads(json.dumps(DRIFT.parameters)) == DRIFT.parameters
    assert scenario_from({"base": "drift", "malicious_share": 0.9}).hash != DRIFT.hash
    whole = scenario_from({"base": "field", "honest_rate": 0})
    assert whole.hash == scenario_from({"base": "field", "honest_rate": 0.0}).hash
    assert len({scenario.hash for scenario in SCENARIOS.values()}) == len(SCENARIOS)
    assert len(PAPER.hash) == 64
    assert PAPER.hash.startswith(PAPER.short_hash)
