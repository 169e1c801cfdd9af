"""What every resource works with: the database to read, the one to change, settings and clock."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request
from sqlalchemy import Engine, Executable, Row

from holdfast.control.settings.models import ControlSettings
from holdfast.storage.database import transaction
from holdfast.web.errors import Code, WebRefusedError
from holdfast.web.services.baselines import Rules
from holdfast.web.services.daily_totals import Days
from holdfast.web.services.dial_sweep import Frontier
from holdfast.web.services.node_directory import Nodes
from holdfast.web.services.posterior import Beliefs
from holdfast.web.services.verdict_cache import Verdicts

MAX_STREAMS = 64  # of events, open at once
MAX_STREAMS_PER_CALLER = 8  # so that nobody takes them all


class Places:
    """How many may do something at once, in all and for one caller; one more is refused."""

    def __init__(self, count: int, per_caller: int | None = None) -> None:
        self._count, self._per_caller = count, per_caller or count
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()  # by caller

    @contextmanager
    def taken(self, caller: str = "") -> Iterator[None]:
        with self._lock:
            if self._taken.total() >= self._count:
                raise WebRefusedError(Code.BUSY, "too many are at it: try again in a minute")
            if self._taken[caller] >= self._per_caller:
                raise WebRefusedError(
                    Code.BUSY,
                    f"you have {self._per_caller} of these open already: close one of them first",
                )
            self._taken[caller] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[caller] -= 1
                self._taken += Counter()  # forgets who has none


@dataclass(frozen=True)
class Context:
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
    listeners: Places = field(default_factory=lambda: Places(MAX_STREAMS, MAX_STREAMS_PER_CALLER))
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


def desk_of(request: Request) -> Context:
    desk: Context = request.app.state.desk
    return desk


RequestContext = Annotated[Context, Depends(desk_of)]
