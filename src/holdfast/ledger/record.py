"""Events as text, for the local ledger's record."""

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from holdfast.ledger.interface import EVENTS, Event


def encode(events: Iterable[Event]) -> str:
    return json.dumps(
        [
            {"event": type(event).__name__, **{k: _plain(v) for k, v in vars(event).items()}}
            for event in events
        ]
    )


def decode(text: str) -> tuple[Event, ...]:
    found = []
    for row in json.loads(text):
        kind = EVENTS[row.pop("event")]
        values = {field.name: _typed(field.type, row[field.name]) for field in fields(kind)}
        found.append(kind(**values))
    return tuple(found)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [item.hex() for item in value]
    return value.hex() if isinstance(value, bytes) else value


def _typed(kind: Any, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(bytes.fromhex, value))
    return bytes.fromhex(value) if kind is bytes else value
