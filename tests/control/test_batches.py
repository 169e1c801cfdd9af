"""What is due together is opened and settled together, and comes to the same as one by one."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.support.chain_operation import (
    DAILY,
    TOGETHER,
    Interrupted,
    OnChain,
    check_evidence,
    events,
)
from tests.support.killed_workers import names_opened
from tests.support.ledger_env import evm_world
from tests.support.simulated_fleet import START
from tests.support.simulated_operation import Operation, operation

from holdfast.control.audits.types import Auditor, AuditResult, Deferred
from holdfast.control.scheduling.claims import Claim
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.settings.models import Pace, SettlementMode
from holdfast.durations import DAY, HOUR
from holdfast.errors import LedgerError
from holdfast.evidence.leaf import Outcome
from holdfast.ledger.interface import Answer, Batch, Opened, OpenedMany, Passed, Receipt, TimedOut
from holdfast.model.scenario import PAPER
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.pdp import FileEntry, Inventory, Proof, SecretKey
from holdfast.storage.database import transaction
from holdfast.storage.schema import audits, holdings


def days(running: Operation, count: int) -> list[AuditResult]:
    """Let days pass, each with its audits and what follows within some hours."""
    ticks = running.until(running.clock.now + count * DAY + 2 * HOUR)
    return [result for tick in ticks for result in tick.concluded]


def daily(folder: Path, **options: Any) -> Operation:
    return operation(folder, PAPER, TOGETHER, policy=DAILY, **options)


@pytest.mark.slow
def test_a_batch_comes_to_the_same_as_one_by_one(tmp_path: Path) -> None:
    came = {}
    for settlement in SettlementMode:
        folder = tmp_path / settlement
        folder.mkdir()
        running = daily(folder, settlement=settlement)
        results = days(running, 3)
        came[settlement] = Counter(
            (each.proof_detail.holding.id & 0xFF, each.outcome) for each in results
        )
        check_evidence(running, folder)
        single, many = len(events(running, Opened)), len(events(running, OpenedMany))
        assert (single, many) == ((36, 0) if settlement == SettlementMode.SINGLE else (0, 3))
    assert came[SettlementMode.SINGLE] == came[SettlementMode.BATCH]
    assert sum(came[SettlementMode.BATCH].values()) == 3 * TOGETHER


@pytest.mark.slow
def test_answers_that_the_ledger_refuses_do_no_harm_to_their_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = daily(tmp_path)
    liar, garbled, away = running.world.subjects[3:6]
    honest = liar.prove

    def unsigned(*asked: Any, **limits: Any) -> Any:
        answer = honest(*asked, **limits)
        wrong = Proof(answer.proof.challenge_id, answer.proof.sigma ^ 1, answer.proof.mu)
        return replace(answer, proof=wrong)

    def too_long(*asked: Any, **limits: Any) -> Any:
        answer = type(garbled).prove(garbled, *asked, **limits)
        proof = replace(answer.proof, mu=(*answer.proof.mu, 1))
        return replace(answer, proof=proof)

    monkeypatch.setattr(liar, "prove", unsigned)
    monkeypatch.setattr(garbled, "prove", too_long)
    away.unreachable = 1.0
    results = days(running, 1)
    by_number = {each.proof_detail.holding.id & 0xFFFFFFFF: each for each in results}
    assert by_number[3].outcome == by_number[4].outcome == Outcome.TIMED_OUT
    assert by_number[5].outcome == Outcome.OFFLINE
    assert {by_number[k].outcome for k in range(TOGETHER) if not 3 <= k <= 5} <= {
        Outcome.PASSED,
        Outcome.FAILED,
    }
    expiries = [
        receipt
        for receipt in running.world.chain.receipts()
        if any(isinstance(event, TimedOut) for event in receipt.events)
    ]
    assert [len(receipt.events) for receipt in expiries] == [3], "they expire together"
    check_evidence(running, tmp_path)


def test_a_holding_that_waits_for_its_first_audit_is_no_fault_of_the_log(tmp_path: Path) -> None:
    running = daily(tmp_path)
    days(running, 1)
    running.schedule.add([("new", 10, SecretKey(b"k" * 32, 1).public)], running.clock.now)
    assert len(list(running.log().public_keys())) == TOGETHER
    check_evidence(running, tmp_path)


@pytest.fixture(params=["local", "evm"])
def daily_on(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[SettlementMode], Operation]:
    """Return what starts an operation on one of the ledgers."""

    def start(settlement: SettlementMode) -> Operation:
        if request.param == "local":
            return daily(tmp_path, settlement=settlement)
        chain = evm_world(tmp_path, 1)
        clock = OnChain(chain)
        return daily(tmp_path, settlement=settlement, clock=clock, chain=chain.owner)

    return start


def a_day_later(running: Operation) -> None:
    running.until(running.clock.now)
    running.clock.now += DAY


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settlement", "after"),
    [
        (SettlementMode.BATCH, "open_many"),
        (SettlementMode.BATCH, "settle"),
        (SettlementMode.SINGLE, "open"),
        (SettlementMode.SINGLE, "submit"),
    ],
)
def test_an_interruption_anywhere_tells_the_ledger_nothing_twice(
    daily_on: Callable[[SettlementMode], Operation],
    settlement: SettlementMode,
    after: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    running = daily_on(settlement)
    a_day_later(running)
    chain = running.world.chain
    call = getattr(chain, after)

    def killed(*told: Any) -> None:
        call(*told)
        raise Interrupted

    monkeypatch.setattr(chain, after, killed)
    with pytest.raises(Interrupted):
        running.worker.tick()
    monkeypatch.setattr(chain, after, call)
    # Those who take over get other shares of the batch than the one who left it.
    running.worker._pace = Pace(batch=5)
    running.clock.now += Pace().lease + 1
    while running.worker.tick().busy:
        pass
    with transaction(running.engine) as connection:
        made = connection.execute(select(audits.c.outcome)).scalars().all()
        assert connection.execute(select(holdings.c.flight)).scalars().all() == [None] * TOGETHER
    assert len(made) == TOGETHER
    assert set(made) <= {Outcome.PASSED, Outcome.FAILED}
    openings = [*events(running, Opened), *events(running, OpenedMany)]
    opened = [name for event in openings for name in names_opened(event)]
    assert len(opened) == len(set(opened)) == TOGETHER
    passed = [event.challenge for event in events(running, Passed)]
    assert len(passed) == len(set(passed)) == made.count(Outcome.PASSED)
    running.sequencer.sequence()
    check_evidence(running, tmp_path)


@pytest.mark.slow
def test_one_that_a_stranger_settled_stands_in_nobodys_way(
    daily_on: Callable[[SettlementMode], Operation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the ledger refused all twelve, and took twelve transactions instead of one."""
    running = daily_on(SettlementMode.BATCH)
    a_day_later(running)
    chain = running.world.chain
    settle = chain.settle
    settled: list[Receipt] = []

    def overtaken(batch: Batch, answers: dict[int, Answer]) -> Receipt:
        if not settled:
            settled.append(settle(batch, {3: answers[3]}))  # anyone may, and does so before us
        settled.append(settle(batch, answers))
        return settled[-1]

    monkeypatch.setattr(chain, "settle", overtaken)
    results = running.worker.tick().concluded
    assert len(results) == TOGETHER
    assert {result.outcome for result in results} <= {Outcome.PASSED, Outcome.FAILED}
    assert [len(receipt.events) for receipt in settled] == [1, TOGETHER - 1]


def test_a_ledger_that_is_away_is_asked_once_for_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = daily(tmp_path)
    running.until(START)
    running.clock.now = START + DAY
    tried = []

    def away(*told: Any) -> None:
        tried.append(told)
        raise LedgerError("can't reach the chain")

    with monkeypatch.context() as patch:
        patch.setattr(running.world.chain, "open_many", away)
        tick = running.worker.tick()
        assert (tick.waiting, len(tried)) == (TOGETHER, 1)
        assert tick.trouble
    running.clock.now += HOUR // 2
    assert len(running.worker.tick().concluded) == TOGETHER
    assert len(events(running, OpenedMany)) == 1


@pytest.mark.slow
def test_what_is_due_waits_for_more_to_be_settled_with(tmp_path: Path) -> None:
    running = daily(tmp_path, rails=Rails(jitter=0.1, first=0.0))
    running.worker._pace = Pace(gather=6 * HOUR)
    while running.clock.now < START + 5 * DAY:
        running.worker.tick()
        running.clock.now += HOUR // 2
    opened = [len(event.words) for event in events(running, OpenedMany)]
    assert sum(opened) + len(events(running, Opened)) >= 3 * TOGETHER
    assert max(opened) > TOGETHER // 2
    with transaction(running.engine) as connection:
        late = connection.execute(select(func.max(audits.c.ended - audits.c.due))).scalar_one()
    assert 0 < late < 7 * HOUR


def test_a_whole_batch_waits_for_nobody(tmp_path: Path) -> None:
    running = daily(tmp_path)
    running.worker._pace = Pace(gather=6 * HOUR, batch=TOGETHER)
    assert running.worker.tick().decided == TOGETHER
    running.clock.now += DAY
    assert len(running.worker.tick().concluded) == TOGETHER
    running.worker._pace = Pace(gather=6 * HOUR, batch=TOGETHER + 1)
    running.clock.now += DAY
    assert running.worker.tick().claimed == 0
    running.clock.now += 6 * HOUR
    assert running.worker.tick().claimed == TOGETHER


@pytest.mark.slow
def test_a_holding_that_its_owner_changes_meanwhile_has_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = daily(tmp_path)
    subject = running.world.subjects[2]

    def refuse(*_asked: Any, **_limits: Any) -> None:
        entry = FileEntry(b"n" * 16, 1, bytes(32), 5)
        subject.inventory = Inventory(subject.key.public.id, 1).with_file(entry)
        raise NodeRefusedError(Code.INVENTORY, "it has another inventory")

    monkeypatch.setattr(subject, "prove", refuse)
    (result,) = (
        each for each in days(running, 1) if each.proof_detail.holding.id & 0xFFFFFFFF == 2
    )
    assert result.outcome == Outcome.UNKNOWN
    assert result.reason == "the holding was changed while its audit was under way"
    check_evidence(running, tmp_path)


@pytest.mark.slow
def test_a_batch_costs_less_on_a_chain(tmp_path: Path) -> None:
    gas = {}
    for settlement in SettlementMode:
        folder = tmp_path / settlement
        folder.mkdir()
        chain = evm_world(folder, 1)
        running = daily(folder, settlement=settlement, clock=OnChain(chain), chain=chain.owner)
        results = days(running, 1)
        assert len(results) == TOGETHER
        assert {each.outcome for each in results} <= {Outcome.PASSED, Outcome.FAILED}
        gas[settlement] = sum(each.gas for each in results)
        check_evidence(running, folder)
    assert gas[SettlementMode.BATCH] < 0.5 * gas[SettlementMode.SINGLE]


class Slow:
    """An auditor that takes its time."""

    def __init__(self, inner: Auditor, running: Operation, lease: int) -> None:
        self.inner, self.running, self.lease = inner, running, lease
        self.extended = Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def collect(self, seconds: float) -> Sequence[tuple[Claim, AuditResult | Deferred]]:
        self.running.clock.now += self.lease // 2
        extend = self.running.schedule.extend

        def extended(claims: Collection[Claim], until: int) -> None:
            extend(claims, until)
            self.extended.set()

        self.running.schedule.extend = extended  # type: ignore[method-assign]
        assert self.extended.wait(60)
        self.running.clock.now += self.lease * 3 // 4
        assert self.running.schedule.claim(self.running.clock.now, self.lease, 99) == []
        return self.inner.collect(seconds)


@pytest.mark.slow
def test_a_lease_is_lengthened_while_nodes_take_their_time(tmp_path: Path) -> None:
    running = daily(tmp_path)
    running.until(START)
    running.clock.now = START + DAY
    lease = 600
    running.worker._pace = Pace(lease=lease)
    running.worker._auditor = Slow(running.worker._auditor, running, lease)
    assert len(running.worker.tick().concluded) == TOGETHER
