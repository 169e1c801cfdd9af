"""The control plane over real nodes, on a clock of its own: audits, responses and evidence."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sqlalchemy import Engine, func, select
from tests.support.database import run_sql
from tests.support.inline_lanes import InlineLanes
from tests.support.owner_env import World, flip
from tests.support.simulated_fleet import Clock
from tests.support.simulated_operation import SIGNER

from holdfast.control.audits.contacts import Contacts
from holdfast.control.audits.open_holdings import HomeFleet
from holdfast.control.audits.runner import AuditRunner
from holdfast.control.evidence.reader import DatabaseLog
from holdfast.control.evidence.sequencer import Sequencer
from holdfast.control.incidents.responder import Responder
from holdfast.control.incidents.store import Cases
from holdfast.control.incidents.types import State
from holdfast.control.policies.active import PolicyLoader, ensure_champion
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.scheduling.schedule import Schedule
from holdfast.control.scheduling.worker import Worker
from holdfast.control.settings.models import Pace, Responses, Timeouts
from holdfast.evidence import leaf
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.verification import Report, verify
from holdfast.model.scenario import SCENARIOS
from holdfast.owner import Home
from holdfast.storage import schema
from holdfast.storage.database import transaction
from holdfast.storage.schema import NEVER, holdings, responses

RAILS = Rails(jitter=0.0, surprise=0.0, first=0.0, recovery=14, sample_cap=100)


@dataclass
class Guarded:
    clock: Clock
    world: World
    home: Home
    engine: Engine
    schedule: Schedule
    worker: Worker
    responder: Responder
    sequencer: Sequencer

    def until(self, end: int) -> None:
        """Let time pass up to `end`, doing what is due when it is due."""
        while self.clock.now < end:
            while self.worker.tick().busy or self.responder.tick():
                pass
            self.sequencer.sequence()
            self.clock.now = min(max(self._next(), self.clock.now + 1), end)

    def audited(self, moment: int) -> None:
        """Take the first decisions, and carry out the audits that are due at a moment after it."""
        self.worker.tick()
        self.clock.now = moment
        while self.worker.tick().busy:
            pass

    def _next(self) -> int:
        ready = select(func.min(responses.c.due)).where(responses.c.state == State.READY)
        with transaction(self.engine) as connection:
            due: int | None = connection.execute(ready).scalar()
        moments = [each for each in (due, self.schedule.next_due()) if each is not None]
        return min(moments, default=NEVER)

    def damage(self, holding: str) -> None:
        """Change bytes all over what a holding keeps."""
        node = self.world.one if holding == "plain" else self.world.two
        with self.home.holding(holding) as place:
            for path in node.stored(place, "data"):
                flip(path, *range(0, path.stat().st_size, 100))

    def leaves(self, holding: str) -> list[leaf.Leaf]:
        """Return all that was told of a holding, in order."""
        self.sequencer.sequence()
        with self.home.holding(holding) as place:
            key = place.key_id
        told = [leaf.decode(entry.leaf) for entry in self.log().entries()]
        return [
            e for e in told if isinstance(e, leaf.Audit | leaf.Response) and e.holding.key == key
        ]

    def story(self, holding: str) -> list[str]:
        """Return the outcomes of audits, and the steps taken, of a holding."""
        return [
            str(each.outcome) if isinstance(each, leaf.Audit) else str(each.step)
            for each in self.leaves(holding)
            if isinstance(each, leaf.Audit | leaf.Response)
        ]

    def row(self, holding: str) -> tuple[bool, int]:
        """Return whether a holding is quarantined, and when it is due."""
        query = select(holdings.c.quarantined, holdings.c.due).where(holdings.c.name == holding)
        with transaction(self.engine) as connection:
            quarantined, due = connection.execute(query).one()
        return quarantined, due

    def log(self) -> DatabaseLog:
        return DatabaseLog(self.engine, SIGNER.verifier)

    def verified(self, folder: Path) -> Report:
        """Hand the evidence to a stranger, who checks it."""
        self.sequencer.sequence()
        bundle = folder / "guarded.bundle"
        write_bundle(self.log(), bundle)
        return verify(Bundle.open(bundle), SIGNER.verifier)


@contextmanager
def guarded(engine: Engine, world: World, settings: Responses | None = None) -> Iterator[Guarded]:
    """Watch over every holding of the world's home."""
    clock = Clock()
    home = replace(world.home, clock=clock.seconds)
    scenario = SCENARIOS["field"]
    draws = np.random.default_rng(1)
    schedule = Schedule(engine)
    ensure_champion(engine, "fixed-high", scenario, clock.now)
    with HomeFleet(home) as fleet:
        known = schedule.names()
        if fresh := [row for row in fleet.unscheduled() if row[0] not in known]:
            schedule.add(fresh, clock.now)
        challenger = AuditRunner(
            fleet,
            schedule.batch,
            Contacts(engine),
            sample_cap=RAILS.sample_cap,
            patience=Timeouts(),
            clock=clock,
            seed=lambda: draws.bytes(32),
            lanes=InlineLanes(clock),
        )
        worker = Worker(
            schedule,
            challenger,
            PolicyLoader(engine),
            rails=RAILS,
            constants=scenario.constants,
            clock=clock,
            rng=draws.random,
            pace=Pace(),
        )
        responder = Responder(
            Cases(engine), home, settings or Responses(), unit=RAILS.unit, clock=clock
        )
        sequencer = Sequencer(engine, SIGNER, clock)
        yield Guarded(clock, world, home, engine, schedule, worker, responder, sequencer)


def alerts(running: Guarded) -> list[tuple[str, str, bool]]:
    """Return the alerts: kind, subject and whether they are open."""
    query = select(schema.alerts).order_by(schema.alerts.c.id)
    with transaction(running.engine) as connection:
        return [(a.kind, a.subject, a.ended == NEVER) for a in connection.execute(query)]


def steps(running: Guarded) -> list[tuple[str, str]]:
    query = select(schema.responses).order_by(schema.responses.c.id)
    with transaction(running.engine) as connection:
        return [(row.step, row.state) for row in connection.execute(query)]


def move_node(home: Home, url: str, holding: str = "plain") -> None:
    """Let the catalogue say that the node of a holding is somewhere else."""
    change = "UPDATE catalogue SET url = :url WHERE name = :name"
    run_sql(home.address, change, url=url, name=holding)
