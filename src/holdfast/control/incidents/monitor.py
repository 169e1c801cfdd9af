"""Monitors a service: raises and ends alerts by what happens to it.

Trouble with the database is remembered, and reported when the database is back.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy.exc import DBAPIError

from holdfast.atomic import is_disk_full
from holdfast.control.audits.contacts import Record
from holdfast.control.audits.types import AuditResult, CheckDetail, ProofDetail
from holdfast.control.incidents.alerts import Alerts, Kind, Sink
from holdfast.control.queries.absences import Absence
from holdfast.control.queries.coverage import Coverage
from holdfast.control.scheduling.claims import Lag
from holdfast.control.scheduling.telemetry import TEACHING
from holdfast.control.scheduling.worker import Tick
from holdfast.control.settings.models import AlertSettings
from holdfast.durations import HOUR, MINUTE
from holdfast.errors import HoldfastError, LedgerError, StorageError
from holdfast.evidence.leaf import Outcome
from holdfast.words import plural, span

MAX_CLOCK_STEP = MINUTE  # by which wall clock and monotonic clock may part between two checks
# These report something that happened, not something that lasts.
PASSING = frozenset({Kind.DATABASE, Kind.DISK, Kind.CLOCK, Kind.CHAIN})
PASSING_LASTS = HOUR  # after it was last seen
log = structlog.get_logger()


@dataclass(frozen=True)
class Clocks:
    """The time of day, and one that nobody sets; both in milliseconds."""

    wall: Callable[[], int]
    steady: Callable[[], int]


class Monitor:
    """Monitors one worker; `host` names the machine in alerts that concern it alone."""

    def __init__(
        self,
        alerts: Alerts,
        sink: Sink | None,
        clocks: Clocks,
        host: str,
        settings: AlertSettings,
    ) -> None:
        self._alerts, self._sink, self._clocks = alerts, sink, clocks
        self._host, self._settings = host, settings
        self._to_raise: dict[tuple[str, str], str] = {}  # kind and subject, with the detail
        self._to_end: set[tuple[str, str]] = set()
        self._apart = clocks.wall() - clocks.steady()
        self._reorganised: int | None = None

    def on_error(self, error: Exception) -> None:
        """Raise an alert for an error that stops the work."""
        self._note(error)
        try:
            self._flush()
            self._deliver()
        except StorageError as trouble:
            self._note(trouble)

    def on_tick(self, tick: Tick) -> None:
        """Note what a tick says about clock, ledger, nodes and shadows."""
        self._check_clock()
        self._check_ledger(tick)
        self._check_nodes(tick)
        if tick.shadow_trouble:
            self._raise(Kind.SHADOW, _SUBJECTS[Kind.SHADOW], tick.shadow_trouble[0])
        elif tick.decided or tick.concluded:
            self._end(Kind.SHADOW, _SUBJECTS[Kind.SHADOW])

    def on_success(self) -> None:
        """Raise and end the alerts that were noted, and deliver them."""
        self._end(Kind.STANDSTILL, self._host)
        self._flush()
        self._close()
        self._deliver()

    def on_anchor(self) -> None:
        self._end(Kind.LEDGER, _SUBJECTS[Kind.LEDGER])

    def check_lag(self, lag: Lag) -> None:
        if lag.longest > self._settings.overdue:
            overdue = plural(lag.overdue, "audit is", "audits are")
            detail = f"{overdue} overdue, the first by {span(lag.longest)}"
            self._raise(Kind.OVERDUE, _SUBJECTS[Kind.OVERDUE], detail)
        else:
            self._end(Kind.OVERDUE, _SUBJECTS[Kind.OVERDUE])

    def check_absences(self, absences: Sequence[Absence], present: Collection[bytes]) -> None:
        """Raise alerts about nodes that have been away for too long; end those about the rest."""
        now = self._clocks.wall()
        for absence in absences:
            away = now - absence.since
            if away > self._settings.offline:
                stored = ", ".join(absence.holdings)
                detail = f"it has not been reached for {span(away)}; it stores {stored}"
                self._raise(Kind.NODE, f"0x{absence.node.hex()}", detail)
        back = {f"0x{node.hex()}" for node in present}
        for alert in self._alerts.listing():
            if alert.kind == Kind.NODE and alert.subject in back:
                self._end(Kind.NODE, alert.subject)

    def check_evasion(self, records: Mapping[bytes, Record]) -> None:
        """Raise alerts about nodes that are away far more often when they are challenged."""
        known = {f"0x{address.hex()}": record for address, record in records.items()}
        for node, record in known.items():
            if record.blamed:
                self._raise(Kind.EVASION, node, str(record))
        for alert in self._alerts.listing():
            if alert.kind == Kind.EVASION and known.get(alert.subject, Record()).cleared:
                self._end(Kind.EVASION, alert.subject)

    def check_coverage(self, coverage: Sequence[Coverage]) -> None:
        """Raise alerts about units that were not verified within the time that was set."""
        behind = {one.holding: one for one in coverage if one.behind}
        for name, one in behind.items():
            promised, oldest = span(one.verify_within or 0), span(one.oldest or 0)
            detail = f"a {one.unit} was not verified for {oldest}, and {promised} are set"
            self._raise(Kind.COVERAGE, name, detail)
        for alert in self._alerts.listing():
            if alert.kind == Kind.COVERAGE and alert.subject not in behind:
                self._end(Kind.COVERAGE, alert.subject)

    def check_settings(self, check: Callable[[], None]) -> None:
        """Raise an alert if the settings have become unusable: the next start would fail."""
        try:
            check()
        except HoldfastError as error:
            self._raise(Kind.SETTINGS, _SUBJECTS[Kind.SETTINGS], str(error))
        else:
            self._end(Kind.SETTINGS, _SUBJECTS[Kind.SETTINGS])

    def on_unusable_settings(self, reason: str) -> None:
        """Raise an alert at once: the service can't start with these settings."""
        self._raise(Kind.SETTINGS, _SUBJECTS[Kind.SETTINGS], reason)
        self._flush()
        self._deliver()

    def on_retraining(self, trouble: str) -> None:
        """Note that a retraining has ended, and what went wrong with it."""
        if trouble:
            self._raise(Kind.RETRAINING, self._host, trouble)
        else:
            self._end(Kind.RETRAINING, self._host)

    def check_reorganisations(self, count: int) -> None:
        """Compare the ledger's count of reorganisations with the last one."""
        if self._reorganised is not None and count > self._reorganised:
            detail = f"{count - self._reorganised} of our transactions were moved or dropped"
            self._raise(Kind.CHAIN, _SUBJECTS[Kind.CHAIN], f"{detail}; they are sent again")
        self._reorganised = count

    def _check_clock(self) -> None:
        apart = self._clocks.wall() - self._clocks.steady()
        step, self._apart = apart - self._apart, apart
        if abs(step) > MAX_CLOCK_STEP:
            way = "forward" if step > 0 else "back"
            self._raise(Kind.CLOCK, self._host, f"it was set {way} by {abs(step) // 1000} seconds")

    def _check_ledger(self, tick: Tick) -> None:
        if tick.trouble:
            self._raise(Kind.LEDGER, _SUBJECTS[Kind.LEDGER], tick.trouble[0])
            return
        proofs = (result.detail for result in tick.concluded)
        if any(isinstance(proof, ProofDetail) and proof.verdict is not None for proof in proofs):
            self._end(Kind.LEDGER, _SUBJECTS[Kind.LEDGER])

    def _check_nodes(self, tick: Tick) -> None:
        for result in tick.concluded:
            if isinstance(result.detail, CheckDetail):
                self._check_storage(result)
                continue
            node = f"0x{result.detail.holding.node.hex()}"
            if result.outcome is Outcome.OFFLINE:
                self._raise(Kind.NODE, node, result.reason)
            elif result.outcome in TEACHING:
                self._end(Kind.NODE, node)

    def _check_storage(self, result: AuditResult) -> None:
        """Raise an alert if storage can't be checked, whatever the reason: nobody knows then."""
        if result.outcome in TEACHING:
            self._end(Kind.STORAGE, result.name)
        else:
            self._raise(Kind.STORAGE, result.name, f"{result.outcome}: {result.reason}")

    def _note(self, error: Exception) -> None:
        kind = kind_of(error)
        self._raise(kind, _SUBJECTS.get(kind, self._host), str(error))

    def _raise(self, kind: Kind, subject: str, detail: str) -> None:
        self._to_end.discard((kind, subject))
        self._to_raise.setdefault((kind, subject), detail)

    def _flush(self) -> None:
        while self._to_raise:
            (kind, subject), detail = next(iter(self._to_raise.items()))
            if self._alerts.raise_alert(kind, subject, detail):
                log.warning("alert", kind=kind, subject=subject, detail=detail)
            del self._to_raise[kind, subject]

    def _end(self, kind: Kind, subject: str) -> None:
        self._to_raise.pop((kind, subject), None)
        self._to_end.add((kind, subject))

    def _close(self) -> None:
        """End the alerts whose cause is gone, whichever worker raised them."""
        lapsed = self._clocks.wall() - PASSING_LASTS
        for alert in self._alerts.listing():
            passed = alert.kind in PASSING and alert.seen <= lapsed
            if passed or (alert.kind, alert.subject) in self._to_end:
                self._alerts.end(alert.kind, alert.subject)
                log.info("alert ended", kind=alert.kind, subject=alert.subject)
        self._to_end.clear()

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
    """Return the kind of alert for an error that stops the work."""
    causes = list(_causes(error))
    if any(map(_is_full, causes)):
        return Kind.DISK
    if isinstance(error, LedgerError):
        return Kind.LEDGER
    if any(map(_is_database_error, causes)):
        return Kind.DATABASE
    return Kind.STANDSTILL


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, DBAPIError) and error.orig is not None:
            yield error.orig
        error = error.__cause__


def _is_database_error(error: BaseException) -> bool:
    # The attribute marks errors of PostgreSQL's driver, which need not be installed.
    return isinstance(error, (DBAPIError, sqlite3.Error)) or hasattr(error, "sqlstate")


def _is_full(error: BaseException) -> bool:
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    if isinstance(error, OSError):
        return is_disk_full(error)
    return getattr(error, "sqlstate", None) == "53100"  # PostgreSQL's disk_full
