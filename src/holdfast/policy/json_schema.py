"""Frozen dataclasses to JSON and back; every field is checked against its declared type."""

import json
import math
from dataclasses import asdict, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

from holdfast import jsontext
from holdfast.errors import InputError, MalformedError

T = TypeVar("T")

_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def dump(value: Any) -> bytes:
    """Return a dataclass as JSON; equal values give equal bytes."""
    try:
        text = json.dumps(asdict(value), sort_keys=True, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"JSON can't hold this: {error}") from error
    return text.encode("ascii") + b"\n"


def parse(content: bytes) -> dict[str, Any]:
    """Return the JSON object in the text; all numbers are finite and no field is repeated."""
    try:
        document = jsontext.loads(
            content.decode(),
            object_pairs_hook=_unique_fields,
            parse_float=_finite,
            parse_constant=_finite,
        )
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"it is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise MalformedError("it is not a JSON object")
    return document


def read(kind: type[T], value: Any, name: str = "") -> T:
    """Return the dataclass of a parsed object, which must have all of its fields and no others."""
    where = f"{name}." if name else ""
    if not isinstance(value, dict):
        raise MalformedError(f"{name} must be an object")
    declared = {field.name: field.type for field in fields(kind)}  # type: ignore[arg-type]
    for field in sorted(declared.keys() ^ value.keys()):
        reason = "is missing" if field in declared else "is unknown"
        raise MalformedError(f"the field {where + field!r} {reason}")
    return kind(
        **{key: _read(field_type, value[key], where + key) for key, field_type in declared.items()}
    )


def _read(kind: Any, value: Any, name: str) -> Any:
    if kind is Any:
        return value
    if is_dataclass(kind):
        return read(kind, value, name)  # type: ignore[arg-type]
    origin, parts = get_origin(kind), get_args(kind)
    if origin is UnionType:  # with None, the only one in use
        return None if value is None else _read(parts[0], value, name)
    return _COMPOSED[origin](parts, value, name) if origin else _plain(kind, value, name)


def _plain(kind: type, value: Any, name: str) -> Any:
    if kind is float and type(value) is int and abs(value) < 2**53:
        return float(value)
    if type(value) is not kind:
        raise MalformedError(f"{name} must be {_NAMES[kind]}")
    return value


def _choice(allowed: tuple[str, ...], value: Any, name: str) -> Any:
    if value not in allowed:
        raise MalformedError(f"{name} must be one of {', '.join(allowed)}")
    return value


def _mapping(parts: tuple[Any, ...], value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedError(f"{name} must be an object")
    return {key: _read(parts[1], item, f"{name}[{key!r}]") for key, item in value.items()}


def _tuple(parts: tuple[Any, ...], value: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise MalformedError(f"{name} must be a list")
    if parts[-1] is Ellipsis:
        parts = parts[:1] * len(value)
    if len(value) != len(parts):
        raise MalformedError(f"{name} must be a list of {len(parts)}")
    pairs = enumerate(zip(parts, value, strict=True))
    return tuple(_read(part, item, f"{name}[{index}]") for index, (part, item) in pairs)


_COMPOSED = {tuple: _tuple, dict: _mapping, Literal: _choice}


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a field is repeated")
    return document


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no finite number")
    return value
