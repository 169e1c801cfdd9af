"""Scenarios as users name them: a built-in one, with fields changed if you like, or a TOML file.

`field`, `field:blocks=5000,malicious_share=0.02`, `mine.toml`.
"""

import json
import tomllib
from dataclasses import fields
from pathlib import Path

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.model.scenario import SCENARIOS, Scenario, scenario_from, scenario_named

MAX_BYTES = 1 << 20


def load_scenario(name_or_file: str) -> Scenario:
    """Return the scenario with this name, or the one in this TOML file."""
    if name_or_file in SCENARIOS or not name_or_file.endswith(".toml"):
        name, _, changes = name_or_file.partition(":")
        return _with_changes(scenario_named(name), changes)
    path = Path(name_or_file)
    content = atomic.read(path, at_most=MAX_BYTES)
    try:
        mapping = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}") from error
    try:
        return scenario_from({"name": path.stem, **mapping})
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def scenario_name(scenario: Scenario, base: str) -> str:
    """Return the name of a scenario: a built-in one with the fields that differ."""
    known = scenario_named(base)
    changes = [
        f"{field.name}={json.dumps(getattr(scenario, field.name))}"
        for field in fields(Scenario)
        if field.name != "name" and getattr(scenario, field.name) != getattr(known, field.name)
    ]
    return f"{base}:{','.join(changes)}" if changes else base


def _with_changes(scenario: Scenario, changes: str) -> Scenario:
    try:
        mapping = tomllib.loads(changes.replace(",", "\n"))
    except tomllib.TOMLDecodeError:
        raise InputError(
            f"scenario {scenario.name}: write its changes as in blocks=5000, not {changes!r}"
        ) from None
    return scenario_from({**mapping, "base": scenario.name})
