"""An operation on a clock of its own: worker, challenger, sequencer and schedule, put together."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sqlalchemy import Engine
from tests.support.inline_lanes import InlineLanes
from tests.support.simulated_fleet import Clock, World

from holdfast.control.audits.contacts import Contacts
from holdfast.control.audits.runner import AuditRunner
from holdfast.control.evidence.reader import DatabaseLog
from holdfast.control.evidence.sequencer import Sequencer
from holdfast.control.policies.active import PolicyLoader, ensure_champion
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.scheduling.schedule import Schedule
from holdfast.control.scheduling.worker import Tick, Worker
from holdfast.control.settings.models import Pace, SettlementMode, Timeouts
from holdfast.evidence.note import Signer
from holdfast.ledger.interface import Ledger
from holdfast.model.scenario import Scenario
from holdfast.storage.database import connect, migrate

SIGNER = Signer("holdfast-test", bytes(range(32)))


@dataclass
class Operation:
    clock: Clock
    world: World
    engine: Engine
    schedule: Schedule
    worker: Worker
    sequencer: Sequencer

    def until(self, end: int) -> list[Tick]:
        """Let time pass up to `end`, doing what is due when it is due."""
        ticks = []
        while True:
            tick = self.worker.tick()
            if tick.busy:
                ticks.append(tick)
                continue
            self.sequencer.sequence()
            due = self.schedule.next_due()
            if due is None or due > end:
                self.clock.now = end
                return ticks
            self.clock.now = max(due, self.clock.now + 1)

    def log(self) -> DatabaseLog:
        return DatabaseLog(self.engine, SIGNER.verifier)


def operation(
    folder: Path,
    scenario: Scenario,
    count: int,
    *,
    others: int = 0,
    address: str | None = None,
    seed: int = 42,
    rails: Rails | None = None,
    patience: Timeouts | None = None,
    policy: str = "drqn-cmdp-plus",
    settlement: SettlementMode = SettlementMode.BATCH,
    clock: Clock | None = None,
    chain: Ledger | None = None,
) -> Operation:
    rails = rails or Rails(jitter=0.0, surprise=0.0, first=0.0, recovery=14)
    clock = clock or Clock()
    world = World(scenario, count, seed, clock, others, chain)
    engine = connect(address or str(folder / "holdfast.db"))
    migrate(engine)
    schedule = Schedule(engine)
    schedule.add(world.rows(), clock.now)
    ensure_champion(engine, policy, scenario, clock.now)
    draws = np.random.default_rng((seed, 9))
    challenger = AuditRunner(
        world,
        schedule.batch,
        Contacts(engine),
        sample_cap=rails.sample_cap,
        patience=patience or Timeouts(),
        clock=clock,
        seed=lambda: draws.bytes(32),
        settlement=settlement,
        lanes=InlineLanes(clock),
    )
    worker = Worker(
        schedule,
        challenger,
        PolicyLoader(engine),
        rails=rails,
        constants=scenario.constants,
        clock=clock,
        rng=draws.random,
        pace=Pace(),
    )
    return Operation(clock, world, engine, schedule, worker, Sequencer(engine, SIGNER, clock))
