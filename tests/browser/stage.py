"""A fleet with something to see: real proofs on a real EVM, damage, a silent node, an alert.

What failed audits lead to happens when it is asked for: quarantine, and an alert.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from playwright.sync_api import ViewportSize
from sqlalchemy import delete, insert, select
from tests.support.chain_operation import OnChain
from tests.support.fits import fitted
from tests.support.ledger_env import evm_world
from tests.support.simulated_operation import SIGNER, Operation, operation

from holdfast.control.audits.contacts import Contacts
from holdfast.control.evidence.reader import VERIFIER
from holdfast.control.incidents.alerts import Alerts
from holdfast.control.incidents.responder import Responder
from holdfast.control.incidents.store import Cases
from holdfast.control.incidents.types import State, Step
from holdfast.control.inference.confidence import Confidences
from holdfast.control.inference.fits import save_fit
from holdfast.control.policies.aliases import Author, challenge, read_aliases
from holdfast.control.policies.versions import Registry
from holdfast.control.scheduling.guardrails import Rails, Window
from holdfast.control.settings.models import Conditions, ControlSettings, Responses, WebSettings
from holdfast.durations import DAY, HOUR
from holdfast.evidence import leaf
from holdfast.model.scenario import FIELD
from holdfast.storage.database import transaction
from holdfast.storage.home_schema import catalogue
from holdfast.storage.schema import holdings, leaves, responses
from holdfast.web.server import RunningServer, listen, url_of

# As in the field, but small, and with more to find.
WORLD = replace(FIELD, blocks=1000, malicious_share=0.2, malicious_rate=0.004, honest_rate=2e-5)
RAILS = Rails(quiet=(Window.parse("22:00-06:00"),))
CHALLENGER = "heuristic"
QUICK = Conditions(ceiling=0.9, episodes=64, decisions=10, shadow=DAY, gas_margin=10.0)
STRICT = Responses(failed=(Step.QUARANTINE, Step.ALERT), timed_out=())
SILENT = 5  # the subject whose node is away


@dataclass(frozen=True)
class Stage:
    """A dashboard on a port, and the operation behind it."""

    url: str
    operation: Operation
    alerts: Alerts
    settings: ControlSettings

    def answer(self) -> list[str]:
        """Answer the audits that failed so far; return what is quarantined then."""
        home: Any = None  # which only mending needs
        cases, clock = Cases(self.operation.engine), self.operation.clock
        while Responder(cases, home, STRICT, unit=DAY, clock=clock).tick():
            pass
        self.operation.sequencer.sequence()
        apart = select(holdings.c.name).where(holdings.c.quarantined).order_by(holdings.c.id)
        with transaction(self.operation.engine) as connection:
            return list(connection.execute(apart).scalars())

    def infer(self) -> None:
        """Work out what may be damaged now, as the server does beside its pages."""
        save_fit(self.operation.engine, fitted(0.2), self.operation.clock.now)
        Confidences(self.operation.engine, self.settings).refresh(self.operation.clock.now)

    def observe_nodes(self, days: int) -> None:
        """Let every node have an address on the network, and be probed every four hours."""
        now, contacts = self.operation.clock.now, Contacts(self.operation.engine)
        subjects = self.operation.world.subjects
        names = select(holdings.c.id, holdings.c.name).order_by(holdings.c.id)
        constant = {"salt": b"", "sectors": 1, "encrypted": False, "block": 0}
        with transaction(self.operation.engine) as connection:
            rows = connection.execute(names.limit(len(subjects))).all()
            entries = [
                {"name": row.name, "scheduled": row.id, "node": subject.address}
                | {"url": f"https://node-{row.id}.example:8470"}
                | constant
                for row, subject in zip(rows, subjects, strict=True)
            ]
            connection.execute(insert(catalogue), entries)
        for at in range(now - days * DAY, now, 4 * HOUR):
            for number, subject in enumerate(subjects):
                # One is away for good, and another for a day.
                away = number == SILENT or (number == 1 and now - 9 * DAY < at < now - 8 * DAY)
                contacts.record_probe(subject.address, at, present=not away)

    @contextmanager
    def case(self, holding: int, step: str, detail: str) -> Iterator[None]:
        """Let a case of a holding be at a step for a while."""
        row = {"holding": holding, "audit": 1, "step": step, "state": State.READY}
        row |= {"began": self.operation.clock.now, "detail": detail}
        with transaction(self.operation.engine) as connection:
            id_ = connection.execute(insert(responses).returning(responses.c.id), [row]).scalar()
        yield
        with transaction(self.operation.engine) as connection:
            connection.execute(delete(responses).where(responses.c.id == id_))

    def orders_of(self, name: str) -> list[str]:
        """Return the commands of an operator that the evidence has."""
        with transaction(self.operation.engine) as connection:
            bodies = connection.execute(select(leaves.c.body)).scalars().all()
        decoded = [leaf.decode(bytes(body)) for body in bodies]
        orders = [entry for entry in decoded if isinstance(entry, leaf.Instruction)]
        return [str(entry.order) for entry in orders if entry.by == name]

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
    web = WebSettings(("127.0.0.1", 0))
    settings = ControlSettings(
        database=str(folder / "holdfast.db"),
        scenario=WORLD,
        rails=RAILS,
        web=web,
        promotion=conditions,
    )
    stage = Stage("", work, Alerts(work.engine, work.clock), settings)
    _run_in_shadow(work, CHALLENGER)
    stage.pass_days(days)
    work.sequencer.anchor(chain.owner)
    stage.alerts.raise_alert("node-offline", "0x5e12c0ffee", "can't reach the node: nobody listens")
    (folder / VERIFIER).write_text(f"{SIGNER.verifier}\n")
    listener = listen(web)
    assert listener is not None
    server = RunningServer(listener, folder, settings)
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


VIEWS = {
    "/": "Fleet",
    "/holdings/1": "holding-000000",
    "/policies": "Policies",
    "/evidence": "Evidence",
    "/evidence/0": "Leaf 0",
    "/cost": "Cost",
    "/plan": "Plan",
    "/alerts": "Alerts",
}


WIDE = ViewportSize(width=1280, height=800)


PHONE = ViewportSize(width=390, height=800)
