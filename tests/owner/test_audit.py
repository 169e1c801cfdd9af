"""Audits the whole way: the ledger's verdict on what a real node answers, or does not."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from tests.support.database import run_sql
from tests.support.owner_env import World, flip, node_process
from tests.support.small_node import SAMPLE_CAP

from holdfast.errors import RefusedError, UnansweredError, UnreachableError
from holdfast.ledger.interface import Answer, Ledger, Receipt, TimedOut
from holdfast.owner import Holding, LedgerVerdict, resume, run_audit, sample_cap
from holdfast.owner.audit import SUBMITTED_LATE, Clock, NoAnswer, ask, draw, open_on, settle
from holdfast.owner.catalogue import Intent
from holdfast.pdp import Proof

CONTENT = random.Random(1).randbytes(10_000)


@dataclass
class Time:
    """Time that passes only when somebody waits."""

    now: float = 1e9

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def audited(world: World, time: Time) -> Iterator[tuple[Ledger, Holding]]:
    """Return the ledger, and a holding of one file on it."""
    world.put("plain", world.file(CONTENT))
    home = replace(world.home, clock=lambda: time.now)
    with home.holding("plain") as place, home.ledger(2) as ledger:
        yield ledger, place


def events(ledger: Ledger) -> list[object]:
    return [event for receipt in ledger.receipts() for event in receipt.events]


@pytest.mark.slow
def test_an_honest_node_passes(audited: tuple[Ledger, Holding], time: Time) -> None:
    finding = run_audit(*audited, 50, patience=30, clock=time.clock)
    assert (finding.outcome, finding.reason) == (LedgerVerdict.PASSED, None)
    assert not audited[1].catalogue.audits("plain")


def test_damage_in_the_sample_fails(
    world: World, audited: tuple[Ledger, Holding], time: Time
) -> None:
    blocks = audited[1].inventory.blocks
    for segment in world.one.stored(audited[1], "data"):
        flip(segment, *range(0, segment.stat().st_size, 31))
    finding = run_audit(*audited, min(blocks, SAMPLE_CAP), patience=30, clock=time.clock)
    assert finding.outcome is LedgerVerdict.FAILED


def test_a_node_that_admits_damage_runs_into_the_deadline(
    world: World, audited: tuple[Ledger, Holding], time: Time
) -> None:
    for segment in world.one.stored(audited[1], "tags"):
        flip(segment, *range(100, segment.stat().st_size, 31))
    finding = run_audit(*audited, 50, patience=30, clock=time.clock)
    assert finding.outcome is LedgerVerdict.TIMEOUT
    assert finding.reason is not None
    assert "refuses to prove it" in finding.reason


@pytest.mark.slow
def test_a_node_that_cannot_be_reached_times_out_and_has_not_failed(
    world: World, tmp_path: Path, time: Time
) -> None:
    key = world.one.folder.with_name("one.key")
    with node_process(tmp_path / "store", key, world.home.keyring.owner) as node:
        world.add("gone", node, encrypted=False, sectors=2)
        world.put("gone", world.file(CONTENT))
    home = replace(world.home, clock=lambda: time.now)
    with home.holding("gone") as place, home.ledger(2) as ledger:
        assert sample_cap(place) is None
        finding = run_audit(ledger, place, 50, patience=30, clock=time.clock)
        assert isinstance(events(ledger)[-1], TimedOut)
    assert finding.outcome is LedgerVerdict.TIMEOUT
    assert finding.reason is not None
    assert "can't reach the node" in finding.reason
    assert "not a failed proof" in finding.reason


def test_an_answer_after_the_deadline_does_not_count(
    audited: tuple[Ledger, Holding], time: Time
) -> None:
    question = draw(*audited, 50, time.now, 30)
    open_on(*audited, question)
    answer = ask(*audited, question)
    assert isinstance(answer, Answer)
    time.now += 31
    assert isinstance(settle(*audited, question, answer), NoAnswer)


def test_a_proof_that_we_bring_late_is_no_fault_of_the_node(
    audited: tuple[Ledger, Holding], time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, place = audited
    submit = ledger.submit

    def slowly(*arguments: Any) -> Receipt:
        time.now += 31
        return submit(*arguments)

    monkeypatch.setattr(ledger, "submit", slowly)
    finding = run_audit(ledger, place, 50, patience=30, clock=time.clock)
    assert (finding.outcome, finding.reason) == (LedgerVerdict.TIMEOUT, SUBMITTED_LATE)


def test_the_reason_of_a_timeout_is_that_the_node_took_the_challenge(
    audited: tuple[Ledger, Holding], time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs up once, and can't be reached after that."""
    ledger, place = audited
    errors = chain([UnansweredError("took it")], repeat(UnreachableError("can't reach it")))

    def prove(*_asked: Any, **_limits: Any) -> Answer:
        raise next(errors)

    monkeypatch.setattr(place.node, "prove", prove)
    finding = run_audit(ledger, place, 50, patience=30, clock=time.clock)
    assert (finding.outcome, finding.reason) == (LedgerVerdict.TIMEOUT, "took it")


def test_a_wrong_proof_that_the_node_did_not_sign_frames_nobody(
    audited: tuple[Ledger, Holding], time: Time
) -> None:
    question = draw(*audited, 50, time.now, 30)
    open_on(*audited, question)
    answer = ask(*audited, question)
    assert isinstance(answer, Answer)
    forged = Proof(question.challenge.id, answer.proof.sigma + 1, answer.proof.mu)
    assert isinstance(settle(*audited, question, replace(answer, proof=forged)), NoAnswer)
    assert not isinstance(settle(*audited, question, answer), NoAnswer)


def test_another_node_at_the_same_place_is_not_believed(world: World, time: Time) -> None:
    world.put("plain", world.file(CONTENT))
    run_sql(world.home.address, "UPDATE catalogue SET url = :url", url=world.two.url)
    home = replace(world.home, clock=lambda: time.now)
    with home.holding("plain") as place, home.ledger(2) as ledger:
        finding = run_audit(ledger, place, 50, patience=5, clock=time.clock)
    assert finding.outcome is LedgerVerdict.TIMEOUT


def test_disagreement_on_the_inventory_is_told_and_no_timeout(
    world: World, audited: tuple[Ledger, Holding], time: Time
) -> None:
    record = audited[1].file("file")
    with world.home.catalogue() as catalogue:
        catalogue.conclude("plain", Intent(replace(record, version=record.version + 1)))
    with pytest.raises(RefusedError, match="disagree on what is stored"):
        run_audit(*audited, 50, patience=30, clock=time.clock)


def test_what_the_node_took_in_a_crash_is_audited_too(
    world: World, audited: tuple[Ledger, Holding], time: Time
) -> None:
    ledger, place = audited
    before = run_sql(world.home.address, "SELECT * FROM files")
    stored = world.put("plain", world.file(b"something more", "more")).file
    run_sql(world.home.address, "DELETE FROM files WHERE name = :name", name=b"more")
    assert run_sql(world.home.address, "SELECT * FROM files") == before
    with world.home.catalogue() as catalogue:  # as if we had been killed before we heard of it
        catalogue.intend("plain", Intent(stored))
    finding = run_audit(ledger, place, 50, patience=30, clock=time.clock)
    assert finding.outcome is LedgerVerdict.PASSED
    assert [file.name for file in place.catalogue.files("plain")] == ["file", "more"]


def test_an_audit_left_open_is_expired_after_its_deadline(
    audited: tuple[Ledger, Holding], time: Time
) -> None:
    ledger, place = audited
    question = draw(ledger, place, 50, time.now, 30)
    place.catalogue.begin_audit("plain", question.row)
    open_on(ledger, place, question)
    time.now += 100
    (finding,) = resume(ledger, place, time.clock)
    assert finding.outcome is LedgerVerdict.TIMEOUT
    assert finding.reason == "the audit was interrupted on the owner's side"
    assert resume(ledger, place, time.clock) == []


def test_an_audit_that_was_never_opened_is_dropped_after_its_deadline(
    audited: tuple[Ledger, Holding], time: Time
) -> None:
    ledger, place = audited
    question = draw(ledger, place, 50, time.now, 30)
    place.catalogue.begin_audit("plain", question.row)
    time.now += 100
    assert resume(ledger, place, time.clock) == []
    assert not place.catalogue.audits("plain")


def test_an_audit_that_was_settled_before_the_crash_is_not_held_again(
    audited: tuple[Ledger, Holding], time: Time
) -> None:
    ledger, place = audited
    question = draw(ledger, place, 50, time.now, 30)
    place.catalogue.begin_audit("plain", question.row)
    open_on(ledger, place, question)
    answer = ask(ledger, place, question)
    assert isinstance(answer, Answer)
    settle(ledger, place, question, answer)
    before = len(events(ledger))
    (finding,) = resume(ledger, place, time.clock)
    assert finding.outcome is LedgerVerdict.PASSED
    assert len(events(ledger)) == before


def test_a_verdict_that_somebody_else_brought_about_first_counts(
    audited: tuple[Ledger, Holding], time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, place = audited
    submit = ledger.submit

    def overtaken(holding: int, challenge: bytes, answer: Answer) -> Receipt:
        submit(holding, challenge, answer)
        return submit(holding, challenge, answer)

    monkeypatch.setattr(ledger, "submit", overtaken)
    finding = run_audit(ledger, place, 50, patience=30, clock=time.clock)
    assert finding.outcome is LedgerVerdict.PASSED


def test_an_audit_that_a_later_one_overtook_before_it_was_opened_is_dropped(
    audited: tuple[Ledger, Holding], time: Time
) -> None:
    ledger, place = audited
    question = draw(ledger, place, 50, time.now, 30)
    place.catalogue.begin_audit("plain", question.row)
    assert (
        run_audit(ledger, place, 50, patience=30, clock=time.clock).outcome is LedgerVerdict.PASSED
    )
    before = len(events(ledger))
    assert resume(ledger, place, time.clock) == []
    assert len(events(ledger)) == before
    assert (
        run_audit(ledger, place, 50, patience=30, clock=time.clock).outcome is LedgerVerdict.PASSED
    )
