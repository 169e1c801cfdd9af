"""Lengths of time: whole milliseconds in the code, texts such as "90 seconds" in settings."""

import re
from typing import Any

from holdfast.errors import InputError

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_UNITS = {"day": DAY, "hour": HOUR, "minute": MINUTE, "second": SECOND}
_TEXT = re.compile(r"(\d{1,9}) (second|minute|hour|day)s?")


def parse_duration(text: Any) -> int:
    match = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if match is None or not int(match[1]):
        raise InputError(f'must be a time such as "90 seconds" or "1 day", not {text!r}')
    return int(match[1]) * _UNITS[match[2]]


def parse_delay(text: Any) -> int:
    """Return a duration that may be none at all."""
    return 0 if text == "at once" else parse_duration(text)


def format_duration(milliseconds: int) -> str:
    if not milliseconds:
        return "at once"
    exact = (unit for unit, length in _UNITS.items() if milliseconds % length == 0)
    unit = next(exact, "millisecond")  # no file can set one
    count = milliseconds // _UNITS.get(unit, 1)
    return f"{count} {unit}{'' if count == 1 else 's'}"
