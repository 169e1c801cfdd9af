"""Settings are written to files with the names that shipped manifests have."""

import pytest

from holdfast.learn.methods import METHODS, settings_of
from holdfast.learn.settings import to_json
from holdfast.model.scenario import SCENARIOS
from holdfast.policy import checkpoint
from holdfast.policy.registry import LEARNED
from holdfast.policy.shipped import shipped_folder

SHIPPED = [(method, "paper") for method in METHODS if method in LEARNED]
SHIPPED += [("drqn-cmdp-plus", "drift"), ("drqn-cmdp-plus", "field")]


@pytest.mark.parametrize(("method", "scenario"), SHIPPED)
def test_the_settings_of_a_shipped_policy_are_those_of_its_manifest(
    method: str, scenario: str
) -> None:
    manifest = checkpoint.load(shipped_folder(method, scenario)).manifest
    assert to_json(settings_of(method, SCENARIOS[scenario])) == manifest.training["settings"]
