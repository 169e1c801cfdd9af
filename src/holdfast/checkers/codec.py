"""Samples, reports and plans as canonical JSON; every field is checked against its type."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from holdfast import jsontext
from holdfast.checkers.interface import MAX_WORDS, Report
from holdfast.errors import MalformedError

T = TypeVar("T")

MAX_REASON = 500  # characters
_LEFT_OUT = "… "


def dump(value: Any) -> bytes:
    """Return a dataclass as JSON; equal values give equal bytes."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":")).encode("ascii")


def load(kind: type[T], content: bytes, name: str) -> T:
    """Return the dataclass that the JSON holds; `name` says in an error what it is."""
    try:
        value: T = _read(kind, jsontext.loads(content.decode("ascii")))
    except (ValueError, RecursionError, TypeError) as error:
        raise MalformedError(f"{name} is damaged: it does not hold what a check wrote") from error
    return value


def bound(report: Report) -> Report:
    """Return the report with a reason of one line and no more words than may be kept."""
    reason = " ".join(report.reason.split())
    reason = "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in reason)
    if len(reason) > MAX_REASON:
        reason = reason[: MAX_REASON - 1] + "…"
    return replace(report, reason=reason, words=last_words(report.words))


def last_words(text: str) -> str:
    """Return the end of a text, as much of it as a report keeps."""
    return text if len(text) <= MAX_WORDS else _LEFT_OUT + text[len(_LEFT_OUT) - MAX_WORDS :]


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _read(kind: Any, value: Any) -> Any:
    """Return a parsed value as its declared type; ValueError if it is none."""
    if is_dataclass(kind):
        return _read_fields(kind, _typed(dict, value))
    if get_origin(kind) is tuple:
        return tuple(_read(get_args(kind)[0], item) for item in _typed(list, value))
    if get_origin(kind) is not None:  # a mapping of texts, the only one in use
        return {name: _typed(str, item) for name, item in _typed(dict, value).items()}
    if kind is bytes:
        return bytes.fromhex(_typed(str, value))
    return kind(value) if issubclass(kind, StrEnum) else _typed(kind, value)


def _read_fields(kind: Any, value: dict[str, Any]) -> Any:
    types = _types(kind)
    if value.keys() != types.keys():
        raise ValueError("not its fields")
    return kind(**{name: _read(types[name], item) for name, item in value.items()})


@cache
def _types(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _typed(kind: Any, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"no {kind.__name__}")
    return value
