"""Frozen dataclasses as fields of a document: a field's declared type says what is accepted."""

import math
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from enum import StrEnum
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from holdfast.errors import InputError, MalformedError
from holdfast.pdp.encoding import unhex

MOST = 2**53 - 1  # what every reader of JSON takes as a whole number
MOST_ITEMS = 4096
LONGEST_TEXT = 500


@dataclass(frozen=True)
class Form:
    """How a value is written as JSON, and how it is read and checked; `read` is told its name."""

    write: Callable[[Any], Any]
    read: Callable[[Any, str], Any]


def hexadecimal(length: int) -> Form:
    return Form(bytes.hex, lambda value, name: unhex(value, length, name))


def wide(length: int) -> Form:
    """Return the form of a number too large for JSON."""
    return Form(
        lambda value: value.to_bytes(length, "big").hex(),
        lambda value, name: int.from_bytes(unhex(value, length, name), "big"),
    )


def _whole(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value <= MOST:
        raise MalformedError(f"{name} is not a number from 0 to {MOST}")
    return value


def _share(value: Any, name: str) -> float:
    # -0.0 would be a second text of the same number.
    if type(value) is not float or not 0 <= value <= 1 or math.copysign(1, value) < 0:
        raise MalformedError(f"{name} is not a share from 0.0 to 1.0")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or not value.isprintable():
        raise MalformedError(f"{name} is not a text of one line and {LONGEST_TEXT} characters")
    return value


_PLAIN = {
    int: Form(int, _whole),
    float: Form(float, _share),
    str: Form(str, _text),
    bytes: hexadecimal(32),
}


def form_of(kind: Any) -> Form:
    """Return the form of a type: plain, optional, a list, or a record of such."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin is Annotated:
        form: Form = parts[1]
        return form
    if parts and parts[-1] is NoneType:
        return _optional(form_of(parts[0]))
    if origin is tuple and parts[1] is Ellipsis:
        return _list(form_of(parts[0]))
    if issubclass(kind, StrEnum):
        return _choice(kind)
    if is_dataclass(kind) or issubclass(kind, tuple):
        return _record(kind)
    raise TypeError(f"a leaf can't hold a {kind}")


def _optional(form: Form) -> Form:
    return Form(
        lambda value: None if value is None else form.write(value),
        lambda value, name: None if value is None else form.read(value, name),
    )


def _list(form: Form) -> Form:
    def read(value: Any, name: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > MOST_ITEMS:
            raise MalformedError(f"{name} is not a list of at most {MOST_ITEMS} items")
        return tuple(form.read(item, f"an item of {name}") for item in value)

    return Form(lambda values: [form.write(value) for value in values], read)


def _choice(kind: type[StrEnum]) -> Form:
    def read(value: Any, name: str) -> StrEnum:
        try:
            return kind(value)
        except ValueError as error:
            raise MalformedError(f"{name} is not one of {', '.join(kind)}") from error

    return Form(str, read)


def _record(kind: Any) -> Form:
    hints = get_type_hints(kind, include_extras=True)
    forms = {name: form_of(each) for name, each in hints.items()}

    def write(value: Any) -> dict[str, Any]:
        return {name: form.write(getattr(value, name)) for name, form in forms.items()}

    def read(value: Any, name: str) -> Any:
        if not isinstance(value, dict):
            raise MalformedError(f"{name} is not an object")
        if value.keys() != forms.keys():
            odd = min(value.keys() ^ forms.keys())
            reason = "is missing" if odd in forms else "is unknown"
            raise MalformedError(f"{name}: the field {odd!r} {reason}")
        found = {each: form.read(value[each], f"{name}: {each!r}") for each, form in forms.items()}
        try:
            return kind(**found)
        except MalformedError:
            raise
        except InputError as error:
            raise MalformedError(f"{name}: {error}") from error

    return Form(write, read)
