"""The whole control plane over many seeds: whatever fails, the same things hold afterwards.

Worker, runner, schedule, ledger, sequencer and evidence are real; time, randomness and faults come
from the seed. With HOLDFAST_LONG set it is 1,000 seeds (`make test-long`).
"""

import os
import secrets
from pathlib import Path

import pytest
from tests.support.fault_plan import (
    BLOCKS,
    NODES,
    UNIT,
    FaultPlan,
    Kind,
    NodeFault,
    Trouble,
    draw_faults,
)
from tests.support.invariants import (
    INVARIANTS,
    Ended,
    no_audit_is_recorded_twice,
    nobody_is_blamed_without_a_fault,
    numbers_have_no_gaps,
)
from tests.support.seeded_operation import SeededOperation

from holdfast.evidence.leaf import Outcome

LONG = bool(os.environ.get("HOLDFAST_LONG"))
SEEDS = range(1000) if LONG else range(5)


def run_seed(seed: int, folder: Path, plan: FaultPlan | None = None) -> Ended:
    """Run a seed's operation to its end, and check every invariant."""
    folder.mkdir(exist_ok=True)
    operation = SeededOperation(seed, folder, plan)
    try:
        operation.run()
        ended = Ended(operation)
        for check_invariant in INVARIANTS:
            check_invariant(ended)
        return ended
    finally:
        operation.close()


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_fails_the_invariants_hold(seed: int, tmp_path: Path) -> None:
    try:
        run_seed(seed, tmp_path)
    except BaseException as error:
        name = f"tests/control/test_seeds.py::{test_whatever_fails_the_invariants_hold.__name__}"
        error.add_note(f'repeat: HOLDFAST_LONG=1 .venv/bin/python -m pytest "{name}[{seed}]"')
        raise


@pytest.mark.slow
def test_equal_seeds_give_the_same_bytes_of_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_bytes", bytes)  # the ledger's name
    logs = []
    for seed, name in ((1, "one"), (1, "again"), (3, "other")):
        ended = run_seed(seed, tmp_path / name)
        logs.append([entry.leaf for entry in ended.operation.log().entries()])
    assert logs[0] == logs[1]
    assert logs[0] != logs[2]
    assert len(logs[0]) > 40


@pytest.mark.slow
def test_without_faults_every_audit_passes(tmp_path: Path) -> None:
    ended = run_seed(1, tmp_path, FaultPlan((), ()))
    assert {audit.outcome for _, audit in ended.leaves} == {Outcome.PASSED}


@pytest.mark.slow
def test_an_invariant_fails_where_the_truth_is_another(tmp_path: Path) -> None:
    """Else nobody could tell a good operation from a check that checks nothing."""
    damaged = NodeFault(0, Kind.DAMAGED, 0, 100 * UNIT, blocks=tuple(range(BLOCKS)))
    ended = run_seed(1, tmp_path, FaultPlan((damaged,), ()))
    failed = [audit for _, audit in ended.leaves if audit.outcome is Outcome.FAILED]
    assert failed
    (holding,) = {audit.holding.key for audit in failed}
    ended.by_key[holding].asks.clear()
    with pytest.raises(AssertionError, match="failed without a cause"):
        nobody_is_blamed_without_a_fault(ended)
    ended.leaves.append(ended.leaves[0])
    for check_invariant in (no_audit_is_recorded_twice, numbers_have_no_gaps):
        with pytest.raises(AssertionError):
            check_invariant(ended)


def test_seeds_draw_every_kind_of_fault() -> None:
    plans = [draw_faults(seed) for seed in range(100)]
    assert {fault.kind for plan in plans for fault in plan.nodes} == set(Kind)
    assert {fault.trouble for plan in plans for fault in plan.own} == set(Trouble)
    assert all(fault.node < NODES - 1 for plan in plans for fault in plan.nodes)
