"""Audits that rails bring forward: the first of a holding, and those after a failure."""

from collections import defaultdict
from itertools import pairwise

import pytest
from tests.support.simulated_fleet import START
from tests.support.simulated_operation import SIGNER, operation

from holdfast.control.scheduling.guardrails import REASONS, Override, Rails
from holdfast.durations import DAY
from holdfast.evidence import leaf
from holdfast.evidence.leaf import Outcome
from holdfast.evidence.verification import verify
from holdfast.model.action import Action
from holdfast.model.scenario import PAPER

CAP = 3
HOLDINGS = 12
RECOVERED = 3  # passes in a row


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[bytes, list[leaf.Audit]]:
    """Return the audits of three months by holding, under a policy that never hurries."""
    folder = tmp_path_factory.mktemp("early")
    rails = Rails(jitter=0.0, surprise=0.0, sample_cap=CAP)
    running = operation(folder, PAPER, HOLDINGS, rails=rails, policy="constant:14,0.20")
    running.until(START + 90 * DAY)
    assert verify(running.log(), SIGNER.verifier).fine
    stories = defaultdict(list)
    for entry in running.log().entries():
        audit = leaf.decode(entry.leaf)
        if isinstance(audit, leaf.Audit):
            stories[audit.holding.key].append(audit)
    return stories


def overrides(audit: leaf.Audit) -> dict[str, leaf.Override]:
    return {override.rail: override for override in audit.decision.overrides}


@pytest.mark.slow
def test_every_holding_is_audited_within_its_first_day_and_the_evidence_says_why(
    stories: dict[bytes, list[leaf.Audit]],
) -> None:
    """Before, the first audit of all came after 14 days, at once."""
    firsts = [story[0] for story in stories.values()]
    assert len(firsts) == HOLDINGS
    assert all(START <= audit.due_at <= START + DAY for audit in firsts)
    assert len({audit.due_at for audit in firsts}) == HOLDINGS, "each at its own time"
    for audit in firsts:
        assert audit.decision.chosen is not None
        assert audit.decision.chosen.action == Action(14, 0.20)
        first = overrides(audit)["first"]
        assert (first.reason, first.action) == (REASONS[Override.FIRST], Action(1, 0.20))


@pytest.mark.slow
def test_after_a_failure_audits_come_daily_until_three_have_passed(
    stories: dict[bytes, list[leaf.Audit]],
) -> None:
    failures = 0
    for story in stories.values():
        passes = RECOVERED
        for before, audit in pairwise(story):
            failures += before.outcome is Outcome.FAILED
            passes = 0 if before.outcome is Outcome.FAILED else passes + 1
            recovering = passes < RECOVERED
            days = round((audit.due_at - audit.decision.at) / DAY, 3)
            assert days == (1 if recovering else 14)
            assert ("recovery" in overrides(audit)) is recovering
    assert failures


@pytest.mark.slow
def test_the_cap_on_the_sample_is_recorded_with_what_was_really_sampled(
    stories: dict[bytes, list[leaf.Audit]],
) -> None:
    """Before, the evidence said 0.20 of the blocks, however few the cap left."""
    for audit in (audit for story in stories.values() for audit in story):
        assert audit.challenge.samples == CAP
        *_, last = audit.decision.overrides
        assert last.rail == "sample-cap"
        assert audit.decision.action.ratio == CAP / audit.challenge.blocks
