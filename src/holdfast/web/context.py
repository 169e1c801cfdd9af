"""What every request works with: the database, the settings, the clock, and shared services."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy import Connection, Engine

from holdfast.control.queries.holdings import AsOf
from holdfast.control.settings.models import ControlSettings
from holdfast.slots import Slots
from holdfast.storage.database import transaction
from holdfast.web.services.baselines import Baselines
from holdfast.web.services.champion import ChampionLookup
from holdfast.web.services.daily_totals import DailyTotals
from holdfast.web.services.dial_sweep import DialSweep
from holdfast.web.services.posterior import Posteriors
from holdfast.web.services.verdict_cache import VerdictCache

MAX_STREAMS = 64  # of events, open at once
MAX_STREAMS_PER_CALLER = 8  # so that nobody takes them all


@dataclass(frozen=True)
class Context:
    folder: Path
    settings: ControlSettings
    reader: Engine
    writer: Engine
    clock: Callable[[], int]
    daily_totals: DailyTotals
    champion: ChampionLookup
    baselines: Baselines
    dial_sweep: DialSweep
    posteriors: Posteriors
    is_closing: Callable[[], bool] = lambda: False
    event_slots: Slots = field(default_factory=lambda: Slots(MAX_STREAMS, MAX_STREAMS_PER_CALLER))
    verification_slots: Slots = field(default_factory=lambda: Slots(1))
    promotion_slots: Slots = field(default_factory=lambda: Slots(1))
    verdicts: VerdictCache = field(default_factory=VerdictCache)

    def read(self) -> AbstractContextManager[Connection]:
        """Begin a transaction that reads: all figures in it are of one moment."""
        return transaction(self.reader)

    @property
    def address(self) -> str:
        return self.settings.address(self.folder)

    @property
    def grace(self) -> int:
        """Milliseconds by which an audit may be late before it is overdue."""
        return self.settings.alerts.overdue

    def as_of_now(self) -> AsOf:
        return AsOf(self.clock(), self.grace)


def context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


RequestContext = Annotated[Context, Depends(context_of)]
