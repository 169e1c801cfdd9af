"""An operation on an EVM in the test's process, on a clock of its own."""

from pathlib import Path
from typing import Any

from tests.support.ledger_env import World as Chain
from tests.support.simulated_fleet import Clock
from tests.support.simulated_operation import SIGNER, Operation

from holdfast.durations import SECOND
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.verification import verify

DAILY = "constant:1,0.01"


TOGETHER = 12


def events(running: Operation, kind: type[Any]) -> list[Any]:
    receipts = running.world.chain.receipts()
    return [event for receipt in receipts for event in receipt.events if isinstance(event, kind)]


def check_evidence(running: Operation, folder: Path) -> None:
    write_bundle(running.log(), folder / "bundle")
    assert verify(Bundle.open(folder / "bundle"), SIGNER.verifier).findings == ()


class Interrupted(BaseException):
    """What a kill would be, at a chosen moment."""


class OnChain(Clock):
    """A chain's time, which is moved with ours."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        super().__init__(chain.now() * SECOND)

    @property
    def now(self) -> int:
        return self._now

    @now.setter
    def now(self, now: int) -> None:
        self._now = now
        behind = now // SECOND - self.chain.now()
        if behind > 0:
            self.chain.advance(behind)
