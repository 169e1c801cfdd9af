"""A listener to server-sent events, as a browser is one."""

import json
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True)
class Heard:
    name: str
    data: Any
    id: int | None


def events(client: httpx.Client, path: str, last: int | None = None) -> Generator[Heard]:
    """Yield the events of a stream until it ends, or nobody listens any more."""
    headers = {} if last is None else {"last-event-id": str(last)}
    with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                mark = int(fields["id"]) if "id" in fields else None
                yield Heard(fields["event"], json.loads(fields["data"]), mark)
                fields = {}
