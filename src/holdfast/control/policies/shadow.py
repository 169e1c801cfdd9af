"""Shadows: what other versions would decide beside the champion, with states of their own.

They see the same telemetry and the same luck, and have no effects: what they would have done is
added up beside the champion's decision, and their states advance with what it carried out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine, select

from holdfast.control.policies.active import ActivePolicies
from holdfast.control.scheduling.decisions import Decisions, Remembered
from holdfast.control.scheduling.guardrails import FAIL_SAFE, Override
from holdfast.control.scheduling.schedule import Beside, Claim
from holdfast.model.arrays import IntArray
from holdfast.model.detection import gas, samples
from holdfast.policy.serving import Serving
from holdfast.storage.database import transaction
from holdfast.storage.schema import shadows

RAILS = int(FAIL_SAFE | Override.SHORTEST | Override.LONGEST)
MOST_AT_ONCE = 10_000  # holdings in a query: SQLite takes 32,766 values


@dataclass(frozen=True)
class ShadowState:
    """The state of a version about a holding that another one decides about."""

    number: int  # of audits that it has seen
    memory: bytes
    chosen: int


States = Mapping[tuple[int, str], ShadowState]
Decide = Callable[[Serving, Remembered, IntArray], Decisions]


def kept_states(engine: Engine, claims: Sequence[Claim], duty: ActivePolicies) -> States:
    """Return the states that lie apart from the holdings' rows, of all who are on duty."""
    ids = [claim.id for claim in claims]
    if not duty.shadows:  # but one that was promoted or rolled back to may have its state there
        ids = [claim.id for claim in claims if claim.version not in {"", duty.champion.version}]
    if not ids:
        return {}
    on_duty = [duty.champion.version, *(each.version for each in duty.shadows)]
    found = {}
    with transaction(engine) as connection:
        for first in range(0, len(ids), MOST_AT_ONCE):
            these = shadows.c.holding.in_(ids[first : first + MOST_AT_ONCE])
            query = select(shadows).where(these, shadows.c.version.in_(on_duty))
            for row in connection.execute(query):
                kept = ShadowState(row.number, bytes(row.memory), row.chosen)
                found[row.holding, row.version] = kept
    return found


def remembered(version: str, claims: Sequence[Claim], states: States) -> Remembered:
    """Return the states of a version, from wherever it has them; one that missed audits has none.

    It took the last decision itself, or was in shadow when another did.
    """
    found = [
        claim.memory if claim.version == version else _own(claim, states.get((claim.id, version)))
        for claim in claims
    ]
    return Remembered([version] * len(found), found)


def _own(claim: Claim, kept: ShadowState | None) -> bytes:
    return b"" if kept is None or kept.number != claim.number else kept.memory


@dataclass(frozen=True)
class DecisionContext:
    """A batch of holdings as a decision finds it: how far each is, and how large."""

    claims: Sequence[Claim]
    number: Sequence[int]  # of audits concluded
    blocks: IntArray
    sample_cap: int
    now: int


@dataclass
class ShadowResult:
    """What shadows did beside a batch of decisions."""

    beside: list[list[Beside]]  # by holding
    decisions: int = 0
    agreed: int = 0
    trouble: list[str] = field(default_factory=list)


def shade(
    course: DecisionContext,
    duty: ActivePolicies,
    champion: Decisions,
    states: States,
    decide: Decide,
) -> ShadowResult:
    """Let the shadows decide; one that fails to is told, and holds up nobody."""
    found = ShadowResult([[] for _ in course.claims])
    if duty.trouble is not None:
        found.trouble.append(duty.trouble)
    for policy in duty.shadows:
        own = remembered(policy.version, course.claims, states)
        try:
            decisions = decide(policy, own, champion.plan.action)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the champion goes on
            reason = f"version {policy.version[:12]} ({policy.name}) can't decide: {error}"
            found.trouble.append(reason)
            continue
        rows = _rows(course, policy.version, decisions, duty.champion.version, champion)
        for at, (state, decision) in enumerate(rows):
            new = (state["holding"], policy.version) not in states
            found.beside[at].append(Beside(state, decision, new=new))
        if policy.version == duty.challenger:
            found.decisions += len(course.claims)
            found.agreed += int((decisions.chosen == champion.chosen).sum())
    return found


def _rows(
    course: DecisionContext,
    version: str,
    shadow: Decisions,
    champion_version: str,
    champion: Decisions,
) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Return for each holding the row of the shadow's state, and what both decisions add to sums.

    Where either had to begin its state anew, which brings the fail-safe once, nothing is compared.
    """
    ids, time = [claim.id for claim in course.claims], champion.plan.interval
    states: dict[str, Sequence[Any]] = {
        "holding": ids,
        "version": [version] * len(ids),
        "number": list(course.number),
        "memory": [row.tobytes() for row in shadow.memory],
        "chosen": shadow.chosen.tolist(),
    }
    sums: dict[str, Sequence[Any]] = {
        "version": [version] * len(ids),
        "champion": [champion_version] * len(ids),
        "holding": ids,
        "first": [course.now] * len(ids),
        "last": [course.now] * len(ids),
        "decisions": [1] * len(ids),
        "agreed": (shadow.chosen == champion.chosen).astype(int).tolist(),
        "time": time.tolist(),
        **_terms("", course, shadow, time),
        **_terms("champion_", course, champion, time),
    }
    anew = (shadow.plan.overrides | champion.plan.overrides) & int(Override.STATE)
    fair = [None if begun else row for begun, row in zip(anew.tolist(), _dicts(sums), strict=True)]
    return list(zip(_dicts(states), fair, strict=True))


def _terms(
    prefix: str, course: DecisionContext, decisions: Decisions, time: IntArray
) -> dict[str, list[float]]:
    """Return what is added up of each decision; `spent` is its gas while the champion's lasts."""
    plan = decisions.plan
    each = gas(samples(plan.ratio, course.blocks, course.sample_cap), course.blocks)
    terms = {
        "interval": plan.interval,
        "ratio": plan.ratio,
        "gas": each,
        "rails": (plan.overrides & RAILS) != 0,
        "outside": (plan.overrides & int(Override.ENVELOPE)) != 0,
        "spent": each / plan.interval * time,
    }
    return {prefix + name: values.astype(float).tolist() for name, values in terms.items()}


def _dicts(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, values, strict=True)) for values in rows]
