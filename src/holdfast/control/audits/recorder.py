"""Builds the evidence of an audit: one leaf with the decision, the challenge and the verdict."""

import numpy as np

from holdfast.control.audits.types import AuditResult
from holdfast.control.scheduling import guardrails
from holdfast.control.scheduling.claims import Claim
from holdfast.control.scheduling.guardrails import REASONS, Rails
from holdfast.control.scheduling.telemetry import FAILURES
from holdfast.evidence import leaf
from holdfast.ledger import check
from holdfast.model.action import GRID, Action
from holdfast.model.observation import Observation


def end_time(claim: Claim, result: AuditResult, now: int) -> int:
    """Return when an audit counts as ended.

    Even if the clock was set back, no event is recorded before the last one.
    """
    detail = result.detail
    return max(now, claim.audited, claim.decided, detail.sent or 0, detail.answered or 0)


def audit_leaf(
    claim: Claim,
    result: AuditResult,
    policy: leaf.Policy,
    shadow: leaf.Choice | None,
    limits: Rails,
    at: int,
) -> bytes:
    """Return the leaf of an audit, from the observation that led to it to its verdict."""
    detail = result.detail
    sent = None if detail.sent is None else max(detail.sent, claim.decided)
    answered = None if detail.answered is None else max(detail.answered, sent or 0)
    return leaf.encode(
        leaf.Audit(
            at=at,
            holding=detail.holding,
            number=claim.number + 1,
            decision=_decision(claim, result, policy, shadow, limits),
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
    )


def _decision(
    claim: Claim,
    result: AuditResult,
    policy: leaf.Policy,
    shadow: leaf.Choice | None,
    limits: Rails,
) -> leaf.Decision:
    return leaf.Decision(
        at=claim.decided,
        telemetry=_telemetry(claim, limits),
        chosen=leaf.Choice(policy, GRID.action(claim.chosen)),
        shadow=shadow,
        overrides=_overrides(claim, result, limits),
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

    The fail-safe comes before the clipping, and the cap on the sample after all others: it says
    what was really sampled.
    """
    cap = guardrails.Override.SAMPLE_CAP
    action, overrides = GRID.action(claim.chosen), []
    for override in sorted(guardrails.Override(claim.overrides), key=cap.__eq__):
        if override in guardrails.FAIL_SAFE:
            action = limits.fail_safe
        elif override in guardrails.Override.FOLLOW_UP | guardrails.Override.ASKED:
            action = Action(claim.interval, claim.ratio)
        elif override in guardrails.INTERVAL_RAILS:
            action = Action(claim.interval, action.ratio)
        elif override is cap:
            action = Action(action.interval, result.checked / result.units)
        (name,) = guardrails.override_names(override)
        overrides.append(leaf.Override(name, REASONS[override], action))
    return tuple(overrides)


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
    }
