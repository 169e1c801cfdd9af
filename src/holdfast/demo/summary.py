"""What the story came to: what was done, what was found, what it cost, what rules would have."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.control.evidence.reader import DatabaseLog, read_verifier
from holdfast.control.scheduling.guardrails import DAY
from holdfast.demo.environment import Stage
from holdfast.demo.event_feed import News
from holdfast.demo.faults import Decay, Harm
from holdfast.demo.frame import Frame
from holdfast.demo.rules import FIXED_HIGH, FIXED_LOW, Foreseen, Rule
from holdfast.demo.story import Story
from holdfast.evidence.verification import Report, verify
from holdfast.model.detection import gas


@dataclass(frozen=True)
class Found:
    """A harm, and what became of it. Days count from the beginning."""

    kind: str
    node: str
    day: float  # when it began
    blocks: int  # damaged on the whole, each counted once
    detected: float | None
    bad: int | None  # blocks, when it was detected
    localised: int
    only_damaged: bool  # nothing was localised that had not been damaged
    repaired: int
    quarantined: float | None
    left: int  # blocks that are bad at the end
    fixed_high: Foreseen
    fixed_low: Foreseen


@dataclass(frozen=True)
class Spent:
    """Gas on the ledger, and in the model's unit, where 1 is an audit of every block."""

    audits: int
    gas: int
    model_gas: float


@dataclass(frozen=True)
class Summary:
    days: float
    nodes: int
    blocks: int  # of each holding
    policy: str
    ledger: str
    outcomes: dict[str, int]
    harms: tuple[Found, ...]
    spent: Spent
    fixed_high: Spent
    fixed_low: Spent
    evidence: Report

    @property
    def undetected(self) -> tuple[Found, ...]:
        return tuple(harm for harm in self.harms if harm.detected is None)

    @property
    def fine(self) -> bool:
        return not self.undetected and self.evidence.fine


def sum_up(story: Story) -> Summary:
    stage, frame = story.stage, story.frame()
    left = {row.node: row.damage for row in frame.rows}
    outcomes = Counter(each.what for each in story.news if each.sampled)
    return Summary(
        days=story.span / DAY,
        nodes=len(stage.nodes),
        blocks=stage.blocks,
        policy=stage.settings.policy,
        ledger="local" if stage.chain is None else "evm",
        outcomes=dict(outcomes),
        harms=tuple(_found(harm, story, left[harm.node]) for harm in story.harms),
        spent=_spent(story, frame),
        fixed_high=_would_have(FIXED_HIGH, story, frame),
        fixed_low=_would_have(FIXED_LOW, story, frame),
        evidence=check_evidence(stage),
    )


def check_evidence(stage: Stage) -> Report:
    """Check the whole log as `holdfast evidence verify` does."""
    pinned = read_verifier(stage.home)
    return verify(DatabaseLog(stage.service.schedule.engine, pinned), pinned)


def _found(harm: Harm, story: Story, left: int) -> Found:
    news = [each for each in story.news if each.node == harm.node]
    signs = {"failed", "timed-out"} if isinstance(harm, Decay) else {"offline"}
    after = [each for each in news if each.at - story.start >= harm.begins]
    localised, damaged = _blocks(after, "localised"), harm.damaged(story.span)
    detected = _first(after, signs, story.start)
    return Found(
        kind=harm.kind,
        node=harm.node,
        day=harm.begins / DAY,
        blocks=len(damaged),
        detected=detected,
        bad=None if detected is None else len(harm.damaged(round(detected * DAY))),
        localised=len(localised),
        only_damaged=localised <= damaged,
        repaired=len(_blocks(after, "repaired")),
        quarantined=_first(after, {"quarantined"}, story.start),
        left=left,
        fixed_high=FIXED_HIGH.foresee(harm, story.span, story.stage.blocks),
        fixed_low=FIXED_LOW.foresee(harm, story.span, story.stage.blocks),
    )


def _first(news: Sequence[News], signs: set[str], start: int) -> float | None:
    return next(((each.at - start) / DAY for each in news if each.what in signs), None)


def _blocks(news: Sequence[News], what: str) -> set[int]:
    return {block for each in news if each.what == what for block in each.blocks}


def _spent(story: Story, frame: Frame) -> Spent:
    sampled = [each.sampled for each in story.news if each.sampled]
    # A local ledger takes no gas: what is told is the contract's price.
    taken = frame.gas or len(sampled) * frame.price
    return Spent(len(sampled), round(taken), float(gas(sampled, story.stage.blocks).sum()))


def _would_have(rule: Rule, story: Story, frame: Frame) -> Spent:
    audits = rule.audits(story.span) * len(frame.rows)
    each = rule.model_gas(story.stage.blocks)
    return Spent(audits, round(audits * frame.price), audits * each)
