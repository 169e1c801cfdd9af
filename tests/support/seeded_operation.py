"""An operation whose faults come from a seed, and what must hold when it is over.

Worker, runner, schedule, ledger, sequencer and evidence are the real ones. Time and randomness come
from the seed, and so does every fault.
"""

import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sqlalchemy import Connection, Engine, event, select
from sqlalchemy.exc import OperationalError
from tests.support.fault_plan import (
    FAULTY_UNITS,
    HOLDINGS_PER_NODE,
    NODES,
    UNIT,
    FaultPlan,
    OwnFault,
    Trouble,
    draw_faults,
)
from tests.support.faulty_fleet import (
    FaultyFleet,
    FaultyLedger,
    Killed,
    SimulatedLanes,
    Steps,
    Time,
    kill,
)
from tests.support.simulated_operation import SIGNER

from holdfast.control.audits.contacts import Contacts
from holdfast.control.audits.runner import AuditRunner
from holdfast.control.evidence.reader import DatabaseLog
from holdfast.control.evidence.sequencer import Sequencer
from holdfast.control.policies.active import PolicyLoader, ensure_champion
from holdfast.control.scheduling.claims import LeaseLostError
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.scheduling.schedule import Schedule
from holdfast.control.scheduling.worker import Tick, Worker
from holdfast.control.settings.models import Pace, SettlementMode, Timeouts
from holdfast.durations import MINUTE, SECOND
from holdfast.errors import HoldfastError
from holdfast.ledger.local import LocalLedger
from holdfast.model.scenario import PAPER
from holdfast.storage.database import connect, migrate, transaction
from holdfast.storage.schema import holdings

WORKERS = 2
QUIET_UNITS = 3  # after the last fault of ours, in which everything is caught up with
DEADLINES = (20 * SECOND, 2 * MINUTE, 10 * MINUTE)
RAILS = Rails(unit=UNIT, jitter=0.1, surprise=0.1, first=0.1)
PACE = Pace(lease=MINUTE)
POLICY = "constant:1,0.10"
IDLE_TICK = PACE.lease // 4  # from one tick of a worker to the next while it only waits
MAX_STEPS = 100_000


@cache
def _new_database() -> bytes:
    """Return an empty database; making one takes as long as ten audits."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "holdfast.db")
        engine = connect(str(file))
        migrate(engine)
        engine.dispose()
        return file.read_bytes()


@dataclass
class RefusedTransactions:
    """Makes transactions of a database fail, before or after they are committed."""

    steps: Steps
    armed: dict[Trouble, int] = field(default_factory=dict)  # transactions until one fails

    def install(self, engine: Engine) -> None:
        event.listen(engine, "begin", self._on_begin)
        event.listen(engine, "commit", self._on_commit)

    def _on_begin(self, _connection: Connection) -> None:
        self.steps.take()

    def _on_commit(self, connection: Connection) -> None:
        self.steps.take()
        for trouble in list(self.armed):
            self.armed[trouble] -= 1
            if self.armed[trouble] <= 0:
                del self.armed[trouble]
                if trouble is Trouble.DATABASE_MUTE:
                    connection.exec_driver_sql("COMMIT")
                raise OperationalError("COMMIT", None, Exception("the database went away"))


class SeededOperation:
    def __init__(self, seed: int, folder: Path, plan: FaultPlan | None = None) -> None:
        self.seed, self.folder = seed, folder
        self.plan = plan or draw_faults(seed)
        self.time, self.steps = Time(), Steps()
        self._rng = np.random.default_rng((seed, 3))
        self.fleet = FaultyFleet(seed, self.plan, (NODES, HOLDINGS_PER_NODE), self.time)
        owner = np.random.default_rng((seed, 4)).bytes(20)
        self.chain = LocalLedger(Path(":memory:"), owner, self.time.seconds, sectors=1)
        self.fleet.register(self.chain)
        self.fleet.chain = FaultyLedger(self.chain, self.plan.own, self.time, self.steps)
        (folder / "holdfast.db").write_bytes(_new_database())
        self.engine = connect(str(folder / "holdfast.db"))
        self.schedule = Schedule(self.engine)
        self.schedule.add(self.fleet.rows(), self.time.wall())
        ensure_champion(self.engine, POLICY, PAPER, self.time.wall())
        self._policies = PolicyLoader(self.engine)
        deadline = int(self._rng.choice(DEADLINES))
        pause = max(5 * SECOND, deadline // 20)
        self._timeouts = Timeouts(deadline, first_pause=pause, longest_pause=2 * MINUTE)
        self._settlement = SettlementMode(self._rng.choice(list(SettlementMode)))
        self.sequencer = Sequencer(self.engine, SIGNER, self.time.wall)
        self.viewer = connect(str(folder / "holdfast.db"), read_only=True)  # on which nothing fails
        self._file = sqlite3.connect(folder / "holdfast.db")  # read at every step, so directly
        self._refused = RefusedTransactions(self.steps)
        self._refused.install(self.engine)
        self._workers = [self._start_worker() for _ in range(WORKERS)]
        self._first = 0  # the worker whose turn it is
        self._next_ticks: list[int | None] = [0] * WORKERS  # even if nothing arrives or is due
        self._unsequenced = True
        self._ahead = sorted(self.plan.own, key=lambda fault: fault.begin)
        self._boundaries = self.plan.boundaries()
        self.kills = 0
        self.errors: Counter[str] = Counter()

    def _start_worker(self) -> tuple[Worker, SimulatedLanes]:
        lanes = SimulatedLanes(self.time, self.steps)
        runner = AuditRunner(
            self.fleet,
            self.schedule.batch,
            Contacts(self.engine),
            sample_cap=RAILS.sample_cap,
            patience=self._timeouts,
            clock=self.time.wall,
            seed=lambda: self._rng.bytes(32),
            settlement=self._settlement,
            lanes=lanes,
            steady=self.time.steady,
        )
        worker = Worker(
            self.schedule,
            runner,
            self._policies,
            rails=RAILS,
            constants=PAPER.constants,
            clock=self.time.wall,
            rng=self._rng.random,
            pace=PACE,
        )
        return worker, lanes

    def run(self) -> None:
        """Run the hours with faults, and then quiet ones."""
        for _ in range(MAX_STEPS):
            if self.time.elapsed >= (FAULTY_UNITS + QUIET_UNITS) * UNIT:
                break
            self._begin_faults()
            for number in range(WORKERS):
                self._tick((self._first + number) % WORKERS)
            self._first = (self._first + 1) % WORKERS
            if self._unsequenced:
                self._sequence()
            self.time.elapsed = self._next_moment()
        else:
            raise AssertionError("the operation does not come to an end")
        self._settle_down()

    def log(self) -> DatabaseLog:
        return DatabaseLog(self.viewer, SIGNER.verifier)

    def close(self) -> None:
        self._file.close()
        self.viewer.dispose()
        self.engine.dispose()

    def _settle_down(self) -> None:
        """Bring what is under way to its end, and start nothing more."""
        for _ in range(MAX_STEPS):
            query = select(holdings.c.name).where(holdings.c.flight.is_not(None))
            with transaction(self.viewer) as connection:
                names = set(connection.execute(query).scalars())
            if not names:
                break
            for worker, lanes in self._workers:
                lanes.deliver()
                worker.tick(only=names)
            self.time.elapsed += SECOND
        else:
            raise AssertionError("an audit does not come to an end")
        while self.sequencer.sequence():
            pass

    def _begin_faults(self) -> None:
        while self._ahead and self._ahead[0].begin <= self.time.elapsed:
            self._begin(self._ahead.pop(0))

    def _begin(self, fault: OwnFault) -> None:
        if fault.trouble is Trouble.KILL:
            self.steps.after(fault.steps, kill)
        elif fault.trouble is Trouble.CLOCK:
            self.steps.after(fault.steps, lambda: self.time.set_clock(fault.shift))
        elif fault.trouble in {Trouble.DATABASE_REFUSES, Trouble.DATABASE_MUTE}:
            self._refused.armed[fault.trouble] = fault.steps

    def _tick(self, number: int) -> None:
        """Let a worker do what there is to do, if there is anything."""
        worker, lanes = self._workers[number]
        planned = self._next_ticks[number]
        waits = planned is None or self.time.elapsed < planned
        if not lanes.deliver() and waits and not self._is_any_free():
            return
        soon = self.time.elapsed + SECOND
        try:
            tick: Tick = worker.tick()
        except Killed:
            self.kills += 1
            self._workers[number] = self._start_worker()
            self._next_ticks[number], self._unsequenced = None, True
        except (HoldfastError, LeaseLostError) as error:
            self.errors[type(error).__name__] += 1
            self._next_ticks[number], self._unsequenced = soon, True  # it gives leases up
        else:
            self._next_ticks[number] = self.time.elapsed + IDLE_TICK if tick.running else None
            self._unsequenced |= bool(tick.concluded)

    def _sequence(self) -> None:
        try:
            self.sequencer.sequence()
            self._unsequenced = False
        except Killed:
            self.kills += 1
        except HoldfastError as error:
            self.errors[type(error).__name__] += 1

    def _is_any_free(self) -> bool:
        """Return whether a holding is due that no worker has."""
        now = self.time.wall()
        return any(due <= now and not _is_leased(lease, now) for due, lease in self._rows())

    def _rows(self) -> list[tuple[int, int]]:
        return self._file.execute("SELECT due, lease FROM holdings").fetchall()

    def _next_moment(self) -> int:
        """Return when there is something to do again."""
        now, wall = self.time.elapsed, self.time.wall()
        moments = [lanes.next_arrival() for _, lanes in self._workers]
        moments += self._next_ticks
        moments += [at for at in self._boundaries if at > now][:1]
        if self._unsequenced:
            moments.append(now + SECOND)
        for due, lease in self._rows():
            if due > wall:
                moments.append(now + due - wall)
            elif _is_leased(lease, wall):
                moments.append(now + lease - wall)
            else:
                moments.append(now + SECOND)
        return max(now + 1, min(at for at in moments if at is not None))


def _is_leased(lease: int, now: int) -> bool:
    return now < lease <= now + 2 * PACE.lease
