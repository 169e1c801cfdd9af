"""Runs policies in shadow: they decide beside the champion, with states of their own.

They see the same telemetry and the same random numbers, and have no effect. What they would have
done is added up beside the champion's decision, and their states advance with its action.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine

from holdfast.control.policies.active import ActivePolicies
from holdfast.control.policies.shadow_states import ShadowRecord, ShadowState, States, read_states
from holdfast.control.scheduling.claims import Claim
from holdfast.control.scheduling.decisions import Decisions, StoredMemory
from holdfast.control.scheduling.guardrails import FAIL_SAFE, Override
from holdfast.model.arrays import IntArray
from holdfast.model.detection import gas, samples
from holdfast.policy.serving import Serving

RAILS = int(FAIL_SAFE | Override.SHORTEST | Override.LONGEST | Override.RECOVERY)


Decide = Callable[[Serving, StoredMemory, IntArray], Decisions]


def read_shadow_states(engine: Engine, claims: Sequence[Claim], active: ActivePolicies) -> States:
    """Return the states of all active versions that are not in the holdings' own rows."""
    ids = [claim.id for claim in claims]
    if not active.shadows:  # a version that was promoted or rolled back to may have its state there
        ids = [claim.id for claim in claims if claim.version not in {"", active.champion.version}]
    if not ids:
        return {}
    return read_states(engine, ids, [policy.version for policy in active.policies])


def memory_of(version: str, claims: Sequence[Claim], states: States) -> StoredMemory:
    """Return the memory of a version for each holding; empty where it has missed audits.

    It took the last decision itself, or was in shadow when another did.
    """
    memories = [
        claim.memory if claim.version == version else _own(claim, states.get((claim.id, version)))
        for claim in claims
    ]
    return StoredMemory([version] * len(memories), memories)


def _own(claim: Claim, state: ShadowState | None) -> bytes:
    return b"" if state is None or state.number != claim.number else state.memory


@dataclass(frozen=True)
class DecisionContext:
    """A batch of holdings to decide about: how many audits each has had, and how large it is."""

    claims: Sequence[Claim]
    number: Sequence[int]  # of audits concluded
    blocks: IntArray
    sample_cap: int
    now: int


@dataclass
class ShadowResult:
    """What shadows did beside a batch of decisions."""

    records: list[list[ShadowRecord]]  # by holding
    decisions: int = 0
    agreed: int = 0
    trouble: list[str] = field(default_factory=list)


def run_shadows(
    context: DecisionContext,
    active: ActivePolicies,
    champion: Decisions,
    states: States,
    decide: Decide,
) -> ShadowResult:
    """Let the shadows decide; the failure of one is reported and stops nobody."""
    result = ShadowResult([[] for _ in context.claims])
    if active.trouble is not None:
        result.trouble.append(active.trouble)
    for policy in active.shadows:
        own = memory_of(policy.version, context.claims, states)
        try:
            decisions = decide(policy, own, champion.plan.action)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the champion continues
            reason = f"version {policy.version[:12]} ({policy.name}) can't decide: {error}"
            result.trouble.append(reason)
            continue
        rows = _rows(context, policy.version, decisions, active.champion.version, champion)
        for at, (state, decision) in enumerate(rows):
            new = (state["holding"], policy.version) not in states
            result.records[at].append(ShadowRecord(state, decision, new=new))
        if policy.version == active.challenger:
            result.decisions += len(context.claims)
            result.agreed += int((decisions.chosen == champion.chosen).sum())
    return result


def _rows(
    context: DecisionContext,
    version: str,
    shadow: Decisions,
    champion_version: str,
    champion: Decisions,
) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Return per holding the row of the shadow's state, and what both decisions add to the sums.

    Where either began with a new state, which brings the fail-safe once, nothing is compared; nor
    is it where a tool checks other units than blocks, which cost no gas.
    """
    ids, time = [claim.id for claim in context.claims], champion.plan.interval
    states: dict[str, Sequence[Any]] = {
        "holding": ids,
        "version": [version] * len(ids),
        "number": list(context.number),
        "memory": [row.tobytes() for row in shadow.memory],
        "chosen": shadow.chosen.tolist(),
    }
    sums: dict[str, Sequence[Any]] = {
        "version": [version] * len(ids),
        "champion": [champion_version] * len(ids),
        "holding": ids,
        "first": [context.now] * len(ids),
        "last": [context.now] * len(ids),
        "decisions": [1] * len(ids),
        "agreed": (shadow.chosen == champion.chosen).astype(int).tolist(),
        "time": time.tolist(),
        **_terms("", context, shadow, time),
        **_terms("champion_", context, champion, time),
    }
    restarted = (shadow.plan.overrides | champion.plan.overrides) & int(Override.STATE)
    left_out = [
        bool(new) or claim.checked
        for new, claim in zip(restarted.tolist(), context.claims, strict=True)
    ]
    compared = [None if skip else row for skip, row in zip(left_out, _dicts(sums), strict=True)]
    return list(zip(_dicts(states), compared, strict=True))


def _terms(
    prefix: str, context: DecisionContext, decisions: Decisions, time: IntArray
) -> dict[str, list[float]]:
    """Return what each decision adds; `spent` is its gas during the champion's interval."""
    plan = decisions.plan
    spent = gas(samples(plan.ratio, context.blocks, context.sample_cap), context.blocks)
    terms = {
        "interval": plan.interval,
        "ratio": plan.ratio,
        "gas": spent,
        "rails": (plan.overrides & RAILS) != 0,
        "outside": (plan.overrides & int(Override.ENVELOPE)) != 0,
        "spent": spent / plan.interval * time,
    }
    return {prefix + name: values.astype(float).tolist() for name, values in terms.items()}


def _dicts(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, values, strict=True)) for values in rows]
