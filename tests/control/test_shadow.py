"""Shadows: they see what the champion sees, change nothing, and are ready to take its place."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select, update
from tests.support.simulated_fleet import START
from tests.support.simulated_operation import SIGNER, Operation, operation

from holdfast.control.policies.aliases import (
    Aliases,
    Author,
    challenge,
    promote,
    read_aliases,
    rollback,
)
from holdfast.control.policies.comparison import compare
from holdfast.control.policies.shadow_states import ShadowRecord
from holdfast.control.policies.versions import Registry
from holdfast.control.queries.policies import TERMS
from holdfast.control.scheduling.guardrails import Override, Rails
from holdfast.durations import DAY, HOUR
from holdfast.evidence import leaf
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.verification import verify
from holdfast.model.scenario import PAPER
from holdfast.policy.serving import Serving
from holdfast.storage.database import transaction
from holdfast.storage.schema import audits, holdings, shadow_sums, shadows, versions

COUNT = 6
TWIN = "drqn-cmdp-plus:rho=0.05,latency=9.1"  # another version, whose dial is the default one
Before = Callable[[Operation], None]


@pytest.fixture(autouse=True)
def _same_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_bytes", bytes)  # the ledger's name


def started(folder: Path, rails: Rails | None = None) -> Operation:
    folder.mkdir()
    running = operation(folder, PAPER, COUNT, seed=5, rails=rails or Rails())
    running.world.subjects[3].unreachable = 0.7
    return running


def author(running: Operation) -> Author:
    return Author("tester", running.clock.now, "a test")


def named(running: Operation, name: str) -> str:
    """Make the policy of that name the challenger; return its version."""
    version = Registry(running.engine).register(name, PAPER, running.clock.now).version
    challenge(running.engine, aliases(running), version, author(running))
    return version


def aliases(running: Operation) -> Aliases:
    with transaction(running.engine) as connection:
        return read_aliases(connection)


def told(running: Operation) -> list[leaf.Leaf]:
    return [leaf.decode(entry.leaf) for entry in running.log().entries()]


def told_audits(running: Operation) -> list[leaf.Audit]:
    return [each for each in told(running) if isinstance(each, leaf.Audit)]


def without_shadow(each: leaf.Audit) -> leaf.Audit:
    return replace(each, decision=replace(each.decision, shadow=None))


@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize("name", [TWIN, "belief:rho=0.1", "fixed-low"])
def test_a_challenger_has_no_effect(tmp_path: Path, name: str) -> None:
    plain, shaded = started(tmp_path / "plain"), started(tmp_path / "shaded")
    version = named(shaded, name)
    for running in (plain, shaded):
        running.until(START + 30 * DAY + HOUR)
    audited = told_audits(shaded)
    assert [leaf.encode(without_shadow(each)) for each in audited] == [
        leaf.encode(each) for each in told_audits(plain)
    ]
    assert all(isinstance(each, leaf.Audit | leaf.PolicyChange) for each in told(shaded))
    assert len(audited) > 20
    rows = []
    for running in (plain, shaded):
        columns = [column for column in holdings.c if column.name != "token"]
        with transaction(running.engine) as connection:
            rows.append(connection.execute(select(*columns).order_by(holdings.c.id)).all())
    assert rows[0] == rows[1]
    choices = [each.decision.shadow for each in audited]
    assert {choice.policy.hash.hex() for choice in choices if choice} == {version}
    assert None not in choices


@pytest.mark.slow(seconds=10)
def test_a_challenger_that_decides_alike_agrees_in_everything(tmp_path: Path) -> None:
    running = started(tmp_path / "run")
    running.world.subjects[4].unreachable = 1.0
    version = named(running, TWIN)
    running.until(START + 40 * DAY)
    with transaction(running.engine) as connection:
        rows = connection.execute(select(shadow_sums)).all()
        states = dict(connection.execute(select(shadows.c.holding, shadows.c.memory)).all())
        own = dict(connection.execute(select(holdings.c.id, holdings.c.memory)).all())
        ended = connection.execute(select(holdings.c.id, holdings.c.number)).all()
    assert states == own
    for row in rows:
        assert row.agreed == row.decisions
        for column in TERMS:
            assert getattr(row, column) == getattr(row, f"champion_{column}")
    decisions = {row.holding: row.decisions for row in rows}
    assert decisions == {id_: number + 1 for id_, number in ended}, "of each audit, and the next"
    champion = str(aliases(running).champion)
    with transaction(running.engine) as connection:
        found = compare(connection, version, champion, unit=DAY)
    assert found is not None
    assert (found.agreement.low, found.agreement.high) == (1.0, 1.0)
    assert (found.decisions, found.holdings) == (sum(decisions.values()), COUNT)
    assert abs(found.gas_change.low) + abs(found.gas_change.high) < 1e-12
    assert found.rails.champion > 0, "one node is never reached"


@pytest.mark.slow(seconds=10)
def test_a_promotion_and_a_rollback_find_every_state_in_its_place(tmp_path: Path) -> None:
    """Who takes over decides as if it had done so all along, and so does who comes back."""
    plain, changed = started(tmp_path / "plain"), started(tmp_path / "changed")
    plain.until(START + 60 * DAY)
    old = str(aliases(changed).champion)
    new = named(changed, TWIN)
    changed.until(START + 20 * DAY)
    promote(changed.engine, aliases(changed), new, author(changed))
    changed.until(START + 40 * DAY)
    rollback(changed.engine, aliases(changed), author(changed))
    changed.until(START + 60 * DAY)

    deciders = {old: [(0, 20), (40, 60)], new: [(20, 40)]}
    for audit in told_audits(changed):
        choice = audit.decision.chosen
        assert choice is not None
        days = (audit.decision.at - START) / DAY
        spans = deciders[choice.policy.hash.hex()]
        assert any(low <= days <= high for low, high in spans)
        assert "state" not in [each.rail for each in audit.decision.overrides]

    def course(running: Operation) -> list[object]:
        return [
            (each.holding.id, each.number, each.at, each.outcome, each.decision.action)
            for each in told_audits(running)
        ]

    assert course(changed) == course(plain)
    write_bundle(changed.log(), tmp_path / "bundle")
    assert verify(Bundle.open(tmp_path / "bundle"), SIGNER.verifier).findings == ()


@pytest.mark.slow
def test_a_state_that_missed_an_audit_is_not_taken_over(tmp_path: Path) -> None:
    running = started(tmp_path / "run", Rails(jitter=0.0, surprise=0.0, first=0.0, recovery=14))
    version = named(running, TWIN)
    running.until(START + 20 * DAY)
    with transaction(running.engine) as connection:
        connection.execute(update(shadows).values(number=shadows.c.number - 1))
        first = dict(connection.execute(select(holdings.c.id, holdings.c.number)).all())
    promote(running.engine, aliases(running), version, author(running))
    running.until(START + 50 * DAY)
    with transaction(running.engine) as connection:
        rows = connection.execute(select(audits)).all()
    begun = {row.holding for row in rows if row.overrides & Override.STATE}
    assert begun == set(first)
    for row in rows:
        assert bool(row.overrides & Override.STATE) == (row.number == first[row.holding] + 2)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["tampered", "failing"])
def test_a_challenger_in_trouble_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    plain, running = started(tmp_path / "plain"), started(tmp_path / "run")
    version = named(running, "heuristic")
    act = Serving.act

    def fail(policy: Serving, *arguments: np.ndarray) -> object:
        if policy.version == version:
            raise ValueError("shapes do not fit")
        return act(policy, *arguments)

    if trouble == "tampered":
        with transaction(running.engine) as connection:
            changed = update(versions).where(versions.c.id == version)
            connection.execute(changed.values(name="fixed-low"))
    else:
        monkeypatch.setattr(Serving, "act", fail)
    plain.until(START + 20 * DAY)
    ticks = running.until(START + 20 * DAY)
    reason = "is refused" if trouble == "tampered" else "shapes do not fit"
    assert all(
        reason in said and version[:12] in said for tick in ticks for said in tick.shadow_trouble
    )
    assert any(tick.shadow_trouble for tick in ticks)
    assert [leaf.encode(each) for each in told_audits(running)] == [
        leaf.encode(each) for each in told_audits(plain)
    ]


def test_who_lost_a_lease_writes_nothing_of_a_shadow(tmp_path: Path) -> None:
    running = started(tmp_path / "run")
    version = named(running, TWIN)
    now = running.clock.now
    first, *_ = running.schedule.claim(now, DAY, COUNT)
    running.clock.now = now + 2 * DAY
    running.until(now + 2 * DAY)
    with transaction(running.engine) as connection:
        row = connection.execute(select(holdings).where(holdings.c.id == first.id)).one()
        before = connection.execute(select(shadows)).all()
    state = {"holding": first.id, "version": version, "number": 9, "memory": b"", "chosen": 0}
    late = {**row._mapping, "token": first.token}
    running.schedule.decide([late], [ShadowRecord(state, {}, new=False)])
    with transaction(running.engine) as connection:
        assert connection.execute(select(shadows)).all() == before
