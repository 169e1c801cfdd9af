"""Scenarios as users name them: one that we know, or a TOML file that sets single fields."""

import tomllib
from pathlib import Path

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.model.scenario import SCENARIOS, Scenario, scenario_from, scenario_named

MOST_BYTES = 1 << 20


def load_scenario(name_or_file: str) -> Scenario:
    """Return the scenario of that name, or the one that the TOML file describes."""
    if name_or_file in SCENARIOS or not name_or_file.endswith(".toml"):
        return scenario_named(name_or_file)
    path = Path(name_or_file)
    content = atomic.read(path, at_most=MOST_BYTES)
    try:
        mapping = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}") from error
    try:
        return scenario_from({"name": path.stem, **mapping})
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
