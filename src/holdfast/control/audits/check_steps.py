"""The steps of a check: list what there is, draw a sample, watch the checker, look again at damage.

A step takes as long as the storage lets it, so each runs in a thread of its own. What is known is
saved between two steps.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event
from typing import NamedTuple

import structlog
from sqlalchemy import Connection, Engine

from holdfast.checkers import codec
from holdfast.checkers.interface import Checker, Extent, Finding, Report, Running, Sample
from holdfast.checkers.report_check import validate_extent, validate_report
from holdfast.control.audits.check_outcome import (
    Verdict,
    damaged_groups,
    describe_first,
    judge_first,
    judge_second,
    make_result,
)
from holdfast.control.audits.checked_fleet import CheckedFleet
from holdfast.control.audits.pending_check import PendingCheck, Phase
from holdfast.control.audits.types import AuditResult, Deferred
from holdfast.control.queries.reports import last_report
from holdfast.control.scheduling import coverage
from holdfast.control.scheduling.claims import Claim
from holdfast.control.scheduling.coverage import Draw, Promise, Wanted
from holdfast.control.scheduling.guardrails import Override, Rails
from holdfast.control.settings.models import CheckSettings, Timeouts
from holdfast.durations import MINUTE, SECOND
from holdfast.errors import HoldfastError, InputError, UnreachableError
from holdfast.evidence.codecs import plain
from holdfast.evidence.escaping import hash_names
from holdfast.evidence.leaf import Outcome
from holdfast.model.detection import samples
from holdfast.owner.checked import CheckedRecord, Slots, free_slot, save_extent, take_slot
from holdfast.storage.database import transaction

WATCH = 30 * SECOND  # how long a step waits for a report; then the check goes on by itself
FIRST_POLL_SECONDS, LONGEST_POLL_SECONDS = 0.02, 0.5
POLL_SHARE = 1 / 50  # of the time that a check has taken: by so much its end is noticed late
LONGEST_PAUSE = MINUTE  # between two looks at a check
SLOT_TIME = 5 * MINUTE  # for which a check that nobody looks at counts as running
STALL_TIME = 5 * MINUTE  # without progress, after which a check keeps no other one waiting
SLOT_PAUSE = 5 * SECOND  # until a check that waits for others is tried again
GRACE = 10 * MINUTE  # beyond the deadline, for a checker to end its check by itself
LATE = "the check did not end in time"
log = structlog.get_logger()


class _AwayError(Exception):
    """The storage can't be reached."""


class _UnusableError(Exception):
    """The checker can't do its work."""


@dataclass(frozen=True)
class CheckLimits:
    """How long checks may take, how large they may be, and how often they come."""

    settings: CheckSettings
    patience: Timeouts
    rails: Rails
    sample_cap: int


class _Subject(NamedTuple):
    """What is checked: a claim, and the holding's record as it is now."""

    claim: Claim
    record: CheckedRecord


class CheckSteps:
    """Takes one step of one check at a time, in any number of threads."""

    def __init__(
        self, fleet: CheckedFleet, engine: Engine, limits: CheckLimits, clock: Callable[[], int]
    ) -> None:
        self._fleet, self._engine = fleet, engine
        self._limits, self._clock = limits, clock

    def take(self, claim: Claim, pending: PendingCheck, stopping: Event) -> AuditResult | Deferred:
        """Take the next step; it returns early once `stopping` is set."""
        record = self._fleet.find(claim.name)
        if record is None:  # it was removed, and the claim with it
            return Deferred(self._clock(), pending)
        subject = _Subject(claim, record)
        try:
            with _checker_errors(record.kind):
                checker = self._fleet.open(record)
            if pending.old_job:
                self._delete(record, pending.old_job)
                pending = replace(pending, old_job=b"")
            if pending.phase is Phase.LISTING:
                return self._list(subject, checker, pending)
            if not pending.job:
                return self._look_again(subject, checker, pending)
            return self._watch(subject, checker, pending, stopping)
        except _AwayError as error:
            return self._retry(subject, pending, str(error))
        except _UnusableError as error:
            return self._end(subject, pending, (Outcome.UNKNOWN, str(error)))

    def retry(self, claim: Claim, pending: PendingCheck, reason: str) -> AuditResult | Deferred:
        """Return when a step that did not end is tried again, or its end if it was tried enough."""
        record = self._fleet.find(claim.name)
        if record is None:
            return Deferred(self._clock(), pending)
        return self._retry(_Subject(claim, record), pending, reason)

    def delete_jobs(self, name: str, jobs: Sequence[bytes]) -> None:
        """Delete what checks left behind."""
        record = self._fleet.find(name)
        for job in jobs:
            if record is not None:
                self._delete(record, job)

    def _delete(self, record: CheckedRecord, job: bytes) -> None:
        try:
            with _checker_errors(record.kind):
                self._fleet.open(record).cancel(job)
        except (_AwayError, _UnusableError) as error:
            log.warning("a check left files behind", holding=record.name, reason=str(error))

    def _list(
        self, subject: _Subject, checker: Checker, pending: PendingCheck
    ) -> AuditResult | Deferred:
        """See what there is, and draw the sample."""
        claim, kind = subject.claim, subject.record.kind
        with _checker_errors(kind):
            extent = validate_extent(checker.extent())
        now = self._clock()
        with transaction(self._engine) as connection:
            save_extent(connection, claim.id, extent)
            coverage.save_groups(connection, claim.id, extent, now)
            drawn = self._draw(connection, subject, extent, now)
        if not drawn.units:
            return self._end(subject, pending, (Outcome.UNKNOWN, "there is nothing to check"))
        groups = drawn.groups
        if groups:
            groups = tuple(sorted({*groups, *extent.vanished[: self._limits.sample_cap]}))
        units = drawn.units + len(groups) - len(drawn.groups)
        deadline = now + self._limits.settings.deadline
        with _checker_errors(kind):
            job = checker.start(Sample(pending.seed, units, groups, deadline))
        begun = replace(
            pending,
            phase=Phase.FIRST_LOOK,
            units=extent.units + len({*extent.vanished} - {group.name for group in extent.groups}),
            unit=extent.unit,
            tool=extent.tool,
            drawn=units,
            sample=hash_names(groups),
            overrides=drawn.overrides,
            began=now,
            deadline=deadline,
            job=job,
        )
        return Deferred(now, begun)

    def _draw(self, connection: Connection, subject: _Subject, extent: Extent, now: int) -> Draw:
        claim, cap = subject.claim, self._limits.sample_cap
        if claim.overrides & Override.FOLLOW_UP:
            report = last_report(connection, claim.id)
            groups = damaged_groups(report) if report else ()
            if groups:
                return Draw(groups, len(groups))
        units = max(extent.units, 1)
        is_asked = claim.overrides & Override.ASKED  # and an operator's word is above a budget
        wanted = Wanted(
            units=int(samples(claim.ratio, units, units)),
            cap=min(cap, subject.record.carries or cap),
            cautious=subject.record.carries is not None,
            daily_bytes=None if is_asked else self._limits.settings.daily_bytes,
            promise=self._promise(claim.verify_within, now),
        )
        return coverage.draw(connection, claim.id, wanted, now)

    def _promise(self, within: int, now: int) -> Promise | None:
        if not within:
            return None
        return Promise.of(self._limits.rails, within, now, self._limits.settings.deadline)

    def _watch(
        self, subject: _Subject, checker: Checker, pending: PendingCheck, stopping: Event
    ) -> AuditResult | Deferred:
        """Begin or resume the look that is under way, and see how it ends."""
        now = self._clock()
        slots = Slots(self._limits.settings.at_once, now, now + SLOT_TIME)
        stalled = bool(pending.moved) and now - pending.moved >= STALL_TIME
        with transaction(self._engine) as connection:
            if not take_slot(connection, subject.claim.id, slots, stalled=stalled):
                return Deferred(now + SLOT_PAUSE, pending)
        with _checker_errors(subject.record.kind):
            report = _poll(checker, pending.job, stopping)
        if isinstance(report, Running):
            if not pending.moved or report.done != pending.done:
                pending = replace(pending, moved=self._clock(), done=report.done)
            return self._wait(subject, pending)
        if report.finding is Finding.UNREACHABLE and not report.verified:
            return self._retry(subject, _begin_again(pending), report.reason)
        first = pending.first
        verdict = judge_first(report) if first is None else judge_second(first, report)
        if verdict is not None:
            return self._end(subject, pending, verdict, report)
        found = replace(pending, first=report, troubled=0, tries=0)
        return Deferred(self._clock(), _begin_again(found))

    def _wait(self, subject: _Subject, pending: PendingCheck) -> AuditResult | Deferred:
        """Return when the check that is under way is looked at again."""
        now = self._clock()
        if now > pending.deadline + GRACE:
            return self._end(subject, pending, (Outcome.UNKNOWN, LATE))
        pause = min(max(round((now - pending.began) * POLL_SHARE), 1), LONGEST_PAUSE)
        return Deferred(now + pause, pending)

    def _look_again(self, subject: _Subject, checker: Checker, pending: PendingCheck) -> Deferred:
        """Have what is called damaged checked once more."""
        groups = damaged_groups(pending.first) if pending.first else ()
        now = self._clock()
        deadline = now + self._limits.settings.deadline
        sample = Sample(pending.seed, len(groups) or pending.drawn, groups, deadline)
        with _checker_errors(subject.record.kind):
            job = checker.start(sample)
        return Deferred(now, replace(pending, deadline=deadline, job=job))

    def _retry(
        self, subject: _Subject, pending: PendingCheck, reason: str
    ) -> AuditResult | Deferred:
        with transaction(self._engine) as connection:
            free_slot(connection, subject.claim.id)
        now, patience = self._clock(), self._limits.patience
        since = pending.troubled or now
        if now - since >= patience.deadline:
            return self._end(subject, pending, (Outcome.OFFLINE, reason))
        pause = min(patience.first_pause << min(pending.tries, 20), patience.longest_pause)
        waiting = replace(pending, troubled=since, tries=pending.tries + 1, reason=plain(reason))
        return Deferred(min(now + pause, since + patience.deadline), waiting)

    def _end(
        self,
        subject: _Subject,
        pending: PendingCheck,
        verdict: Verdict,
        report: Report | None = None,
    ) -> AuditResult:
        outcome, reason = verdict
        if pending.first is not None and report is None:  # there was no second look
            outcome, reason = Outcome.UNKNOWN, f"{describe_first(pending.first)}: {reason}"
        return make_result(
            *subject,
            pending,
            (outcome, reason),
            report=report,
            now=self._clock(),
            allowance=self._limits.settings.deadline,
        )


def _begin_again(pending: PendingCheck) -> PendingCheck:
    """Return the check with another look to come: a new first one, or one at the damage."""
    phase = Phase.LISTING if pending.first is None else Phase.SECOND_LOOK
    return replace(pending, phase=phase, job=b"", old_job=pending.job, moved=0, done=0)


def _poll(checker: Checker, job: bytes, stopping: Event) -> Report | Running:
    """Return the report of a check if it ends while it is watched, or else how far it is."""
    waited, pause = 0.0, FIRST_POLL_SECONDS
    while True:
        answer = checker.poll(job)
        if isinstance(answer, Report):
            return codec.bound(validate_report(answer))
        if not isinstance(answer, Running):
            raise InputError(f"the auditor returned no report but {type(answer).__name__}")
        if waited * SECOND >= WATCH or stopping.wait(pause):
            return answer
        waited += pause
        pause = min(max(waited * POLL_SHARE, FIRST_POLL_SECONDS), LONGEST_POLL_SECONDS)


@contextmanager
def _checker_errors(kind: str) -> Iterator[None]:
    """Tell what a checker raises from errors of our own."""
    try:
        yield
    except UnreachableError as error:
        raise _AwayError(str(error)) from error
    except HoldfastError as error:
        raise _UnusableError(str(error)) from error
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise _UnusableError(f"the auditor {kind!r} failed: {said}") from error
