"""How settings are written to run.json and to manifests.

A setting whose name in the code differs from its name in these files says so with `setting`.
"""

from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from typing import Any

_NAME = "name"


def setting(name: str, default: Any) -> Any:
    """Declare a field that files call `name`."""
    return field(default=default, metadata={_NAME: name})


def to_json(value: Any) -> Any:
    """Return a dataclass as JSON holds it, with the names that files use."""
    if is_dataclass(value):
        return {
            part.metadata.get(_NAME, part.name): to_json(getattr(value, part.name))
            for part in fields(value)
        }
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value
