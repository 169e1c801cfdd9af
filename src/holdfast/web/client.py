"""The way of commands to a running server, whose address is in the home while it runs.

The address comes with a name that the server was given when it started and tells with every
answer, so that another program that has its port by now is not taken for it.
"""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from pydantic import TypeAdapter, ValidationError

from holdfast import atomic
from holdfast.control.status import Status
from holdfast.web.paging import MOST

PLACE = "web.json"  # the file in the home that tells where its server is
INSTANCE = "holdfast-instance"  # the header of an answer with the server's name
TIMEOUT = 2.0  # seconds, after which the database is asked instead
MAX_PLACE_BYTES = 1000


@contextmanager
def announced(folder: Path, url: str) -> Iterator[str]:
    """Write down where a home's server is, while it runs; yield the name it is to answer by."""
    path, name = folder / PLACE, secrets.token_hex(8)
    atomic.write(path, json.dumps({"url": url, "instance": name}).encode(), mode=0o600)
    try:
        yield name
    finally:
        path.unlink(missing_ok=True)


def running_status(folder: Path, limit: int) -> Status | None:
    """Return what the home's server tells of its status; nothing if there is none."""
    path = folder / PLACE
    if limit > MOST or not path.exists():
        return None
    try:
        place = json.loads(atomic.read(path, at_most=MAX_PLACE_BYTES))
        url, name = f"{place['url']}/api/v1/status", place["instance"]
        answer = httpx.get(url, params={"limit": limit}, timeout=TIMEOUT, trust_env=False)
        if answer.status_code != httpx.codes.OK or answer.headers.get(INSTANCE) != name:
            return None
        return TypeAdapter(Status).validate_json(answer.content)
    except (httpx.HTTPError, httpx.InvalidURL, ValidationError, ValueError, LookupError, TypeError):
        return None
