"""What every resource works with: the database to read, the one to change, settings and clock."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request
from sqlalchemy import Engine, Executable, Row

from holdfast.control.database import transaction
from holdfast.control.settings import ControlSettings
from holdfast.web.beliefs import Beliefs
from holdfast.web.days import Days
from holdfast.web.frontier import Frontier
from holdfast.web.nodes import Nodes
from holdfast.web.refusal import Code, WebRefusedError
from holdfast.web.rules import Rules
from holdfast.web.verdicts import Verdicts

MOST_STREAMS = 32  # listeners to events, and as many pages that verify or download


class Places:
    """How many may do something at once; one more is told to come back."""

    def __init__(self, count: int) -> None:
        self._free = threading.Semaphore(count)

    @contextmanager
    def taken(self) -> Iterator[None]:
        if not self._free.acquire(blocking=False):
            raise WebRefusedError(Code.BUSY, "too many are at it: try again in a minute")
        try:
            yield
        finally:
            self._free.release()


@dataclass(frozen=True)
class Desk:
    folder: Path
    settings: ControlSettings
    reader: Engine
    writer: Engine
    clock: Callable[[], int]
    nodes: Nodes
    days: Days
    rules: Rules
    frontier: Frontier
    beliefs: Beliefs
    closing: Callable[[], bool] = lambda: False
    listeners: Places = field(default_factory=lambda: Places(MOST_STREAMS))
    verifiers: Places = field(default_factory=lambda: Places(1))
    judges: Places = field(default_factory=lambda: Places(1))
    inferring: Places = field(default_factory=lambda: Places(1))
    verdicts: Verdicts = field(default_factory=Verdicts)

    def rows(self, query: Executable) -> list[Row[Any]]:
        with transaction(self.reader) as connection:
            return list(connection.execute(query).all())

    def row(self, query: Executable) -> Row[Any] | None:
        with transaction(self.reader) as connection:
            return connection.execute(query).first()


def values_of(kind: Any, row: Row[Any]) -> dict[str, Any]:
    """Return what a row has for the fields of a dataclass."""
    return {name: getattr(row, name) for name in kind.__dataclass_fields__}


def desk_of(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


AtDesk = Annotated[Desk, Depends(desk_of)]
