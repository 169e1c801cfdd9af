"""Events as plain rows, for the local ledger's record and for readers."""

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from holdfast.ledger.interface import EVENTS, Event


def row(event: Event) -> dict[str, Any]:
    return {"event": type(event).__name__, **{k: _plain(v) for k, v in vars(event).items()}}


def encode(events: Iterable[Event]) -> str:
    return json.dumps([row(event) for event in events])


def decode(text: str) -> tuple[Event, ...]:
    events = []
    for plain in json.loads(text):
        kind = EVENTS[plain.pop("event")]
        values = {field.name: _typed(field.type, plain[field.name]) for field in fields(kind)}
        events.append(kind(**values))
    return tuple(events)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [item.hex() for item in value]
    return value.hex() if isinstance(value, bytes) else value


def _typed(kind: Any, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(bytes.fromhex, value))
    return bytes.fromhex(value) if kind is bytes else value
