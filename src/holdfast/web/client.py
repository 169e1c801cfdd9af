"""The way of commands to a running server, whose address is in the home while it runs.

The address comes with a name that the server was given when it started and tells with every
answer, so that another program that has its port by now is not taken for it. Whatever the server
can't tell or may not do, a command looks up or does in the database itself.
"""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from holdfast import atomic
from holdfast.errors import InputError, StorageError

PLACE = "web.json"  # the file in the home that tells where its server is
INSTANCE = "holdfast-instance"  # the header of an answer with the server's name
USER = "holdfast-user"  # the header of a command, with who gave it
TIMEOUT = 2.0  # seconds, after which the database is asked instead
PATIENCE = 60.0  # seconds for an order, and between two signs of life of a stream
MAX_PLACE_BYTES = 1000
MISTAKES = (409, 429)  # not as things stand; whatever else is wrong, the database path tells

T = TypeVar("T")


@contextmanager
def announced(folder: Path, url: str) -> Iterator[str]:
    """Write down where a home's server is, while it runs; yield the name it is to answer by."""
    path, name = folder / PLACE, secrets.token_hex(8)
    atomic.write(path, json.dumps({"url": url, "instance": name}).encode(), mode=0o600)
    try:
        yield name
    finally:
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Server:
    url: str
    instance: str
    user: str = ""

    def read(self, kind: type[T], path: str, **query: Any) -> T | None:
        """Return what it tells; nothing if the database must be asked instead."""
        answer = self._answer("GET", path, TIMEOUT, params=query)
        try:
            return None if answer is None else TypeAdapter(kind).validate_json(answer.content)
        except ValidationError:  # of another version
            return None

    def order(self, path: str, **order: Any) -> dict[str, Any] | None:
        """Return what was done; nothing if it may not be ordered here, and nothing was done."""
        try:
            answer = self._answer("POST", path, PATIENCE, json=order)
        except httpx.ReadTimeout as error:
            raise StorageError(
                f"{self.url} has not answered: look whether it was done before you try again"
            ) from error
        return None if answer is None else dict(answer.json())

    @contextmanager
    def events(self, path: str) -> Iterator[Iterator[tuple[str, Any]] | None]:
        """Yield the events of a stream, each with its name; nothing if there is none."""
        try:
            with httpx.stream("GET", self._at(path), timeout=PATIENCE, trust_env=False) as answer:
                if answer.status_code in MISTAKES:
                    raise InputError(_message(answer.read()))
                ours = answer.is_success and answer.headers.get(INSTANCE) == self.instance
                yield _events(answer) if ours else None
        except httpx.HTTPError as error:
            raise StorageError(f"{self.url} has broken off: {error}") from error

    def _answer(self, method: str, path: str, timeout: float, **more: Any) -> httpx.Response | None:
        headers = {USER: self.user} if self.user else {}
        limits = httpx.Timeout(timeout, connect=TIMEOUT)
        try:
            answer = httpx.request(
                method, self._at(path), headers=headers, timeout=limits, trust_env=False, **more
            )
        except httpx.ReadTimeout:
            if method != "GET":
                raise
            return None
        except (httpx.HTTPError, httpx.InvalidURL):
            return None
        if answer.headers.get(INSTANCE) != self.instance:
            return None
        if answer.status_code in MISTAKES:
            raise InputError(_message(answer.content))
        return answer if answer.is_success else None

    def _at(self, path: str) -> str:
        return f"{self.url}/api/v1/{path}"


def running(folder: Path, user: str = "") -> Server | None:
    """Return the home's server, if it runs and is the one that was announced."""
    path = folder / PLACE
    if not path.exists():
        return None
    try:
        place = json.loads(atomic.read(path, at_most=MAX_PLACE_BYTES))
        server = Server(str(place["url"]), str(place["instance"]), user)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    # Asked before any order is given: by its answer it would be too late.
    return None if server.read(dict, "status", limit=1) is None else server


def _events(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in answer.iter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return "the server has refused this"
