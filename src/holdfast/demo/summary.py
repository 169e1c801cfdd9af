"""The demo's result: faults, what was detected, what it cost, and what fixed rules would cost."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from holdfast.control.evidence.reader import DatabaseLog, read_verifier
from holdfast.control.scheduling.telemetry import FAILURES
from holdfast.demo.environment import Environment
from holdfast.demo.event_feed import Event
from holdfast.demo.faults import Corruption, Fault
from holdfast.demo.frame import Frame
from holdfast.demo.rules import FIXED_HIGH, FIXED_LOW, Forecast, Rule
from holdfast.demo.story import Story
from holdfast.durations import DAY
from holdfast.evidence.verification import Report, verify
from holdfast.model.detection import gas


@dataclass(frozen=True)
class FaultReport:
    """A fault, and how it was handled. Days count from the beginning."""

    kind: str
    node: str
    day: float  # when it began
    blocks: int  # damaged in all, counted once
    detected: float | None
    bad: int | None  # blocks, when it was detected
    localised: int
    only_damaged: bool  # nothing was localised that had not been damaged
    repaired: int
    quarantined: float | None
    left: int  # blocks that are bad at the end
    fixed_high: Forecast
    fixed_low: Forecast


@dataclass(frozen=True)
class Cost:
    """Gas on the ledger, and in the model's unit, where 1 is an audit of every block."""

    audits: int
    gas: int
    model_gas: float


@dataclass(frozen=True)
class Summary:
    days: float
    nodes: int
    blocks: int  # per holding
    policy: str
    ledger: str
    outcomes: dict[str, int]
    harms: tuple[FaultReport, ...]
    spent: Cost
    fixed_high: Cost
    fixed_low: Cost
    evidence: Report

    @property
    def undetected(self) -> tuple[FaultReport, ...]:
        return tuple(fault for fault in self.harms if fault.detected is None)

    @property
    def fine(self) -> bool:
        return not self.undetected and self.evidence.fine


def summarise(story: Story) -> Summary:
    environment, frame = story.environment, story.frame()
    left = {row.node: row.damage for row in frame.rows}
    outcomes = Counter(event.kind for event in story.events if event.sampled)
    return Summary(
        days=story.span / DAY,
        nodes=len(environment.nodes),
        blocks=environment.blocks,
        policy=environment.settings.policy,
        ledger="local" if environment.chain is None else "evm",
        outcomes=dict(outcomes),
        harms=tuple(_fault_report(fault, story, left[fault.node]) for fault in story.faults),
        spent=_cost(story, frame),
        fixed_high=_cost_under(FIXED_HIGH, story, frame),
        fixed_low=_cost_under(FIXED_LOW, story, frame),
        evidence=check_evidence(environment),
    )


def check_evidence(environment: Environment) -> Report:
    """Check the whole log as `holdfast evidence verify` does."""
    pinned = read_verifier(environment.home)
    return verify(DatabaseLog(environment.service.schedule.engine, pinned), pinned)


def _fault_report(fault: Fault, story: Story, left: int) -> FaultReport:
    events = [event for event in story.events if event.node == fault.node]
    signs = FAILURES if isinstance(fault, Corruption) else {"offline"}
    after = [event for event in events if event.at - story.start >= fault.begins]
    localised, damaged = _blocks(after, "localised"), fault.damaged(story.span)
    detected = _first(after, signs, story.start)
    return FaultReport(
        kind=fault.kind,
        node=fault.node,
        day=fault.begins / DAY,
        blocks=len(damaged),
        detected=detected,
        bad=None if detected is None else len(fault.damaged(round(detected * DAY))),
        localised=len(localised),
        only_damaged=localised <= damaged,
        repaired=len(_blocks(after, "repaired")),
        quarantined=_first(after, {"quarantined"}, story.start),
        left=left,
        fixed_high=FIXED_HIGH.forecast(fault, story.span, story.environment.blocks),
        fixed_low=FIXED_LOW.forecast(fault, story.span, story.environment.blocks),
    )


def _first(events: Sequence[Event], signs: Collection[str], start: int) -> float | None:
    return next(((event.at - start) / DAY for event in events if event.kind in signs), None)


def _blocks(events: Sequence[Event], kind: str) -> set[int]:
    return {block for event in events if event.kind == kind for block in event.blocks}


def _cost(story: Story, frame: Frame) -> Cost:
    sampled = [event.sampled for event in story.events if event.sampled]
    # A local ledger takes no gas: show the contract's price instead.
    taken = frame.gas or len(sampled) * frame.price
    return Cost(len(sampled), round(taken), float(gas(sampled, story.environment.blocks).sum()))


def _cost_under(rule: Rule, story: Story, frame: Frame) -> Cost:
    audits = rule.audits(story.span) * len(frame.rows)
    per_audit = rule.model_gas(story.environment.blocks)
    return Cost(audits, round(audits * frame.price), audits * per_audit)
