"""Reads `holdfast.toml` and checks its tables against their models.

A model is a frozen dataclass below `Table`. Pydantic checks the types of its fields, refuses keys
that it doesn't have, and writes values back as the file would have them. Every fault becomes one
sentence that names the key. A field that may hold a secret has `repr=False`, and its value is in
no sentence.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    Strict,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails

from holdfast import atomic
from holdfast.durations import format_duration, parse_delay, parse_duration
from holdfast.errors import InputError

FILE_NAME = "holdfast.toml"
MAX_SETTINGS_BYTES = 1 << 16

T = TypeVar("T", bound="Table")


class Table:
    """A table of the file; its keys are the fields of the dataclass."""

    __pydantic_config__ = ConfigDict(extra="forbid", hide_input_in_errors=True)


@dataclass(frozen=True)
class SettingsFile:
    path: Path
    document: Mapping[str, Any]

    @classmethod
    def read(cls, home: Path) -> "SettingsFile":
        """Read the file of a home; a home without one has an empty document."""
        path = home / FILE_NAME
        if not path.exists():
            return cls(path, {})
        if not path.is_file():  # reading a pipe would wait for its writer
            raise InputError(f"{path} is not a regular file")
        try:
            return cls(path, tomllib.loads(atomic.read(path, at_most=MAX_SETTINGS_BYTES).decode()))
        except ValueError as error:
            raise InputError(f"{path} is not TOML: {error}") from error

    def table(self, name: str, model: type[T]) -> T:
        """Return a table of the document, with defaults for everything that it doesn't set."""
        return self.check(name, model, self.document.get(name, {}))

    def check(self, name: str, model: type[T], table: Any) -> T:
        try:
            checked = TypeAdapter(model).validate_python(table)
        except ValidationError as invalid:
            errors = invalid.errors(include_url=False)
            unknown = (error for error in errors if error["type"] == "unexpected_keyword_argument")
            sentence = _sentence(name, model, next(unknown, errors[0]))
            raise InputError(f"{self.path}: {sentence}") from None  # the cause may show a secret
        return checked

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Raise if the document has a table or key other than these."""
        names = list(known)
        for name in self.document:
            if name not in names:
                raise InputError(
                    f"{self.path}: unknown table or key {name!r}{_suggestion(name, names)}"
                )


def as_written(table: Table) -> dict[str, Any]:
    """Return the values of a table as the file would write them, without secrets."""
    written: dict[str, Any] = TypeAdapter(type(table)).dump_python(table, mode="json")
    return written


_SENTENCES = {
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "string_type": "must be a text",
    "string_too_short": "must be a text",
    "tuple_type": "must be a list",
    "enum": "must be {expected}",
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be below {lt:g}",
    "less_than_equal": "must be at most {le:g}",
}


def _sentence(name: str, model: type[Table], error: ErrorDetails) -> str:
    keys = [str(part) for part in error["loc"] if isinstance(part, str)]
    kind, context = error["type"], error.get("ctx", {})
    if kind == "dataclass_type":
        return f"{'.'.join([name, *keys])} is not a table"
    if kind == "value_error" and hasattr(_model_of(model, keys), "__pydantic_config__"):
        return f"[{'.'.join([name, *keys])}]: {context['error']}"
    table, key = ".".join([name, *keys[:-1]]), keys[-1]
    if kind == "unexpected_keyword_argument":
        known = [field.name for field in fields(_model_of(model, keys[:-1]))]
        return f"unknown key {key!r} in [{table}]{_suggestion(key, known)}"
    if kind == "missing":
        return f"[{table}] needs the key {key!r}"
    if kind == "value_error":
        return f"{key} in [{table}] {context['error']}"
    sentence = _SENTENCES.get(kind, "can't be used").format(**context)
    return f"{key} in [{table}] {sentence}, not {error['input']!r}"


def _suggestion(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f": there is {', '.join(names)}"


def _model_of(model: Any, keys: Iterable[str]) -> Any:
    """Return the type of a table in a table."""
    for key in keys:
        model = next(field.type for field in fields(model) if field.name == key)
    return model


# Types of fields.


def parsed_by(parse: Callable[[Any], Any]) -> PlainValidator:
    """Let a function that raises `InputError` read the value of a field."""

    def validate(value: Any) -> Any:
        try:
            return parse(value)
        except InputError as error:
            raise ValueError(str(error)) from error

    return PlainValidator(validate)


def parse_text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InputError("must be a text")
    return value


def split_address(address: Any) -> SplitResult:
    """Return the parts of an address; an error doesn't show it."""
    try:
        return urlsplit(parse_text(address))
    except ValueError:
        raise InputError("can't be read as an address") from None


def parse_address(value: Any) -> str:
    split_address(value)
    return str(value)


def public_address(address: str) -> str:
    """Return an address without user, password, query, and the path of HTTP: they may be secret."""
    if "://" not in address:
        return address
    parts = urlsplit(address)
    path = "" if parts.scheme.startswith("http") else parts.path
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"


Text = Annotated[str, Strict(), Field(min_length=1)]
Switch = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=1, lt=10**9)]
Wei = Annotated[int, Strict(), Field(ge=1, lt=2**63)]
Number = Annotated[float, Strict(), Field(ge=0, lt=1e9, allow_inf_nan=False)]
Share = Annotated[float, Strict(), Field(ge=0, lt=1, allow_inf_nan=False)]
Duration = Annotated[int, parsed_by(parse_duration), PlainSerializer(format_duration)]
Delay = Annotated[int, parsed_by(parse_delay), PlainSerializer(format_duration)]
Address = Annotated[str, parsed_by(parse_address), PlainSerializer(public_address)]
