"""Changes to the settings of a method, as users write them: `key=value`, or a TOML file.

A key is the name of a setting; a dot leads to the parts of one, as in `multiplier.step`. Every
value is checked against its declared type.
"""

import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.model.scenario import Scenario
from holdfast.policy.lagrangian import Ceilings

MAX_BYTES = 1 << 16
NONE = "none"  # TOML has no word for a setting that is switched off

# What lies between 0 and 1. Every other number is at least 0, and these are above it.
_SHARES = {
    *("discount", "epsilon_decay", "final_epsilon", "gae_lambda", "trace_decay", "greedy_share"),
    *("tau", "ceiling"),
}
_POSITIVE = {"learning_rate", "max_grad_norm", "clip_range", "max_value", "discount", "tau"}
# What the method itself depends on, and what a controller remembers.
_FIXED = {"inputs.dial", "multiplier.integral", "multiplier.averages", "learner", "sha256"}

S = TypeVar("S")


def read_changes(pairs: Iterable[str], file: Path | None = None) -> dict[str, Any]:
    """Return the changes in a file and in texts like `key=value`, which take precedence."""
    changes = {} if file is None else dict(_flat(_read_toml(file)))
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise InputError(f"write a setting as in learning_rate=0.001, not {pair!r}")
        changes |= _flat({key.strip(): _value(text.strip())})
    return changes


def change_settings(settings: S, changes: Mapping[str, Any], method: str) -> S:
    """Return the settings with these changes, or name the key or value that can't be used."""
    known = [key for key, _ in settings_of_keys(settings)]
    for key, value in changes.items():
        table, _, _ = key.partition(".")
        if key not in known and not (table == "ranges" and "ranges" in known):
            raise InputError(
                f"{method} has no setting {key!r}: its settings are {', '.join(known) or 'none'}"
            )
        settings = _replace(settings, key.split("."), value, key)
    _check_sizes(settings)
    return settings


def settings_of_keys(settings: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key that can be set, with its value."""
    for part in fields(settings):
        key, value = prefix + part.name, getattr(settings, part.name)
        if is_dataclass(value):
            yield from settings_of_keys(value, f"{key}.")
        elif key not in _FIXED:
            yield key, value


def as_toml(settings: Any) -> list[str]:
    """Return the settings as lines of a file that `read_changes` reads."""
    return [f"{key} = {_toml(value)}" for key, value in settings_of_keys(settings)]


def _toml(value: Any) -> str:
    match value:
        case Ceilings():
            return _toml(
                tuple(part for part in (value.miss_rate, value.latency) if part is not None)
            )
        case Mapping():
            pairs = (f"{key} = {_toml(item)}" for key, item in value.items())
            return f"{{{', '.join(pairs)}}}"
        case tuple():
            return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(NONE if value is None else value)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(atomic.read(path, at_most=MAX_BYTES).decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}") from error


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def flat_changes(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of a TOML document with the keys of its tables joined by dots."""
    return dict(_flat(table))


def _value(text: str) -> Any:
    """Return what a text means in TOML; what is no TOML is a text."""
    try:
        document = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return document["value"] if document.keys() == {"value"} else text


def _replace(settings: Any, path: list[str], value: Any, key: str) -> Any:
    name, *rest = path
    if isinstance(settings, Mapping):
        return {**settings, name: _range_of_field(name, value, key)}
    before = getattr(settings, name)
    if rest:
        return replace(settings, **{name: _replace(before, rest, value, key)})
    if type(value) is type(before) and value == before:  # such as 0 for a part that is left out
        return settings
    kind = get_type_hints(type(settings))[name]
    try:
        return replace(settings, **{name: _read(kind, value, key)})
    except InputError as error:
        raise InputError(f"the setting {key} can't be {value!r}: {error}") from error


def _read(kind: Any, value: Any, key: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if value == NONE else _read(parts[0], value, key)
    if origin is tuple:
        return _read_list(parts, value, key)
    if origin is Mapping:
        raise InputError("it must be a table, as in ranges.blocks=[100, 1000]")
    if kind is Ceilings:
        return Ceilings(*_read_list((float, ...), value, key))
    if kind is bool or kind is str:
        if type(value) is not kind:
            raise InputError("it must be true or false" if kind is bool else "it must be a text")
        return value
    return _number(kind, value, key.rpartition(".")[2])


def _read_list(parts: tuple[Any, ...], value: Any, key: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise InputError("it must be a list, as in [64, 64]")
    if parts[-1] is Ellipsis:
        if not value and parts[0] is not str:
            raise InputError("it must not be empty")
        parts = parts[:1] * len(value)
    elif len(value) != len(parts):
        raise InputError(f"it must be a list of {len(parts)}")
    items = tuple(_read(part, item, key) for part, item in zip(parts, value, strict=True))
    if parts == (float, float) and not 0 < items[0] <= items[1]:
        raise InputError("a range goes from a number above 0 to one that is no less")
    return items


def _number(kind: type, value: Any, name: str) -> float | int:
    if type(value) is not int and (kind is int or type(value) is not float):
        raise InputError(f"it must be a {'whole ' * (kind is int)}number")
    lowest = 1 if kind is int else 0
    if not math.isfinite(value) or value < lowest:
        raise InputError(f"it must be at least {lowest}")
    if name in _SHARES and value > 1:
        raise InputError("it must be at most 1")
    if name in _POSITIVE and value == 0:
        raise InputError("it must be above 0")
    return kind(value)  # type: ignore[no-any-return]


def _range_of_field(name: str, value: Any, key: str) -> tuple[float, ...]:
    numbers = [part.name for part in fields(Scenario) if part.type in (int, float)]
    if name not in numbers:
        raise InputError(
            f"the setting {key} names no number of a scenario: there are {', '.join(numbers)}"
        )
    try:
        return _read_list((float, float), value, key)
    except InputError as error:
        raise InputError(f"the setting {key} can't be {value!r}: {error}") from error


def _check_sizes(settings: Any) -> None:
    """Refuse settings with which a training could not learn or start."""
    size = getattr(settings, "buffer_size", None)
    if size is not None and hasattr(settings, "target_update_interval"):
        needed = settings.batch_size * getattr(settings, "sequence_length", 1)
        if needed > size:
            raise InputError(
                f"a batch takes {needed} decisions, and buffer_size is {size}: nothing would be"
                " learned"
            )
    if getattr(settings, "ranges", None) and settings.nodes % 8:
        raise InputError(f"nodes must be a multiple of 8 with ranges, not {settings.nodes}")
