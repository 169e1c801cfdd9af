"""Builds the evidence of an audit: one leaf with the decision, what was asked, and the verdict."""

import numpy as np

from holdfast.checkers import codec
from holdfast.control.audits.types import AuditResult, CheckDetail, ProofDetail
from holdfast.control.scheduling import guardrails
from holdfast.control.scheduling.claims import Claim
from holdfast.control.scheduling.guardrails import REASONS, Rails
from holdfast.control.scheduling.telemetry import FAILURES
from holdfast.evidence import leaf
from holdfast.evidence.codecs import plain
from holdfast.evidence.escaping import escape_words, hash_words
from holdfast.evidence.storage_check import MAX_DAMAGED
from holdfast.ledger import check
from holdfast.model.action import GRID, Action
from holdfast.model.observation import Observation


def end_time(claim: Claim, result: AuditResult, now: int) -> int:
    """Return when an audit counts as ended.

    Even if the clock was set back, no event is recorded before the last one.
    """
    detail, known = result.detail, (now, claim.audited, claim.decided)
    if isinstance(detail, CheckDetail):
        return max(known)
    return max(*known, detail.sent or 0, detail.answered or 0)


def audit_leaf(
    claim: Claim,
    result: AuditResult,
    policy: leaf.Policy,
    shadow: leaf.Choice | None,
    limits: Rails,
    at: int,
) -> bytes:
    """Return the leaf of an audit, from the observation that led to it to its verdict."""
    decision = leaf.Decision(
        at=claim.decided,
        telemetry=_telemetry(claim, limits),
        chosen=leaf.Choice(policy, GRID.action(claim.chosen)),
        shadow=shadow,
        overrides=_overrides(claim, result, limits),
    )
    if isinstance(result.detail, CheckDetail):
        return leaf.encode(_check(claim, result, result.detail, decision, at))
    return leaf.encode(_proof(claim, result, result.detail, decision, at))


def _proof(
    claim: Claim, result: AuditResult, detail: ProofDetail, decision: leaf.Decision, at: int
) -> leaf.Audit:
    sent = None if detail.sent is None else max(detail.sent, claim.decided)
    answered = None if detail.answered is None else max(detail.answered, sent or 0)
    return leaf.Audit(
        at=at,
        holding=detail.holding,
        number=claim.number + 1,
        decision=decision,
        due_at=max(result.due, claim.decided),
        challenge=detail.challenge,
        target=detail.target,
        opening=detail.opening,
        sent_at=sent,
        answered_at=answered,
        outcome=leaf.Outcome(result.outcome),
        reason=result.reason,
        proof=None if detail.proof is None else check.digest(detail.proof),
        signature=detail.signature,
        verdict=detail.verdict,
    )


def _check(
    claim: Claim, result: AuditResult, detail: CheckDetail, decision: leaf.Decision, at: int
) -> leaf.StorageCheck:
    # The check ran in another process, whose clock may differ from ours.
    ended = min(max(result.ended, claim.decided), at)
    return leaf.StorageCheck(
        at=at,
        holding=leaf.CheckedHolding(claim.id, claim.name, detail.kind, detail.address),
        number=claim.number + 1,
        decision=decision,
        due_at=max(result.due, claim.decided),
        seed=detail.seed,
        unit=plain(detail.unit),
        tool=plain(detail.tool),
        units=result.units,
        drawn=detail.drawn,
        sample=detail.sample,
        checked=result.checked,
        damaged=tuple(
            leaf.DamagedUnit.from_tool(unit.name, unit.defect, unit.detail)
            for unit in detail.damaged[:MAX_DAMAGED]
        ),
        damaged_units=len(detail.damaged),
        read_bytes=result.read_bytes,
        requests=result.requests,
        began_at=min(max(result.began, claim.decided), ended),
        ended_at=ended,
        outcome=result.outcome,
        reason=result.reason,
        words=escape_words(detail.words),
        words_hash=hash_words(detail.words),
    )


def _telemetry(claim: Claim, limits: Rails) -> leaf.Telemetry:
    if not claim.news:
        return leaf.Telemetry(leaf.Freshness.MISSING, None, None)
    stale = claim.decided - claim.observed > limits.stale_after * limits.unit
    seen = np.frombuffer(claim.observation, np.float32).tolist()
    freshness = leaf.Freshness.STALE if stale else leaf.Freshness.FRESH
    return leaf.Telemetry(freshness, Observation(*seen), claim.observed)


def _overrides(claim: Claim, result: AuditResult, limits: Rails) -> tuple[leaf.Override, ...]:
    """Return each override with the action after it.

    The fail-safe comes before the clipping, and what limits the sample after all others: it says
    what was really sampled. So does the rail that enlarges a sample.
    """
    limits_sample = guardrails.Override.SAMPLE_CAP | guardrails.Override.DAILY_BYTES
    within = guardrails.Override.VERIFY_WITHIN
    action, overrides = GRID.action(claim.chosen), []
    for override in sorted(guardrails.Override(claim.overrides), key=limits_sample.__contains__):
        if override in guardrails.FAIL_SAFE:
            action = limits.fail_safe
        elif override in guardrails.Override.FOLLOW_UP | guardrails.Override.ASKED:
            action = Action(claim.interval, claim.ratio)
        elif override in guardrails.INTERVAL_RAILS:
            action = Action(claim.interval, action.ratio)
        elif override in limits_sample:
            action = Action(action.interval, _sampled_share(result))
        elif override is within:
            action = Action(claim.interval, _sampled_share(result))
        (name,) = guardrails.override_names(override)
        overrides.append(leaf.Override(name, REASONS[override], action))
    return tuple(overrides)


def _sampled_share(result: AuditResult) -> float:
    detail = result.detail
    sampled = detail.drawn if isinstance(detail, CheckDetail) else result.checked
    return sampled / result.units if result.units else 0.0


def audit_row(claim: Claim, result: AuditResult, now: int) -> dict[str, object]:
    """Return the audit's row in the database, which the dashboard and metrics read."""
    return {
        "holding": claim.id,
        "number": claim.number + 1,
        "due": result.due,
        "ended": now,
        "outcome": str(result.outcome),
        "unanswered": result.outcome in FAILURES,
        "interval": claim.interval,
        "ratio": claim.ratio,
        "samples": result.checked,
        "overrides": claim.overrides,
        "latency": result.latency,
        "gas": result.gas,
        "observation": claim.observation,
        **_check_columns(result),
    }


def _check_columns(result: AuditResult) -> dict[str, object]:
    """Return what the row of an audit has of a check; the damaged units of one that failed."""
    detail = result.detail
    report = detail.report if isinstance(detail, CheckDetail) else None
    return {
        "checked": isinstance(detail, CheckDetail),
        "read_bytes": result.read_bytes,
        "requests": result.requests,
        "lasted": max(result.ended - result.began, 0) if isinstance(detail, CheckDetail) else 0,
        "report": None if report is None else codec.dump(report),
        "found": None if report is None else result.damaged,
    }
