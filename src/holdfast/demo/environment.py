"""Sets up the demo: an owner's home, nodes that store the same file, a ledger, the service."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np
import structlog

from holdfast import atomic
from holdfast.control.service import Service, open_service
from holdfast.control.settings.models import ControlSettings, read_control
from holdfast.demo.clock import Clock
from holdfast.demo.nodes import QUICK, StorageNode
from holdfast.errors import HoldfastError
from holdfast.ledger.interface import Ledger
from holdfast.owner import Home, Original, add_holding, put
from holdfast.pdp import Location
from holdfast.pdp.field import DEFAULT_SECTORS, SECTOR_BYTES
from holdfast.web.server import RunningServer, listen, url_of

if TYPE_CHECKING:
    from holdfast.demo.chain import Chain

NODES = ("attic", "barn", "cellar", "loft", "quay")
FILE = "archive.bin"
FILE_BYTES = 2 << 20
SECTORS = DEFAULT_SECTORS
BLOCK_BYTES = SECTORS * SECTOR_BYTES
# The dial is set to find damage soon. Audits are at most five days apart, and those that are due
# within half a day are settled together.
SETTINGS = """\
[control]
policy = "drqn-cmdp-plus:rho=0.8,latency=13.5"

[control.rails]
longest = 5

[control.pace]
gather = "12 hours"

[control.responses]
failed = [
  "localise", "repair", "follow-up",
  "localise", "repair", "follow-up",
  "quarantine", "alert",
]

[control.upkeep]
enrol = "2 days"
anchor = "7 days"

[control.alerts]
overdue = "1 day"

[control.web]
listen = "127.0.0.1:0"
"""


@dataclass(frozen=True)
class HomeOnChain(Home):
    """A home whose ledger is a chain in this process, which no settings can name."""

    chain: Ledger = field(kw_only=True)

    def ledger(self, sectors: int) -> AbstractContextManager[Ledger]:  # noqa: ARG002 - there is one
        return nullcontext(self.chain)


@dataclass(frozen=True)
class Environment:
    folder: Path
    clock: Clock
    chain: "Chain | None"  # none where the ledger is the local one
    nodes: dict[str, StorageNode]
    original: bytes
    settings: ControlSettings
    service: Service
    url: str  # of the dashboard

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def blocks(self) -> int:
        return -(-len(self.original) // BLOCK_BYTES)

    def reach(self, moment: int) -> None:
        """Let time pass until then, here and on the chain."""
        self.clock.reach(moment)
        if self.chain is not None:
            self.chain.reach(int(self.clock.seconds()))


@contextmanager
def open_environment(folder: Path, seed: int) -> Iterator[Environment]:
    """Set everything up in an empty folder; all of it ends with the context."""
    clock = Clock()
    original = np.random.default_rng(seed).bytes(FILE_BYTES)
    atomic.write(folder / FILE, original)
    own = Home.create(folder / "home", b"demo", QUICK)
    atomic.write(own.folder / "holdfast.toml", SETTINGS.encode())
    settings = read_control(own.folder)
    with ExitStack() as stack:
        stack.enter_context(_log_to(folder / "service.log"))
        nodes = {name: StorageNode(name, folder / name, own.keyring.owner) for name in NODES}
        for node in nodes.values():
            stack.callback(node.kill)
            node.start()
        chain = stack.enter_context(_chain(own.folder))  # takes as long as the nodes do
        home = _home(own, clock, chain)
        for node in nodes.values():
            node.wait_until_ready()
        _fill(home, nodes.values(), folder / FILE)
        service = stack.enter_context(open_service(home, settings, clock=clock, steady=clock))
        url = stack.enter_context(_dashboard(own.folder, settings, clock))
        yield Environment(folder, clock, chain, nodes, original, settings, service, url)


@contextmanager
def _log_to(path: Path) -> Iterator[None]:
    """Write the service's log there, so that the terminal shows only the demo."""
    with path.open("w") as file:
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.JSONRenderer(),
            ],
            logger_factory=structlog.WriteLoggerFactory(file),
        )
        try:
            yield
        finally:
            structlog.reset_defaults()


@contextmanager
def _chain(folder: Path) -> "Iterator[Chain | None]":
    try:
        from holdfast.demo.chain import open_chain  # noqa: PLC0415 - an extra
    except ImportError:
        yield None
        return
    with open_chain(folder, SECTORS) as chain:
        yield chain


def _home(own: Home, clock: Clock, chain: "Chain | None") -> Home:
    if chain is None:
        return Home(own.folder, own.keyring, own.settings, clock.seconds)
    return HomeOnChain(own.folder, own.keyring, own.settings, clock.seconds, chain=chain.ledger)


def _fill(home: Home, nodes: Iterable[StorageNode], path: Path) -> None:
    """Put the file on every node, in a holding of its own: all are replicas of one another."""
    original = Original.of(Location(str(path)))
    for node in nodes:
        add_holding(home, node.name, node.url, sectors=SECTORS, encrypted=False)
        with home.changing(node.name) as holding:
            put(holding, path.name, original, processes=1)


@contextmanager
def _dashboard(folder: Path, settings: ControlSettings, clock: Clock) -> Iterator[str]:
    listener = listen(settings.web)
    if listener is None:
        raise HoldfastError("the dashboard has no place to listen")
    with listener:
        server = RunningServer(listener, folder, settings)
        thread = Thread(target=server.run, args=(clock,), daemon=True)
        thread.start()
        try:
            yield url_of(listener)
        finally:
            server.stop()
            thread.join()
