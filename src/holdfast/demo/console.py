"""The summary in words."""

from collections.abc import Iterator

from holdfast.demo.rules import Foreseen
from holdfast.demo.summary import Found, Spent, Summary

SURE = 0.995  # what would be shown as 100 %


def told(summary: Summary) -> Iterator[str]:
    """Yield the summary line by line."""
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(summary.outcomes.items()))
    yield (
        f"{summary.days:.0f} days, {summary.nodes} nodes with {summary.blocks:,} blocks each, "
        f"{summary.spent.audits} audits: {outcomes}"
    )
    for harm in summary.harms:
        yield ""
        yield from _harm(harm)
    yield ""
    yield from _cost(summary)
    yield ""
    report = summary.evidence
    yield (
        f"evidence: {'verified' if report.fine else 'NOT FINE'}, {report.leaves} leaves, "
        f"{report.proofs} proofs checked again, {report.anchors} anchors"
    )
    for finding in report.findings:
        yield f"  {finding}"
    for harm in summary.undetected:
        yield f"NOT DETECTED: {harm.kind} on {harm.node}"


def _harm(harm: Found) -> Iterator[str]:
    done = f", {harm.blocks:,} blocks by the end" if harm.blocks else ""
    yield f"{harm.kind} on {harm.node}, from day {harm.day:.1f}{done}"
    if harm.detected is None:
        yield "  not detected"
    else:
        yield f"  detected on day {harm.detected:.1f}{_bad(harm.bad)}"
    if harm.localised:
        exact = "all of them damaged indeed" if harm.only_damaged else "NOT all of them damaged"
        yield f"  {harm.localised} blocks localised, {exact}; {harm.repaired} repaired"
    if harm.quarantined is not None:
        yield f"  quarantined on day {harm.quarantined:.1f}"
    if harm.left:
        why = "it is audited no more" if harm.quarantined else "no audit has found them yet"
        yield f"  {harm.left:,} bad blocks at the end: {why}"
    yield f"  FixedHigh {_foreseen(harm.fixed_high)}"
    yield f"  FixedLow {_foreseen(harm.fixed_low)}"


def _foreseen(foreseen: Foreseen) -> str:
    if foreseen.day is None:
        return "would have missed it"
    found = f"found it on day {foreseen.day:.1f}{_bad(foreseen.bad)}"
    if foreseen.probability > SURE:
        return f"would have {found}"
    return f"would have missed it with probability {1 - foreseen.probability:.0%}, else {found}"


def _bad(blocks: float | None) -> str:
    return f", when {blocks:.0f} blocks were bad" if blocks else ""


def _cost(summary: Summary) -> Iterator[str]:
    high, low, spent = summary.fixed_high, summary.fixed_low, summary.spent
    measured = "measured on the chain" if summary.ledger == "evm" else "at the contract's prices"
    yield f"gas: {_spent(spent)}, {measured}"
    yield f"  FixedHigh (daily, 10 %) would have taken {_spent(high)}: {_times(high, spent)}"
    yield f"  FixedLow (weekly, 1 %) {_spent(low)}"
    yield (
        "  (the rules were not run: the chance of each of their audits is computed for the same "
        "damage, unrepaired until found, and priced as the cheapest audit here)"
    )


def _spent(spent: Spent) -> str:
    return f"{spent.gas:,} for {spent.audits} audits ({spent.model_gas:.2f} in the model's unit)"


def _times(rule: Spent, ours: Spent) -> str:
    return f"{rule.gas / ours.gas:.1f} times as much" if ours.gas else "-"
