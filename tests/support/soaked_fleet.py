"""A fleet of node processes under faults that are drawn from a seed, for a soak of the service.

Nodes, service, PostgreSQL and local ledger are real, and so are signals and damage. Only the clock
of the service can be set, and its ledger be made unreachable, by us.
"""

import os
import random
import resource
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Event
from urllib.parse import urlsplit

from tests.support.live_service import SECTORS, Site
from tests.support.owner_env import RunningNode, flip, new_node_key, node_process
from tests.support.small_node import SEGMENT_BYTES

from holdfast.bench.postgres import Server
from holdfast.control.service import milliseconds
from holdfast.durations import SECOND
from holdfast.owner import Original, add_holding, put
from holdfast.pdp import Location


class Fault(StrEnum):
    STOP = "stop"
    KILL = "kill"
    SLOW = "slow"
    FULL_DISK = "full disk"
    DAMAGE = "damage"
    CLOCK = "clock step"
    DATABASE = "database restart"
    LEDGER = "ledger outage"


MAX_SHIFT = 10 * SECOND  # of the clock
NODE_FAULTS = {Fault.STOP, Fault.SLOW, Fault.KILL, Fault.FULL_DISK, Fault.DAMAGE}


@dataclass
class SettableClock:
    """The time of day, which can be set."""

    shift: int = 0

    def __call__(self) -> int:
        return milliseconds() + self.shift


@dataclass
class SoakedFleet:
    """Nodes as processes that are harmed one after another; what was done is counted."""

    place: Site
    server: Server
    clock: SettableClock
    nodes: list[RunningNode]
    rng: random.Random
    running: list[ExitStack]
    per_node: int
    faults: Counter[Fault] = field(default_factory=Counter)
    damaged: dict[str, int] = field(default_factory=dict)  # when, by holding
    harmed: set[bytes] = field(default_factory=set)  # addresses of nodes with faults of their own

    def harm_until(self, over: Event, end: float) -> None:
        """Harm something now and then, and let it recover, until that moment."""
        while time.monotonic() < end and not over.is_set():
            self.harm(Fault(self.rng.choice(list(Fault))), over)
            over.wait(self.rng.uniform(0.2, 1.5))

    def harm(self, fault: Fault, over: Event) -> None:
        self.faults[fault] += 1
        number = self.rng.randrange(len(self.nodes) - self.healthy)
        if fault in NODE_FAULTS:
            self.harmed.add(self.nodes[number].address)
        acts: dict[Fault, Callable[[], None]] = {
            Fault.STOP: lambda: self._stop(number, self.rng.choice([0.5, 3.0, 8.0]), over),
            Fault.SLOW: lambda: self._slow_down(number, over),
            Fault.KILL: lambda: self._restart(number, over),
            Fault.FULL_DISK: lambda: self._fill_disk(number, over),
            Fault.DAMAGE: lambda: self._damage(number),
            Fault.CLOCK: self._set_clock,
            Fault.DATABASE: self._restart_database,
            Fault.LEDGER: lambda: self._lock_ledger(self.rng.uniform(0.5, 6.0), over),
        }
        acts[fault]()

    @property
    def healthy(self) -> int:
        """How many nodes, the last ones, never have a fault of their own."""
        return max(1, len(self.nodes) // 2)

    def _set_clock(self) -> None:
        self.clock.shift = self.rng.choice([-10 * SECOND, -2 * SECOND, 2 * SECOND, MAX_SHIFT])

    def _restart_database(self) -> None:
        self.server.stop()
        self.server.start()

    def _slow_down(self, number: int, over: Event) -> None:
        for _ in range(10):
            self._stop(number, 0.3, over)
            over.wait(0.1)

    def _stop(self, number: int, seconds: float, over: Event) -> None:
        process = self.nodes[number].process.pid
        os.kill(process, signal.SIGSTOP)
        try:
            over.wait(seconds)
        finally:
            os.kill(process, signal.SIGCONT)

    def _restart(self, number: int, over: Event) -> None:
        node = self.nodes[number]
        node.process.kill()
        node.process.wait()
        over.wait(self.rng.choice([0.0, 2.0]))
        port = urlsplit(node.url).port
        assert port is not None
        self.running[number].close()
        self.nodes[number] = self.running[number].enter_context(
            start_node(self.place, number, port)
        )

    def _fill_disk(self, number: int, over: Event) -> None:
        """Let no file of the node grow for a while, as on a full disk."""
        process = self.nodes[number].process.pid
        before = resource.prlimit(process, resource.RLIMIT_FSIZE)
        resource.prlimit(process, resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            over.wait(3)
        finally:
            resource.prlimit(process, resource.RLIMIT_FSIZE, before)

    def _damage(self, number: int) -> None:
        """Change bytes all over one file of a node."""
        name = holding_name(number, self.rng.randrange(self.per_node))
        with self.place.home.holding(name) as holding:
            paths = self.nodes[number].stored(holding, "data")
        for path in paths:
            with suppress(FileNotFoundError):  # a repair replaces files
                flip(path, *range(self.rng.randrange(50), path.stat().st_size, 50))
        self.damaged.setdefault(name, milliseconds())

    def _lock_ledger(self, seconds: float, over: Event) -> None:
        """Keep the ledger's file locked for a while."""
        for path in self.place.home.folder.glob("ledger*.db"):
            with sqlite3.connect(path, timeout=5) as ledger, suppress(sqlite3.OperationalError):
                ledger.execute("BEGIN EXCLUSIVE")
                over.wait(seconds)
                ledger.rollback()

    @property
    def names(self) -> list[str]:
        return [holding_name(k, n) for k in range(len(self.nodes)) for n in range(self.per_node)]


def holding_name(node: int, number: int) -> str:
    return f"holding-{node}-{number}"


def start_node(place: Site, number: int, port: int = 0) -> AbstractContextManager[RunningNode]:
    folder, key = place.folder / f"node-{number}", place.folder / f"node-{number}.key"
    if not key.exists():
        new_node_key(key)
    return node_process(folder, key, place.home.keyring.owner, port)


@contextmanager
def soaked_fleet(
    place: Site, server: Server, size: tuple[int, int], seed: int
) -> Iterator[SoakedFleet]:
    """Run so many nodes with so many holdings on each; every file is on two nodes."""
    count, per_node = size
    rng = random.Random(seed)
    with ExitStack() as stack:
        running = [stack.enter_context(ExitStack()) for _ in range(count)]
        nodes = [each.enter_context(start_node(place, k)) for k, each in enumerate(running)]
        fleet = SoakedFleet(place, server, SettableClock(), nodes, rng, running, per_node)
        for number in range(per_node):
            for node in range(count):
                name = holding_name(node, number)
                add_holding(place.home, name, nodes[node].url, sectors=SECTORS, encrypted=False)
                for first in {node, (node - 1) % count}:
                    _put(place, name, f"file-{first}-{number}")
        yield fleet


def _put(place: Site, holding: str, name: str) -> None:
    path = place.folder / name
    if not path.exists():
        path.write_bytes(random.Random(name).randbytes(2000))
    with place.home.changing(holding) as opened:
        put(opened, name, Original.of(Location(str(path)), SEGMENT_BYTES), processes=1)
