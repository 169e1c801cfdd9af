"""A fleet with something to see: real proofs on a real EVM, damage, a silent node, an alert."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.control.operation import SIGNER, Operation, operation
from tests.control.test_batches import OnChain
from tests.ledger.world import evm_world

from holdfast.control.alerts import Alerts
from holdfast.control.aliases import Author, challenge, read_aliases
from holdfast.control.database import transaction
from holdfast.control.log import VERIFIER
from holdfast.control.promotion import Conditions
from holdfast.control.rails import DAY, Rails, Window
from holdfast.control.registry import Registry
from holdfast.control.settings import ControlSettings, WebSettings
from holdfast.model.scenario import FIELD
from holdfast.web.serving import Serving, listen, url_of

# As in the field, but small, and with more to find.
WORLD = replace(FIELD, blocks=1000, malicious_share=0.2, malicious_rate=0.004, honest_rate=2e-5)
RAILS = Rails(quiet=(Window.parse("22:00-06:00"),))
CHALLENGER = "heuristic"
QUICK = Conditions(ceiling=0.9, episodes=64, decisions=10, shadow=DAY, gas_margin=10.0)
SILENT = 5  # the subject whose node is away


@dataclass(frozen=True)
class Stage:
    """A dashboard on a port, and the operation behind it."""

    url: str
    operation: Operation
    alerts: Alerts

    def pass_days(self, count: int) -> None:
        self.operation.until(self.operation.clock.now + count * DAY)


@contextmanager
def staged(
    folder: Path, *, holdings: int, days: int, conditions: Conditions = QUICK
) -> Iterator[Stage]:
    chain = evm_world(folder, 1)
    work = operation(
        folder, WORLD, holdings, clock=OnChain(chain), chain=chain.owner, rails=RAILS, seed=4
    )
    work.world.subjects[SILENT].unreachable = 1.0
    stage = Stage("", work, Alerts(work.engine, work.clock))
    _run_in_shadow(work, CHALLENGER)
    stage.pass_days(days)
    work.sequencer.anchor(chain.owner)
    stage.alerts.begin("node-offline", "0x5e12c0ffee", "can't reach the node: nobody listens")
    (folder / VERIFIER).write_text(f"{SIGNER.verifier}\n")
    web = WebSettings(("127.0.0.1", 0))
    settings = ControlSettings(
        database=str(folder / "control.db"),
        scenario=WORLD,
        rails=RAILS,
        web=web,
        promotion=conditions,
    )
    listener = listen(web)
    assert listener is not None
    server = Serving(listener, folder, settings)
    thread = threading.Thread(target=server.run, args=(work.clock,))
    thread.start()
    try:
        yield replace(stage, url=url_of(listener))
    finally:
        server.stop()
        thread.join()
        work.engine.dispose()


def _run_in_shadow(work: Operation, name: str) -> None:
    now = work.clock.now
    version = Registry(work.engine).register(name, WORLD, now).version
    with transaction(work.engine) as connection:
        known = read_aliases(connection)
    challenge(work.engine, known, version, Author("ada", now, "to compare it with the champion"))
