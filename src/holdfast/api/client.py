"""A client of a running server's HTTP API: `holdfast.Client`."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import httpx

from holdfast import jsontext
from holdfast.errors import InputError, RefusedError, StorageError

MAX_ROWS = 200  # that the API returns at once
TIMEOUT_SECONDS = 30.0
HEARTBEAT_TIMEOUT_SECONDS = 60.0  # between two signs of life of a stream
REFUSALS = (401, 403, 409, 429)  # who asks, or when, rather than what is asked

Json = dict[str, Any]


class Event(NamedTuple):
    """A server-sent event: `leaf`, `head` or `alerts`, with its data.

    A leaf has an `id`, its index in the log. The others have none.
    """

    name: str
    data: Json
    id: int | None


class Client:
    """The API of `holdfast serve`, read from anywhere.

    A server on this machine may need no token; `holdfast token create` makes one. Results are as
    docs/reference/openapi.json describes them, with times in milliseconds since 1970.

    >>> import holdfast
    >>> with holdfast.Client(url, token) as client:
    ...     fleet = client.fleet()
    ...     names = [holding["name"] for holding in client.holdings()]
    ...     failed = [audit["id"] for audit in client.audits(outcome="failed")]
    >>> fleet["holdings"] == len(names)
    True
    """

    def __init__(
        self, url: str, token: str | None = None, *, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        try:
            address = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise InputError(f"{url!r} is not the address of a server: {error}") from error
        if address.scheme not in {"http", "https"} or not address.host:
            raise InputError(
                f"{url!r} is not the address of a server: it must begin with http:// or https://"
            )
        if token is not None and not (token.isascii() and token.isprintable()):
            raise InputError("a token has only printable ASCII characters")
        self._http = httpx.Client(
            base_url=f"{url.rstrip('/')}/api/v1/",
            headers={} if token is None else {"authorization": f"Bearer {token}"},
            timeout=timeout_seconds,
            trust_env=False,
        )
        self._url = url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def fleet(self, *, days: int = 30) -> Json:
        """Return the fleet at a glance, with the totals of the last `days`.

        >>> client.fleet()["scenario"]
        'paper'
        """
        return self._get("fleet", {"days": days}, scenario=str)

    def holdings(
        self, *, health: str | None = None, search: str = "", sort: str = "health"
    ) -> Iterator[Json]:
        """Yield all holdings, the worst first; `sort` may be name, due, audited or blocks.

        >>> overdue = list(client.holdings(health="overdue"))
        """
        query = {"search": search, "sort": sort, "limit": MAX_ROWS}
        if health is not None:
            query["health"] = health
        page, pages = 1, 1
        while page <= pages:
            answer = self._get("holdings", query | {"page": page}, holdings=list, pages=int)
            yield from answer["holdings"]
            page, pages = page + 1, answer["pages"]

    def audits(
        self,
        *,
        holding: int | None = None,
        outcome: str | None = None,
        since: int | None = None,
        until: int | None = None,
    ) -> Iterator[Json]:
        """Yield audits, the newest first: all, of one holding's id, of an outcome, of a time.

        >>> newest = next(client.audits(), None)
        """
        given = {"holding": holding, "outcome": outcome, "since": since, "until": until}
        query: Json = {name: value for name, value in given.items() if value is not None}
        query["limit"] = MAX_ROWS
        while True:
            answer = self._get("audits", query, audits=list, next=str | None)
            yield from answer["audits"]
            if answer["next"] is None:
                return
            query["after"] = answer["next"]

    def events(self, *, after: int | None = None) -> Iterator[Event]:
        """Yield events as they happen, until you stop listening or the server ends.

        `after` is the id of the last event that you have seen: the stream resumes behind it.

        >>> first = next(client.events(after=0))
        >>> first.name, first.id
        ('leaf', 1)
        """
        headers = {} if after is None else {"last-event-id": str(after)}
        timeout = httpx.Timeout(self._http.timeout.connect, read=HEARTBEAT_TIMEOUT_SECONDS)
        with (
            self._errors(),
            self._http.stream("GET", "events", headers=headers, timeout=timeout) as answer,
        ):
            if not answer.is_success:
                answer.read()
            _check(answer)
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                raise self._foreign()
            yield from _parse_events(answer.iter_lines())

    def _get(self, path: str, query: Mapping[str, Any], **fields: Any) -> Json:
        """Return an answer that has these fields, each of its type."""
        with self._errors():
            answer = self._http.get(path, params=query)
        _check(answer)
        with self._errors():
            data = jsontext.loads(answer.text)
        missing = object()
        if not isinstance(data, dict) or not all(
            isinstance(data.get(name, missing), kind) for name, kind in fields.items()
        ):
            raise self._foreign()
        return data

    def _foreign(self) -> StorageError:
        return StorageError(f"{self._url} is not a Holdfast server of this version")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPError as error:
            raise StorageError(f"{self._url} can't be read: {error}") from error
        except ValueError as error:  # what it sent is no JSON
            raise self._foreign() from error


def _check(answer: httpx.Response) -> None:
    """Raise what the server says is wrong."""
    if answer.is_success:
        return
    try:
        sentence = str(answer.json()["error"]["message"])
    except (ValueError, LookupError, TypeError):
        sentence = f"{answer.request.url} answered with the status {answer.status_code}"
    if answer.is_server_error:
        raise StorageError(sentence)
    raise (RefusedError if answer.status_code in REFUSALS else InputError)(sentence)


def _parse_events(lines: Iterator[str]) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")  # a comment has no name
        elif "data" in fields:
            number = int(fields["id"]) if "id" in fields else None
            yield Event(fields.get("event", "message"), json.loads(fields["data"]), number)
            fields = {}
        else:
            fields = {}
