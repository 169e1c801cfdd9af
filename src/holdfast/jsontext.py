"""Parses untrusted JSON, unless it is nested so deeply that parsing could crash.

Python's parser trusts the recursion limit, which libraries raise: py-evm does, and then a megabyte
of brackets ends the process instead of raising an error.
"""

import json
import re
from typing import Any

MAX_DEPTH = 64  # levels; what we write has fewer than ten

_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_OTHERS = re.compile(r"[^\[\]{}]+")


def loads(text: str, **hooks: Any) -> Any:
    """Return what the text holds; ValueError if it is no JSON or too deep."""
    # Few brackets can't be deep. This saves a third of the time to read a leaf of the evidence.
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(text)
    return json.loads(text, **hooks)


def _check_depth(text: str) -> None:
    depth = 0
    for bracket in _OTHERS.sub("", _STRINGS.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
