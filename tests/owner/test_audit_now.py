"""Audits that an owner asks for: recorded as any other, resumed after a crash, within the rails."""

import random
from pathlib import Path

import pytest
from tests.support.database import run_sql
from tests.support.owner_env import World, flip

from holdfast.control.audit_now import audit_holdings
from holdfast.control.audits.types import AuditResult
from holdfast.control.evidence.reader import DatabaseLog
from holdfast.control.evidence.signer import current_signer
from holdfast.control.service import milliseconds
from holdfast.durations import DAY
from holdfast.evidence import leaf
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.leaf import Outcome
from holdfast.evidence.verification import Report, verify
from holdfast.model.action import Action
from holdfast.owner.catalogue import Intent
from holdfast.storage.database import open_database
from holdfast.storage.schema import NEVER

CONTENT = random.Random(1).randbytes(10_000)
SAMPLES = 37
pytestmark = pytest.mark.slow


def audit(world: World, *names: str, samples: int = SAMPLES) -> list[AuditResult]:
    return audit_holdings(world.home, names, lambda _blocks: samples, deadline_seconds=30)


def verified(world: World) -> tuple[Report, list[leaf.Audit]]:
    """Return what a stranger finds in the evidence, and the audits in it."""
    with open_database(world.home.address, read_only=True) as engine:
        log = DatabaseLog(engine, current_signer(world.home.keyring, engine).verifier)
        write_bundle(log, world.folder / "bundle")
        leaves = [leaf.decode(entry.leaf) for entry in log.entries()]
        report = verify(Bundle.open(world.folder / "bundle"), log.verifier)
    return report, [entry for entry in leaves if isinstance(entry, leaf.Audit)]


def asked_action(audit: leaf.Audit) -> Action:
    """Return what the owner's wish made of the policy's action."""
    (action,) = (o.action for o in audit.decision.overrides if o.rail == "asked")
    return action


def test_the_evidence_has_what_the_owner_asked_for(world: World) -> None:
    world.put("plain", world.file(CONTENT))
    (result,) = audit(world)
    assert (result.outcome, result.checked) == (Outcome.PASSED, SAMPLES)
    report, (recorded,) = verified(world)
    assert report.fine
    assert recorded.challenge == result.proof_detail.challenge
    assert asked_action(recorded).ratio == SAMPLES / result.units


def test_a_holding_that_is_due_is_sampled_as_asked(world: World) -> None:
    world.put("plain", world.file(CONTENT))
    audit(world)
    run_sql(world.home.address, "UPDATE holdings SET due = decided")
    (result,) = audit(world, samples=SAMPLES + 1)
    assert result.checked == SAMPLES + 1


def test_a_quarantined_holding_is_audited_and_stays_in_quarantine(world: World) -> None:
    world.put("plain", world.file(CONTENT))
    audit(world)
    change = "UPDATE holdings SET quarantined = :yes, due = :due"
    run_sql(world.home.address, change, yes=True, due=NEVER)
    (result,) = audit(world)
    assert result.outcome is Outcome.PASSED
    ((quarantined, due),) = run_sql(world.home.address, "SELECT quarantined, due FROM holdings")
    assert (bool(quarantined), due) == (True, NEVER)


def test_damage_is_reported_for_each_holding_by_itself(world: World) -> None:
    for name in ("plain", "secret"):
        world.put(name, world.file(CONTENT))
    with world.home.holding("plain") as holding:
        for segment in world.one.stored(holding, "data"):
            flip(segment, *range(0, segment.stat().st_size, 31))
    outcomes = {result.name: result.outcome for result in audit(world, samples=100)}
    assert outcomes == {"plain": Outcome.FAILED, "secret": Outcome.PASSED}


def test_what_the_node_took_in_a_crash_is_audited_too(world: World) -> None:
    world.put("plain", world.file(CONTENT))
    before = run_sql(world.home.address, "SELECT * FROM files")
    stored = world.put("plain", world.file(b"something more", "more")).file
    run_sql(world.home.address, "DELETE FROM files WHERE name = :name", name=b"more")
    assert run_sql(world.home.address, "SELECT * FROM files") == before
    with world.home.catalogue() as catalogue:  # as if we had been killed before we heard of it
        catalogue.intend("plain", Intent(stored))
    (result,) = audit(world)
    assert result.outcome is Outcome.PASSED
    with world.home.catalogue() as catalogue:
        assert [file.name for file in catalogue.files("plain")] == ["file", "more"]


def test_nothing_is_printed(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    world.put("plain", world.file(CONTENT))
    audit(world)
    assert capfd.readouterr() == ("", "")


def test_a_whole_sample_is_recorded_even_if_its_audit_is_resumed(world: World) -> None:
    world.put("plain", world.file(CONTENT[:3000]))
    for segment in _tags(world):
        flip(segment, *range(100, segment.stat().st_size, 31))
    (result,) = audit_holdings(world.home, [], lambda blocks: blocks, deadline_seconds=2)
    assert result.outcome is Outcome.ADMITTED
    report, (recorded,) = verified(world)
    assert report.fine
    assert asked_action(recorded).ratio == 1.0


def _tags(world: World) -> list[Path]:
    with world.home.holding("plain") as holding:
        return world.one.stored(holding, "tags")


def test_an_audit_is_recorded_after_the_clock_was_set_back(world: World) -> None:
    world.put("plain", world.file(CONTENT))
    audit(world)
    later = milliseconds() + 30 * DAY
    run_sql(world.home.address, "UPDATE holdings SET audited = :at, decided = :at", at=later)
    (result,) = audit(world)
    assert result.outcome is Outcome.PASSED
    assert audit(world)[0].outcome is Outcome.PASSED
