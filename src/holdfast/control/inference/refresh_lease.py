"""The lease that lets one process of a home refresh confidences at a time, on any of its hosts.

A process that is killed holds it until it ends, and then another one takes over.
"""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from holdfast.storage.database import transaction
from holdfast.storage.inference_schema import fleet_confidence

LEASE_SECONDS = 60.0
_ROW = 1
_EMPTY = {
    **dict.fromkeys(("basis", "fit", "holder"), ""),
    **dict.fromkeys(("miss_rate", "miss_rate_low", "miss_rate_high", "at_most"), 0.0),
    "detections": 0,
}

Renew = Callable[[], None]


class RefreshLease:
    def __init__(self, engine: Engine) -> None:
        self._engine, self._holder = engine, secrets.token_hex(8)

    @contextmanager
    def hold(self, now: int) -> Iterator[Renew | None]:
        """Hold the lease while the context lasts. Yield what renews it; None if another has it."""
        self._create()
        if not self._take(now):
            yield None
            return
        start = renewed = time.monotonic()

        def renew() -> None:
            nonlocal renewed
            if time.monotonic() - renewed > LEASE_SECONDS / 3:
                renewed = time.monotonic()
                self._take(now + int(1000 * (renewed - start)))

        try:
            yield renew
        finally:
            self._release()

    def _create(self) -> None:
        with transaction(self._engine) as connection:
            if connection.execute(select(fleet_confidence.c.id)).first():
                return
        try:
            with transaction(self._engine) as connection:
                connection.execute(insert(fleet_confidence).values(id=_ROW, **_EMPTY))
        except IntegrityError:
            return  # another process was faster

    def _take(self, now: int) -> bool:
        duration, lease = int(1000 * LEASE_SECONDS), fleet_confidence.c.lease
        free = or_(
            fleet_confidence.c.holder.in_(["", self._holder]),
            lease <= now,
            lease > now + duration,  # by a clock that was set back since
        )
        taken = update(fleet_confidence).where(free)
        with transaction(self._engine) as connection:
            row = connection.execute(taken.values(holder=self._holder, lease=now + duration))
            return row.rowcount == 1

    def _release(self) -> None:
        ours = fleet_confidence.c.holder == self._holder
        with transaction(self._engine) as connection:
            connection.execute(update(fleet_confidence).where(ours).values(holder="", lease=0))
