"""Decides what comes next for claimed holdings, and prepares what is written about it."""

import math
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.control.audits import recorder
from holdfast.control.audits.types import AuditResult, CheckDetail, ProofDetail
from holdfast.control.evidence.leaves import leaf_row
from holdfast.control.policies.active import ActivePolicies, PolicyLoader
from holdfast.control.policies.shadow import (
    DecisionContext,
    ShadowResult,
    memory_of,
    read_shadow_states,
    run_shadows,
)
from holdfast.control.policies.shadow_states import States
from holdfast.control.scheduling.claims import Claim, Conclusion, column
from holdfast.control.scheduling.decisions import Decisions, StoredMemory, decide
from holdfast.control.scheduling.guardrails import DRAWS, Rails
from holdfast.control.scheduling.schedule import Schedule
from holdfast.control.scheduling.telemetry import Telemetry
from holdfast.evidence import leaf
from holdfast.ledger import check
from holdfast.model.action import GRID
from holdfast.model.arrays import FloatArray, IntArray
from holdfast.model.observation import HistoryConstants
from holdfast.policy.serving import Serving

Rng = Callable[[tuple[int, int]], FloatArray]  # uniform numbers in [0, 1), in that shape


def system_rng(shape: tuple[int, int]) -> FloatArray:
    """Return uniform numbers that nobody can predict, not even from earlier ones.

    A node sees the times of its audits, and could predict NumPy's generators from them.
    """
    words = np.frombuffer(os.urandom(8 * math.prod(shape)), np.uint64)
    return np.asarray((words >> np.uint64(11)) * 2.0**-53).reshape(shape)


@dataclass(frozen=True)
class DecisionBatch:
    """A batch of decisions: the champion's, and what shadows did beside it."""

    active: ActivePolicies
    states: States
    decisions: Decisions
    shadows: ShadowResult


class Decider:
    """Lets the champion decide, its challengers beside it, within the rails."""

    def __init__(
        self,
        schedule: Schedule,
        policies: PolicyLoader,
        *,
        rails: Rails,
        constants: HistoryConstants,
        rng: Rng,
        timing: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._schedule, self._policies = schedule, policies
        self._rails, self._constants = rails, constants
        self._rng, self._timing = rng, timing

    def conclude(
        self, ended: Sequence[tuple[Claim, AuditResult]], now: int
    ) -> tuple[DecisionBatch, list[Conclusion]]:
        """Decide what follows these audits; return what is written about each of them."""
        claims = [claim for claim, _ in ended]
        results = [result for _, result in ended]
        before = self._telemetry(claims)
        telemetry = before.after(
            now,
            [result.outcome for result in results],
            # The clock may have been set back.
            np.maximum(now - column(claims, "audited"), 0) / self._rails.unit,
            np.array([result.latency for result in results]),
        )
        blocks = np.array([result.units for result in results])
        numbers = [claim.number + 1 for claim in claims]
        batch = self._decide(self._context(claims, numbers, blocks, now), telemetry)
        conclusions = []
        for (claim, result), row, shadows in zip(
            ended, _rows(claims, telemetry, batch, now), batch.shadows.records, strict=True
        ):
            at = recorder.end_time(claim, result, now)
            row |= {
                "number": claim.number + 1,
                "audited": now,
                "outcome": str(result.outcome),
                "blocks": result.units,
                "decided": at,
            }
            policy, shadow = self._policies.policy(claim.version), self._shadow(claim, batch)
            body = recorder.audit_leaf(claim, result, policy, shadow, self._rails, at)
            detail = result.detail
            proof = detail.proof if isinstance(detail, ProofDetail) else None
            conclusions.append(
                Conclusion(
                    row,
                    recorder.audit_row(claim, result, now),
                    leaf_row(body, claim.id, None if proof is None else check.encode(proof)),
                    shadows,
                    detail.look if isinstance(detail, CheckDetail) else None,
                )
            )
        return batch, conclusions

    def _shadow(self, claim: Claim, batch: DecisionBatch) -> leaf.Choice | None:
        """Return what the challenger chose when this audit was decided on."""
        challenger = batch.active.challenger
        state = None if challenger is None else batch.states.get((claim.id, challenger))
        if challenger is None or state is None or state.number != claim.number:
            return None
        return leaf.Choice(self._policies.policy(challenger), GRID.action(state.chosen))

    def decide_first(self, claims: Sequence[Claim], now: int) -> DecisionBatch:
        """Decide about holdings that were never decided about, and write it."""
        telemetry = self._telemetry(claims)
        blocks, numbers = column(claims, "blocks"), [claim.number for claim in claims]
        batch = self._decide(self._context(claims, numbers, blocks, now), telemetry)
        records = [record for records in batch.shadows.records for record in records]
        self._schedule.decide(_rows(claims, telemetry, batch, now), records)
        return batch

    def _telemetry(self, claims: Sequence[Claim]) -> Telemetry:
        return Telemetry.stored(
            [claim.history for claim in claims],
            self._constants,
            column(claims, "observed"),
            column(claims, "news").astype(np.bool_),
        )

    def _context(
        self, claims: Sequence[Claim], numbers: Sequence[int], blocks: IntArray, now: int
    ) -> DecisionContext:
        return DecisionContext(claims, numbers, blocks, self._rails.sample_cap, now)

    def _decide(self, context: DecisionContext, telemetry: Telemetry) -> DecisionBatch:
        active = self._policies.now()
        states = read_shadow_states(self._schedule.engine, context.claims, active)
        uniforms = self._rng((DRAWS, len(context.claims)))
        within = column(context.claims, "verify_within")

        def by(policy: Serving, own: StoredMemory, executed: IntArray | None = None) -> Decisions:
            return decide(
                policy, self._rails, context.now, telemetry, own, uniforms, executed, within
            )

        own = memory_of(active.champion.version, context.claims, states)
        with self._timing():
            decisions = by(active.champion, own)
        shadows = run_shadows(context, active, decisions, states, by)
        return DecisionBatch(active, states, decisions, shadows)


def _rows(
    claims: Sequence[Claim], telemetry: Telemetry, batch: DecisionBatch, now: int
) -> list[dict[str, Any]]:
    """Return what a decision changes in each holding's row."""
    decisions, version = batch.decisions, batch.active.champion.version
    plan = decisions.plan
    columns = {
        "id": [claim.id for claim in claims],
        "token": [claim.token for claim in claims],
        "due": plan.due.tolist(),
        "history": telemetry.rows(),
        "observed": telemetry.observed.tolist(),
        "news": telemetry.news.tolist(),
        "version": [version] * len(claims),
        "memory": [row.tobytes() for row in decisions.memory],
        "decided": [now] * len(claims),
        "observation": [row.tobytes() for row in decisions.observation],
        "chosen": decisions.chosen.tolist(),
        "interval": plan.interval.tolist(),
        "ratio": plan.ratio.tolist(),
        "overrides": plan.overrides.tolist(),
    }
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
