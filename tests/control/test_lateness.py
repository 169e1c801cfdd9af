"""What we bring late, or can't show that we asked, is never held against a node.

Keys, proofs and the ledger are real; time passes when it is told to.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.chain_operation import DAILY, TOGETHER, Interrupted, check_evidence, events
from tests.support.simulated_fleet import START
from tests.support.simulated_operation import Operation, operation

from holdfast.control.audits.lanes import ThreadLanes
from holdfast.control.audits.running_audit import (
    OPENED_LATE,
    WE_WERE_AWAY,
    WE_WERE_LATE,
    WRONG_AND_LATE,
)
from holdfast.control.audits.types import AuditResult
from holdfast.control.settings.models import Pace, SettlementMode, Timeouts
from holdfast.durations import DAY, HOUR, MINUTE, SECOND
from holdfast.errors import LedgerError
from holdfast.evidence.leaf import Outcome
from holdfast.ledger import signing
from holdfast.ledger.interface import Answer, TimedOut
from holdfast.model.scenario import PAPER
from holdfast.node.proof_messages import ProofQuestion

WINDOW = Timeouts().deadline


@pytest.fixture(params=SettlementMode)
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Operation:
    """Return an operation in which all holdings are due."""
    running = operation(tmp_path, PAPER, TOGETHER, policy=DAILY, settlement=request.param)
    running.until(START)
    running.clock.now = START + DAY
    return running


def outcomes(results: list[AuditResult]) -> Counter[tuple[Outcome, str]]:
    return Counter((each.outcome, each.reason) for each in results)


def finish(running: Operation) -> list[AuditResult]:
    """Let the rest of the window pass, and return what came of it."""
    results: list[AuditResult] = []
    end = running.clock.now + WINDOW + 3 * MINUTE
    while running.clock.now < end:
        results += running.worker.tick().concluded
        running.clock.now += MINUTE
    return results


def wrapped(running: Operation, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Do something whenever answers are brought to the ledger, before it looks at them."""
    chain = running.world.chain
    for name in ("settle", "submit"):
        call = getattr(chain, name)

        def late(*told: Any, call: Any = call) -> Any:
            act()
            return call(*told)

        monkeypatch.setattr(chain, name, late)


def test_an_answer_that_a_slow_ledger_takes_late_is_unknown(
    running: Operation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before, all 12 were timed out, on the ledger too, though they had answered at once."""
    honest(running)

    def take_long() -> None:
        running.clock.now = max(running.clock.now, START + DAY + WINDOW + 2 * SECOND)

    wrapped(running, monkeypatch, take_long)
    results = list(running.worker.tick().concluded)
    assert outcomes(results) == {(Outcome.UNKNOWN, WE_WERE_LATE): TOGETHER}
    assert events(running, TimedOut) == []
    for result in results:
        assert result.proof_detail.proof is not None
        assert result.proof_detail.verdict is None
    running.sequencer.sequence()
    check_evidence(running, tmp_path)


def test_an_answer_that_a_ledger_away_never_took_is_unknown(
    running: Operation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    honest(running)

    def away() -> None:
        raise LedgerError("can't reach the chain")

    with monkeypatch.context() as patch:
        wrapped(running, patch, away)
        assert running.worker.tick().waiting == TOGETHER
        running.clock.now += WINDOW + MINUTE
    for subject in running.world.subjects:
        subject.unreachable = 1.0
    assert outcomes(finish(running)) == {(Outcome.UNKNOWN, WE_WERE_LATE): TOGETHER}
    assert events(running, TimedOut) == []
    running.sequencer.sequence()
    check_evidence(running, tmp_path)


def test_a_wrong_proof_in_the_last_moment_is_a_failure_all_the_same(
    running: Operation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else a node that can't pass would answer so late that nobody can settle it."""
    honest(running)
    liar = running.world.subjects[4]

    def wrong(question: ProofQuestion) -> Answer:
        challenge, to = question.challenge, question.to
        assert to is not None
        proof = liar._proof(challenge, damaged=True)
        name = to.name_of(challenge)
        return Answer(proof, signing.sign(liar.private, to.domain, to.holding_id, name, proof))

    monkeypatch.setattr(liar, "prove", wrong)

    def take_long() -> None:
        running.clock.now = max(running.clock.now, START + DAY + WINDOW + 2 * SECOND)

    wrapped(running, monkeypatch, take_long)
    results = list(running.worker.tick().concluded)
    assert outcomes(results) == {
        (Outcome.UNKNOWN, WE_WERE_LATE): TOGETHER - 1,
        (Outcome.FAILED, WRONG_AND_LATE): 1,
    }
    running.sequencer.sequence()
    check_evidence(running, tmp_path)


def test_what_a_killed_worker_never_asked_is_unknown(
    running: Operation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before, all 12 were offline, though nobody had asked their nodes."""
    honest(running)
    killed_while_asking(running, monkeypatch)
    running.clock.now += WINDOW + MINUTE
    assert outcomes(finish(running)) == {(Outcome.UNKNOWN, WE_WERE_AWAY): TOGETHER}
    assert events(running, TimedOut) == []
    running.sequencer.sequence()
    check_evidence(running, tmp_path)


def test_a_clock_that_is_set_forward_while_a_node_answers_makes_nobody_late(
    running: Operation, tmp_path: Path
) -> None:
    """Else answers seem to arrive after the deadline, and nodes seem to be asked after it."""
    honest(running)
    lanes = running.worker._auditor._lanes = ThreadLanes(running.clock, at_once=1)  # type: ignore[attr-defined]
    prove, clock = type(running.world.subjects[0]).prove, running.clock

    def set_forward(question: ProofQuestion, subject: Any) -> Answer:
        clock.now = START + DAY + WINDOW + MINUTE
        return prove(subject, question)

    for subject in running.world.subjects:
        subject.prove = partial(set_forward, subject=subject)  # type: ignore[method-assign]
    results: list[AuditResult] = []
    for _ in range(100):
        results += running.worker.tick().concluded
        if len(results) == TOGETHER:
            break
    lanes.close()
    assert {each.outcome for each in results} == {Outcome.UNKNOWN}
    running.sequencer.sequence()
    check_evidence(running, tmp_path)


@pytest.mark.slow
def test_a_node_that_we_stopped_asking_is_not_blamed(running: Operation) -> None:
    """A node that was away for a moment might have answered the next try."""
    for subject in running.world.subjects:
        subject.unreachable = 1.0
    assert running.worker.tick().waiting == TOGETHER
    running.clock.now += WINDOW + MINUTE  # in which nobody works
    assert outcomes(finish(running)) == {(Outcome.UNKNOWN, WE_WERE_AWAY): TOGETHER}


@pytest.mark.slow
def test_a_node_that_is_asked_until_the_deadline_was_offline(running: Operation) -> None:
    for subject in running.world.subjects:
        subject.unreachable = 1.0
    assert {each.outcome for each in finish(running)} == {Outcome.OFFLINE}
    assert len(events(running, TimedOut)) == TOGETHER


@pytest.mark.slow
def test_a_node_gets_half_of_its_time_at_least_before_it_is_blamed(
    running: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for subject in running.world.subjects:
        subject.unreachable = 1.0
    with monkeypatch.context() as patch:
        for name in ("open", "open_many"):

            def away(*_told: Any) -> None:
                raise LedgerError("can't reach the chain")

            patch.setattr(running.world.chain, name, away)
        while running.clock.now < START + DAY + WINDOW * 3 // 4:
            running.worker.tick()
            running.clock.now += MINUTE
    assert outcomes(finish(running)) == {(Outcome.UNKNOWN, OPENED_LATE): TOGETHER}


def honest(running: Operation) -> None:
    """Let every proof be right, whatever the world has drawn."""
    running.world.audited = lambda *_drawn: False  # type: ignore[method-assign]


def killed_while_asking(running: Operation, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(*_asked: Any, **_limits: Any) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        for subject in running.world.subjects:
            patch.setattr(subject, "prove", kill)
        with pytest.raises(Interrupted):
            running.worker.tick()
    assert Pace().lease < HOUR


@pytest.mark.slow
def test_the_last_try_comes_shortly_before_the_deadline(running: Operation) -> None:
    asked: list[int] = []
    subject = running.world.subjects[0]
    prove = subject.prove

    def note(*question: Any, **limits: Any) -> Any:
        asked.append(running.clock.now)
        return prove(*question, **limits)

    subject.prove = note  # type: ignore[method-assign]
    for each in running.world.subjects:
        each.unreachable = 1.0
    finish(running)
    deadline = START + DAY + WINDOW
    assert deadline - MINUTE - SECOND <= asked[-1] <= deadline
    assert replace(Timeouts(), deadline=20 * SECOND).last_try == 2 * SECOND
