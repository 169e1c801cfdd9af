"""The demo's summary as lines of text."""

from collections.abc import Iterator

from holdfast.demo.rules import Forecast
from holdfast.demo.summary import Cost, FaultReport, Summary

SURE = 0.995  # what would be shown as 100 %


def summary_lines(summary: Summary) -> Iterator[str]:
    """Yield the summary line by line."""
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(summary.outcomes.items()))
    yield (
        f"{summary.days:.0f} days, {summary.nodes} nodes with {summary.blocks:,} blocks each, "
        f"{summary.spent.audits} audits: {outcomes}"
    )
    for fault in summary.harms:
        yield ""
        yield from _fault(fault)
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
    for fault in summary.undetected:
        yield f"NOT DETECTED: {fault.kind} on {fault.node}"


def _fault(fault: FaultReport) -> Iterator[str]:
    done = f", {fault.blocks:,} blocks by the end" if fault.blocks else ""
    yield f"{fault.kind} on {fault.node}, from day {fault.day:.1f}{done}"
    if fault.detected is None:
        yield "  not detected"
    else:
        yield f"  detected on day {fault.detected:.1f}{_bad(fault.bad)}"
    if fault.localised:
        exact = "all of them damaged indeed" if fault.only_damaged else "NOT all of them damaged"
        yield f"  {fault.localised} blocks localised, {exact}; {fault.repaired} repaired"
    if fault.quarantined is not None:
        yield f"  quarantined on day {fault.quarantined:.1f}"
    if fault.left:
        why = "it is no longer audited" if fault.quarantined else "no audit has found them yet"
        yield f"  {fault.left:,} bad blocks at the end: {why}"
    yield f"  FixedHigh {_forecast(fault.fixed_high)}"
    yield f"  FixedLow {_forecast(fault.fixed_low)}"


def _forecast(forecast: Forecast) -> str:
    if forecast.day is None:
        return "would have missed it"
    detection = f"found it on day {forecast.day:.1f}{_bad(forecast.bad)}"
    if forecast.probability > SURE:
        return f"would have {detection}"
    return f"would have missed it with probability {1 - forecast.probability:.0%}, else {detection}"


def _bad(blocks: float | None) -> str:
    return f", when {blocks:.0f} blocks were bad" if blocks else ""


def _cost(summary: Summary) -> Iterator[str]:
    high, low, spent = summary.fixed_high, summary.fixed_low, summary.spent
    measured = "measured on the chain" if summary.ledger == "evm" else "at the contract's prices"
    yield f"gas: {_spent(spent)}, {measured}"
    yield f"  FixedHigh (daily, 10 %) would have taken {_spent(high)}: {_times(high, spent)}"
    yield f"  FixedLow (weekly, 1 %) {_spent(low)}"
    yield (
        "  (the rules were not run: the chances of their audits are computed for the same "
        "damage, unrepaired until found, and priced as the cheapest audit here)"
    )


def _spent(spent: Cost) -> str:
    return f"{spent.gas:,} for {spent.audits} audits ({spent.model_gas:.2f} in the model's unit)"


def _times(rule: Cost, ours: Cost) -> str:
    return f"{rule.gas / ours.gas:.1f} times as much" if ours.gas else "-"
