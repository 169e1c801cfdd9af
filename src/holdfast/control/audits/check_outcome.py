"""What reports of a checker come to. Only damage that two looks have found, by name, is damage.

A storage that is away, locked or lets nobody in is offline. Whatever else stands in the way of an
answer leaves the outcome unknown.
"""

from collections.abc import Sequence

from holdfast.checkers.interface import Finding, Report
from holdfast.control.audits.pending_check import PendingCheck
from holdfast.control.audits.types import AuditResult, CheckDetail
from holdfast.control.incidents.damage_words import name_some
from holdfast.control.scheduling.claims import Claim
from holdfast.control.scheduling.coverage import WHOLE, Look
from holdfast.evidence.codecs import plain
from holdfast.evidence.escaping import hash_names
from holdfast.evidence.leaf import Outcome
from holdfast.owner.checked import CheckedRecord

MAX_GROWTH = 4  # of what a check can carry, from one to the next
NOTHING_READ = "nothing was read"
NO_NAME = "the auditor calls it damaged, but names no damaged unit"

Verdict = tuple[Outcome, str]


def judge_first(report: Report) -> Verdict | None:
    """Return what a first look says; None if it says damage, which a second one must confirm."""
    match report.finding:
        case Finding.INTACT:
            return (Outcome.PASSED, "") if report.checked else (Outcome.UNKNOWN, NOTHING_READ)
        case Finding.DAMAGED:
            return None if report.damaged else (Outcome.UNKNOWN, NO_NAME)
        case Finding.UNREACHABLE:
            return Outcome.OFFLINE, report.reason
        case Finding.UNKNOWN:
            return Outcome.UNKNOWN, report.reason


def judge_second(first: Report, second: Report) -> Verdict:
    """Return what two looks say together, the first of which found damage."""
    if second.finding is Finding.DAMAGED and second.damaged:
        names = name_some(second.damaged)
        return Outcome.FAILED, f"damaged, at the second look too: {names}"
    names = name_some(first.damaged)
    if second.finding is Finding.INTACT and second.checked:
        return Outcome.UNKNOWN, f"damaged at the first look, intact at the second: {names}"
    reason = second.reason or NOTHING_READ
    return Outcome.UNKNOWN, f"{describe_first(first)}: {reason}"


def describe_first(first: Report) -> str:
    """Return, for a second look that could not end, what the first one said."""
    return f"damaged at the first look ({name_some(first.damaged)}), without a second one"


def damaged_groups(report: Report) -> tuple[str, ...]:
    """Return the groups by which the damaged units can be checked again."""
    return tuple(sorted({unit.group for unit in report.damaged if unit.group}))


def make_result(
    claim: Claim,
    record: CheckedRecord,
    pending: PendingCheck,
    verdict: Verdict,
    *,
    report: Report | None = None,
    now: int,
    allowance: int,
) -> AuditResult:
    """Return the result of a check; `allowance` is how long one may take."""
    outcome, reason = verdict
    looks = [look for look in (pending.first, report) if look is not None]
    checked = looks[0].checked if looks else 0
    told = report.units if report else 0
    chooses = pending.sample == hash_names(())  # the tool itself, and it says how many there are
    drawn = min(pending.drawn, max(told, checked)) if told and chooses else pending.drawn
    units = max(told or pending.units or claim.blocks, drawn, checked)
    damaged = next((look.damaged for look in reversed(looks) if look.damaged), ())
    failed = outcome is Outcome.FAILED
    began = looks[0].began if looks else pending.began or pending.since
    return AuditResult(
        name=claim.name,
        outcome=outcome,
        reason=plain(reason),
        due=pending.due,
        began=began,
        ended=max(looks[-1].ended if looks else now, began),
        units=units,
        checked=checked,
        damaged=len(damaged) if failed else 0,
        read_bytes=sum(look.read_bytes for look in looks),
        requests=sum(look.requests for look in looks),
        detail=CheckDetail(
            kind=record.kind,
            address=record.address,
            seed=pending.seed,
            unit=pending.unit or record.unit,
            tool=(report.tool if report else "") or pending.tool or record.kind,
            drawn=drawn,
            sample=pending.sample or hash_names(()),
            overrides=pending.overrides,
            look=Look(
                verified=_verified(looks, whole=outcome is Outcome.PASSED and checked >= units),
                damaged=damaged_groups(report) if failed and report else (),
                at=pending.began,
                carries=_carries(record, pending, outcome, looks, units, allowance),
                units=units if told and chooses else None,
            ),
            damaged=damaged,
            words=report.words if report else "",
            report=report if failed else None,
        ),
    )


def _verified(looks: Sequence[Report], *, whole: bool) -> tuple[str, ...]:
    names = {name for look in looks for name in look.verified}
    return tuple(sorted(names | ({WHOLE} if whole else set())))


def _carries(
    record: CheckedRecord,
    pending: PendingCheck,
    outcome: Outcome,
    looks: Sequence[Report],
    units: int,
    allowance: int,
) -> int | None:
    """Return how many units the next check may have.

    A check that could not end is followed by half of it; one that ended lifts the limit again, as
    far as the time it took allows.
    """
    limit = record.carries
    if outcome is Outcome.UNKNOWN and pending.drawn and not any(look.verified for look in looks):
        return max(pending.drawn // 2, 1)
    if limit is None or outcome is not Outcome.PASSED:
        return limit
    took = max(looks[-1].ended - looks[0].began, 1)
    grown = max(limit, int(pending.drawn * min(max(allowance / (2 * took), 1), MAX_GROWTH)))
    return None if grown >= units else grown
