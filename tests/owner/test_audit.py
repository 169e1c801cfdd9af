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
from tests.support.single_audit import Clock, SingleAudit, draw, run_audit
from tests.support.small_node import SAMPLE_CAP

from holdfast.control.audits.running_audit import WE_WERE_AWAY, WE_WERE_LATE
from holdfast.control.audits.types import AuditResult, NoAnswer
from holdfast.control.audits.verdicts import Verdict
from holdfast.errors import UnansweredError, UnreachableError
from holdfast.evidence.leaf import Outcome
from holdfast.ledger.interface import Answer, Ledger, Receipt, TimedOut
from holdfast.owner import Holding
from holdfast.owner.catalogue import Intent
from holdfast.pdp import Proof

CONTENT = random.Random(1).randbytes(10_000)
DEADLINE_SECONDS = 30


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


@dataclass(frozen=True)
class Scene:
    """A holding of one file, its ledger and the time."""

    ledger: Ledger
    holding: Holding
    time: Time

    def draw(self, samples: int = 50) -> SingleAudit:
        clock = self.time.clock
        return draw(self.ledger, self.holding, samples, clock, deadline_seconds=DEADLINE_SECONDS)

    def audit(self, samples: int = 50) -> AuditResult:
        return self.draw(samples).finish()

    def events(self) -> list[object]:
        return [event for receipt in self.ledger.receipts() for event in receipt.events]


@pytest.fixture
def scene(world: World, time: Time) -> Iterator[Scene]:
    world.put("plain", world.file(CONTENT))
    home = replace(world.home, clock=lambda: time.now)
    with home.holding("plain") as holding, home.ledger(2) as ledger:
        yield Scene(ledger, holding, time)


@pytest.mark.slow
def test_an_honest_node_passes(scene: Scene) -> None:
    result = scene.audit()
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")


def test_damage_in_the_sample_fails(world: World, scene: Scene) -> None:
    for segment in world.one.stored(scene.holding, "data"):
        flip(segment, *range(0, segment.stat().st_size, 31))
    result = scene.audit(min(scene.holding.inventory.blocks, SAMPLE_CAP))
    assert result.outcome is Outcome.FAILED


def test_a_node_that_admits_damage_runs_into_the_deadline(world: World, scene: Scene) -> None:
    for segment in world.one.stored(scene.holding, "tags"):
        flip(segment, *range(100, segment.stat().st_size, 31))
    result = scene.audit()
    assert result.outcome is Outcome.ADMITTED
    assert isinstance(scene.events()[-1], TimedOut)
    assert result.reason.startswith("the node admits the loss")


@pytest.mark.slow
def test_a_node_that_cannot_be_reached_is_offline_and_has_not_failed(
    world: World, tmp_path: Path, time: Time
) -> None:
    key = world.one.folder.with_name("one.key")
    with node_process(tmp_path / "store", key, world.home.keyring.owner) as node:
        world.add("gone", node, encrypted=False, sectors=2)
        world.put("gone", world.file(CONTENT))
    home = replace(world.home, clock=lambda: time.now)
    with home.holding("gone") as holding, home.ledger(2) as ledger:
        scene = Scene(ledger, holding, time)
        result = scene.audit()
        assert isinstance(scene.events()[-1], TimedOut)
    assert result.outcome is Outcome.OFFLINE
    assert "can't reach the node" in result.reason
    assert "not a failed proof" in result.reason


def test_an_answer_after_the_deadline_does_not_count(scene: Scene) -> None:
    audit = scene.draw()
    audit.open()
    scene.time.now += DEADLINE_SECONDS + 1
    assert isinstance(audit.ask(), Answer)
    audit.settle()
    result = audit.conclude()
    assert isinstance(result, AuditResult)
    assert (result.outcome, result.proof_detail.proof) == (Outcome.UNKNOWN, None), (
        "we asked too late"
    )


def test_a_proof_that_we_bring_late_is_no_fault_of_the_node(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = scene.ledger.submit

    def slowly(*arguments: Any) -> Receipt:
        scene.time.now += DEADLINE_SECONDS + 1
        return submit(*arguments)

    monkeypatch.setattr(scene.ledger, "submit", slowly)
    result = scene.audit()
    assert (result.outcome, result.reason) == (Outcome.UNKNOWN, WE_WERE_LATE)
    assert not any(isinstance(event, TimedOut) for event in scene.events())


def test_the_reason_of_a_timeout_is_that_the_node_took_the_challenge(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs up once, and can't be reached after that."""
    errors = chain([UnansweredError("took it")], repeat(UnreachableError("can't reach it")))

    def prove_many(*_asked: Any, **_limits: Any) -> list[Answer]:
        raise next(errors)

    monkeypatch.setattr(scene.holding.node, "prove_many", prove_many)
    result = scene.audit()
    assert (result.outcome, result.reason) == (Outcome.TIMED_OUT, "took it")


def test_a_wrong_proof_that_the_node_did_not_sign_frames_nobody(scene: Scene) -> None:
    audit = scene.draw()
    answer = audit.answer()
    forged = Proof(audit.challenge.id, answer.proof.sigma + 1, answer.proof.mu)
    challenge = audit.running.challenge
    assert isinstance(challenge.settle(replace(answer, proof=forged)), NoAnswer)
    assert isinstance(challenge.settle(answer), Verdict)


def test_another_node_at_the_same_place_is_not_believed(world: World, time: Time) -> None:
    world.put("plain", world.file(CONTENT))
    run_sql(world.home.address, "UPDATE catalogue SET url = :url", url=world.two.url)
    home = replace(world.home, clock=lambda: time.now)
    with home.holding("plain") as holding, home.ledger(2) as ledger:
        result = run_audit(ledger, holding, 50, time.clock, deadline_seconds=5)
    assert result.outcome is Outcome.TIMED_OUT


def test_the_reason_of_a_timeout_is_that_owner_and_node_disagree_on_the_inventory(
    world: World, scene: Scene
) -> None:
    record = scene.holding.file("file")
    with world.home.catalogue() as catalogue:
        catalogue.conclude("plain", Intent(replace(record, version=record.version + 1)))
    result = scene.audit()
    assert result.outcome is Outcome.TIMED_OUT
    assert "disagree on what is stored" in result.reason


def test_an_audit_left_open_beyond_its_deadline_blames_nobody(scene: Scene) -> None:
    audit = scene.draw()
    audit.open()
    scene.time.now += 100
    result = audit.resume().try_once()
    assert isinstance(result, AuditResult)
    assert (result.outcome, result.reason) == (Outcome.UNKNOWN, WE_WERE_AWAY)


def test_an_audit_that_was_never_opened_is_not_opened_after_its_deadline(scene: Scene) -> None:
    audit, before = scene.draw(), scene.events()
    scene.time.now += 100
    result = audit.resume().try_once()
    assert isinstance(result, AuditResult)
    assert (result.outcome, result.reason) == (Outcome.UNKNOWN, WE_WERE_AWAY)
    assert scene.events() == before


def test_an_audit_that_was_settled_before_the_crash_is_not_held_again(scene: Scene) -> None:
    audit = scene.draw()
    audit.answer()
    audit.settle()
    before = scene.events()
    result = audit.resume().try_once()
    assert isinstance(result, AuditResult)
    assert result.outcome is Outcome.PASSED
    assert result.proof_detail.proof is not None
    assert scene.events() == before


def test_a_verdict_that_somebody_else_brought_about_first_counts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = scene.ledger.submit

    def overtaken(holding: int, challenge: bytes, answer: Answer) -> Receipt:
        submit(holding, challenge, answer)
        return submit(holding, challenge, answer)

    monkeypatch.setattr(scene.ledger, "submit", overtaken)
    assert scene.audit().outcome is Outcome.PASSED


def test_an_audit_that_a_later_one_overtook_before_it_was_opened_blames_nobody(
    scene: Scene,
) -> None:
    overtaken = scene.draw()
    assert scene.audit().outcome is Outcome.PASSED
    before = scene.events()
    assert overtaken.resume().finish().outcome is Outcome.UNKNOWN
    assert scene.events() == before
    assert scene.audit().outcome is Outcome.PASSED
