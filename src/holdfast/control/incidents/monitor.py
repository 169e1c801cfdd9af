"""The watch over a service: it tells from what happens to it which alerts to raise and to end.

What goes wrong with the database is remembered, and told when it is back.
"""

import errno
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import structlog
from sqlalchemy.exc import DBAPIError

from holdfast.control.audits.contacts import Record
from holdfast.control.incidents.alerts import Alerts, Kind, Sink
from holdfast.control.scheduling.guardrails import HOUR, MINUTE
from holdfast.control.scheduling.schedule import Lag
from holdfast.control.scheduling.telemetry import TEACHING, Outcome
from holdfast.control.scheduling.worker import Tick
from holdfast.errors import HoldfastError, LedgerError, StorageError

STEP = MINUTE  # by which wall clock and monotonic clock may part between two looks
# These tell of something that happened, not of something that lasts.
PASSING = frozenset({Kind.DATABASE, Kind.DISK, Kind.CLOCK, Kind.CHAIN})
LINGER = HOUR  # so long after it was last met
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
log = structlog.get_logger()


@dataclass(frozen=True)
class Clocks:
    """The time of day, and one that nobody sets; both in milliseconds."""

    wall: Callable[[], int]
    steady: Callable[[], int]


class Monitor:
    """Keeps watch over one worker; `host` names the machine in what concerns it alone."""

    def __init__(
        self, alerts: Alerts, sink: Sink | None, clocks: Clocks, host: str, overdue: int
    ) -> None:
        self._alerts, self._sink, self._clocks = alerts, sink, clocks
        self._host, self._overdue = host, overdue
        self._waiting: dict[tuple[str, str], str] = {}  # what is to be raised, with its detail
        self._over: set[tuple[str, str]] = set()
        self._apart = clocks.wall() - clocks.steady()
        self._reorganised: int | None = None

    def failed(self, error: Exception) -> None:
        """Tell of an error that keeps the work from going on."""
        self._note(error)
        try:
            self._flush()
            self._deliver()
        except StorageError as trouble:
            self._note(trouble)

    def saw(self, tick: Tick) -> None:
        """Note what a tick tells of clock, ledger, nodes and shadows."""
        self._look_at_clock()
        self._look_at_ledger(tick)
        self._look_at_nodes(tick)
        if tick.shadow_trouble:
            self._tell(Kind.SHADOW, _SUBJECTS[Kind.SHADOW], tick.shadow_trouble[0])
        elif tick.decided or tick.concluded:
            self._end(Kind.SHADOW, _SUBJECTS[Kind.SHADOW])

    def went_well(self) -> None:
        """Raise what was noted, end what is over, and deliver what is to be told."""
        self._end(Kind.STANDSTILL, self._host)
        self._flush()
        self._close()
        self._deliver()

    def anchored(self) -> None:
        self._end(Kind.LEDGER, _SUBJECTS[Kind.LEDGER])

    def lagging(self, lag: Lag) -> None:
        if lag.longest > self._overdue:
            late = f"{lag.overdue} audits are overdue, the first by {lag.longest // MINUTE} minutes"
            self._tell(Kind.OVERDUE, _SUBJECTS[Kind.OVERDUE], late)
        else:
            self._end(Kind.OVERDUE, _SUBJECTS[Kind.OVERDUE])

    def evading(self, records: Mapping[bytes, Record]) -> None:
        """Raise alerts about nodes that are away far more often when they are challenged."""
        known = {f"0x{address.hex()}": record for address, record in records.items()}
        for node, record in known.items():
            if record.blamed:
                self._tell(Kind.EVASION, node, str(record))
        for alert in self._alerts.listing():
            if alert.kind == Kind.EVASION and known.get(alert.subject, Record()).cleared:
                self._end(Kind.EVASION, alert.subject)

    def settings(self, check: Callable[[], None]) -> None:
        """Tell if the settings can't be used any more: the next start would fail."""
        try:
            check()
        except HoldfastError as error:
            self._tell(Kind.SETTINGS, _SUBJECTS[Kind.SETTINGS], str(error))
        else:
            self._end(Kind.SETTINGS, _SUBJECTS[Kind.SETTINGS])

    def unusable(self, reason: str) -> None:
        """Tell at once that these settings can't be started with."""
        self._tell(Kind.SETTINGS, _SUBJECTS[Kind.SETTINGS], reason)
        self._flush()
        self._deliver()

    def retrained(self, trouble: str) -> None:
        """Hear that a retraining has ended, and what went wrong with it."""
        if trouble:
            self._tell(Kind.RETRAINING, self._host, trouble)
        else:
            self._end(Kind.RETRAINING, self._host)

    def reorganisations(self, count: int) -> None:
        """Hear how many the ledger has counted; what it counted before us, others have told."""
        if self._reorganised is not None and count > self._reorganised:
            what = f"{count - self._reorganised} of our transactions were moved or dropped"
            self._tell(Kind.CHAIN, _SUBJECTS[Kind.CHAIN], f"{what}; they are sent again")
        self._reorganised = count

    def _look_at_clock(self) -> None:
        apart = self._clocks.wall() - self._clocks.steady()
        step, self._apart = apart - self._apart, apart
        if abs(step) > STEP:
            way = "forward" if step > 0 else "back"
            self._tell(Kind.CLOCK, self._host, f"it was set {way} by {abs(step) // 1000} seconds")

    def _look_at_ledger(self, tick: Tick) -> None:
        if tick.trouble:
            self._tell(Kind.LEDGER, _SUBJECTS[Kind.LEDGER], tick.trouble[0])
        elif any(result.verdict is not None for result in tick.concluded):
            self._end(Kind.LEDGER, _SUBJECTS[Kind.LEDGER])

    def _look_at_nodes(self, tick: Tick) -> None:
        for result in tick.concluded:
            node = f"0x{result.holding.node.hex()}"
            if result.outcome is Outcome.OFFLINE:
                self._tell(Kind.NODE, node, result.reason)
            elif result.outcome in TEACHING:
                self._end(Kind.NODE, node)

    def _note(self, error: Exception) -> None:
        kind = kind_of(error)
        self._tell(kind, _SUBJECTS.get(kind, self._host), str(error))

    def _tell(self, kind: Kind, subject: str, detail: str) -> None:
        self._over.discard((kind, subject))
        self._waiting.setdefault((kind, subject), detail)

    def _flush(self) -> None:
        while self._waiting:
            (kind, subject), detail = next(iter(self._waiting.items()))
            if self._alerts.begin(kind, subject, detail):
                log.warning("alert", kind=kind, subject=subject, detail=detail)
            del self._waiting[kind, subject]

    def _end(self, kind: Kind, subject: str) -> None:
        self._waiting.pop((kind, subject), None)
        self._over.add((kind, subject))

    def _close(self) -> None:
        """End what is over, whoever raised it."""
        lapsed = self._clocks.wall() - LINGER
        for alert in self._alerts.listing():
            passed = alert.kind in PASSING and alert.seen <= lapsed
            if passed or (alert.kind, alert.subject) in self._over:
                self._alerts.end(alert.kind, alert.subject)
                log.info("alert ended", kind=alert.kind, subject=alert.subject)
        self._over.clear()

    def _deliver(self) -> None:
        if self._sink is not None:
            self._alerts.deliver(self._sink)


_SUBJECTS = {
    Kind.LEDGER: "ledger",
    Kind.CHAIN: "ledger",
    Kind.DATABASE: "database",
    Kind.OVERDUE: "schedule",
    Kind.SETTINGS: "holdfast.toml",
    Kind.SHADOW: "policies",
}


def kind_of(error: Exception) -> Kind:
    """Return what an error that kept the work from going on is about."""
    causes = list(_causes(error))
    if any(_full(each) for each in causes):
        return Kind.DISK
    if isinstance(error, LedgerError):
        return Kind.LEDGER
    if any(_of_database(each) for each in causes):
        return Kind.DATABASE
    return Kind.STANDSTILL


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, DBAPIError) and error.orig is not None:
            yield error.orig
        error = error.__cause__


def _of_database(error: BaseException) -> bool:
    # By the last, errors of PostgreSQL's driver are known, which need not be installed.
    return isinstance(error, (DBAPIError, sqlite3.Error)) or hasattr(error, "sqlstate")


def _full(error: BaseException) -> bool:
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    if isinstance(error, OSError):
        return error.errno in FULL
    return getattr(error, "sqlstate", None) == "53100"  # PostgreSQL's disk_full
