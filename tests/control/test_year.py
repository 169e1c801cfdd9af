"""A year of operation on a virtual clock: nothing lost, nothing doubled, and the simulator's world.

With HOLDFAST_LONG set it is the whole thing, 1,000 holdings (`make test-long`).
"""

import os
import secrets
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select
from tests.support.simulated_fleet import START
from tests.support.simulated_operation import SIGNER, Operation, operation

from holdfast.control.scheduling.guardrails import FAIL_SAFE, Override, Rails
from holdfast.control.settings.models import Timeouts
from holdfast.durations import DAY, HOUR, MINUTE
from holdfast.evidence import leaf
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.leaf import Outcome
from holdfast.evidence.verification import verify
from holdfast.model.scenario import PAPER
from holdfast.policy.serving import load_serving
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import measure
from holdfast.storage.database import transaction
from holdfast.storage.schema import audits, holdings, leaves

LONG = bool(os.environ.get("HOLDFAST_LONG"))
STEADY, FLAKY, OFFLINE = (960, 20, 20) if LONG else (30, 2, 2)


def check_invariants(running: Operation, rails: Rails) -> None:
    """Look at everything that is in the database."""
    with transaction(running.engine) as connection:
        rows = connection.execute(select(holdings)).all()
        made = connection.execute(select(audits).order_by(audits.c.holding, audits.c.number)).all()
        kept = connection.execute(select(leaves.c.body)).scalars().all()
    for row in rows:
        if row.flight is None and row.decided:
            wait = row.due - row.decided
            assert rails.shortest * rails.unit <= wait <= rails.longest * rails.unit
    for audit in made:
        assert 1 <= audit.samples <= rails.sample_cap
        if audit.overrides & FAIL_SAFE:
            assert (audit.interval, audit.ratio) == (1, 0.10)
    numbers: dict[int, list[int]] = {}
    for audit in made:
        numbers.setdefault(audit.holding, []).append(audit.number)
    assert all(seen == list(range(1, len(seen) + 1)) for seen in numbers.values())
    assert [numbers.get(row.id, []) for row in rows] == [
        list(range(1, row.number + 1)) for row in rows
    ]
    told = [leaf.decode(body) for body in kept]
    names = [(each.holding.id, each.number) for each in told if isinstance(each, leaf.Audit)]
    assert len(names) == len(set(names)) == len(made)


@pytest.mark.slow(seconds=30)
@pytest.mark.timeout(3000)
def test_a_year_of_operation_is_the_simulators_year(tmp_path: Path) -> None:
    rails = Rails(jitter=0.0, surprise=0.0, first=0.0, recovery=14)
    running = operation(
        tmp_path,
        PAPER,
        STEADY,
        others=FLAKY + OFFLINE,
        rails=rails,
        patience=Timeouts(first_pause=10 * MINUTE, longest_pause=20 * MINUTE, at_once=1),
    )
    subjects = running.world.subjects
    for subject in subjects[STEADY : STEADY + FLAKY]:
        subject.unreachable = 0.5
    for subject in subjects[STEADY + FLAKY :]:
        subject.unreachable = 1.0
    outcomes = []
    for day in range(0, PAPER.horizon + 20, 5):
        ticks = running.until(START + day * DAY)
        outcomes += [result.outcome for tick in ticks for result in tick.concluded]
        if day % 60 == 0:
            check_invariants(running, rails)
    check_invariants(running, rails)

    with transaction(running.engine) as connection:
        ends = dict(connection.execute(select(holdings.c.name, holdings.c.number)).all())
        offline = connection.execute(
            select(audits.c.outcome, audits.c.overrides).where(
                audits.c.holding > STEADY + FLAKY, audits.c.number > 1
            )
        ).all()
    assert set(offline) == {(Outcome.OFFLINE, int(Override.TELEMETRY))}
    assert set(outcomes) == {Outcome.PASSED, Outcome.FAILED, Outcome.OFFLINE}
    assert sum(ends.values()) == len(outcomes)

    tally = evaluate(load_serving("drqn-cmdp-plus", PAPER).policy, PAPER, episodes=STEADY, seed=42)
    steady = [subject.tally for subject in subjects[:STEADY]]
    gas = np.array([each.gas for each in steady])
    misses = sum(each.misses for each in steady)
    rate = misses / (misses + sum(each.detections for each in steady))
    expected = measure(tally)
    assert expected.gas.low <= gas.mean() <= expected.gas.high
    assert expected.miss_rate.low <= rate <= expected.miss_rate.high
    assert np.isclose(gas, tally.gas).mean() > 0.9, "most lived through the very same year"

    bundle = tmp_path / "year.evidence"
    write_bundle(running.log(), bundle)
    report = verify(Bundle.open(bundle), SIGNER.verifier)
    assert report.findings == ()
    assert report.audits == len(outcomes)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_of_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_bytes", bytes)  # the ledger's name
    logs = []
    for seed, name in ((5, "one"), (5, "two"), (6, "three")):
        folder = tmp_path / name
        folder.mkdir()
        running = operation(folder, PAPER, 6, seed=seed, rails=Rails())
        running.world.subjects[3].unreachable = 0.7
        running.until(START + 20 * DAY + HOUR)
        logs.append([entry.leaf for entry in running.log().entries()])
    assert logs[0] == logs[1]
    assert logs[0] != logs[2]
    assert len(logs[0]) > 20
