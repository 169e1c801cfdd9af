"""The sequencer: a root goes on the ledger once, whoever dies and however many try."""

from pathlib import Path

import pytest
from tests.support.simulated_fleet import START
from tests.support.simulated_operation import SIGNER, Operation, operation

from holdfast.control.evidence.sequencer import ANCHORING, Sequencer
from holdfast.durations import DAY, MINUTE
from holdfast.errors import LedgerError
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.verification import verify
from holdfast.ledger.interface import Anchored, Receipt
from holdfast.model.scenario import PAPER


@pytest.fixture
def running(tmp_path: Path) -> Operation:
    running = operation(tmp_path, PAPER, 2)
    running.until(START + 20 * DAY)
    return running


def anchors(running: Operation) -> int:
    receipts = running.world.chain.receipts()
    return sum(isinstance(event, Anchored) for receipt in receipts for event in receipt.events)


class Killed(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


@pytest.mark.parametrize("arrives", [True, False])
def test_a_root_whose_worker_was_killed_is_anchored_once(
    arrives: bool,
    running: Operation,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    chain = running.world.chain
    anchor = chain.anchor

    def killed(root: bytes, size: int) -> Receipt:
        if arrives:
            anchor(root, size)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(chain, "anchor", killed)
        with pytest.raises(Killed):
            running.sequencer.anchor(chain)
    other = Sequencer(running.engine, SIGNER, running.clock)
    assert other.anchor(chain) is None, "the first may still be at it"
    late = Sequencer(running.engine, SIGNER, lambda: running.clock.now - MINUTE)
    assert late.anchor(chain) is None, "its clock is behind, or it waited for the row"
    running.clock.now += ANCHORING
    assert other.anchor(chain) is not None
    assert other.anchor(chain) is None
    assert anchors(running) == 1
    bundle = tmp_path / "bundle"
    write_bundle(running.log(), bundle)
    report = verify(Bundle.open(bundle), SIGNER.verifier)
    assert (report.findings, report.anchors) == ((), 1)


def test_a_root_that_the_ledger_did_not_take_is_tried_again_at_once(
    running: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = running.world.chain

    def down(_root: bytes, _size: int) -> Receipt:
        raise LedgerError("it can't be reached")

    with monkeypatch.context() as patch:
        patch.setattr(chain, "anchor", down)
        with pytest.raises(LedgerError):
            running.sequencer.anchor(chain)
    assert running.sequencer.anchor(chain) is not None
    assert anchors(running) == 1
