"""The real service on a real home: one small node in its own process, and its holdings."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from sqlalchemy import select
from tests.support.owner_env import PASSPHRASE, QUICK, RunningNode, new_node_key, node_process
from tests.support.small_node import SEGMENT_BYTES

from holdfast.control.evidence.reader import DatabaseLog
from holdfast.control.evidence.signer import current_signer
from holdfast.control.incidents.alerts import Alert, Alerts
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.service import Service, milliseconds, open_service
from holdfast.control.settings.models import ControlSettings
from holdfast.evidence import leaf
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.verification import Report, verify
from holdfast.owner import Home, Original, add_holding, put
from holdfast.pdp import Location
from holdfast.storage.database import connect, transaction
from holdfast.storage.schema import leaves

SECTORS = 4


@dataclass
class Times:
    """Clocks that go on while the service waits; the one of the day can be set."""

    now: int = field(default_factory=milliseconds)
    ahead: int = 0

    def wall(self) -> int:
        return self.now + self.ahead

    def steady(self) -> int:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += round(1000 * seconds)


@dataclass
class Site:
    folder: Path
    home: Home
    settings: ControlSettings
    times: Times = field(default_factory=Times)
    _running: ExitStack = field(default_factory=ExitStack)

    def start_node(self, port: int = 0) -> None:
        process = node_process(
            self.folder / "node", self.folder / "node.key", self.home.keyring.owner, port
        )
        self.node: RunningNode = self._running.enter_context(process)

    def stop_node(self) -> int:
        """Stop the node; return the port that it had."""
        self._running.close()
        port = urlsplit(self.node.url).port
        assert port is not None
        return port

    def holding(self, name: str, content: bytes, node: RunningNode | None = None) -> None:
        """Put a file on the node, or on another one, in a holding of its own."""
        url = (node or self.node).url
        add_holding(self.home, name, url, sectors=SECTORS, encrypted=False)
        path = self.folder / name
        path.write_bytes(content)
        original = Original.of(Location(str(path)), SEGMENT_BYTES)
        with self.home.changing(name) as place:
            put(place, name, original, processes=1)

    @contextmanager
    def service(
        self, clock: Callable[[], int] | None = None, steady: Callable[[], int] | None = None
    ) -> Iterator[Service]:
        """Yield a service on the site's own clocks or on these; waiting takes no time."""
        wall, steady = clock or self.times.wall, steady or self.times.steady
        home = replace(self.home, clock=lambda: wall() / 1000)
        with open_service(
            home, self.settings, clock=wall, steady=steady, pause=self.times.pause
        ) as service:
            yield service

    def run(self, service: Service, span: int) -> None:
        end = self.times.now + span
        service.run(lambda: self.times.now >= end)

    def audits(self) -> list[leaf.Audit]:
        """Return what the evidence has of audits, in the order in which they ended."""
        with self.log() as log, transaction(log._engine) as connection:
            rows = connection.execute(select(leaves.c.body).order_by(leaves.c.id)).scalars()
            told = [leaf.decode(bytes(body)) for body in rows]
        return [each for each in told if isinstance(each, leaf.Audit)]

    def alerts(self) -> list[Alert]:
        """Return all alerts that were ever raised, the newest first."""
        with self.log() as log:
            return Alerts(log._engine, self.times.wall).listing(ended=True)

    @contextmanager
    def log(self) -> Iterator[DatabaseLog]:
        engine = connect(self.settings.address(self.home.folder))
        try:
            yield DatabaseLog(engine, current_signer(self.home.keyring, engine).verifier)
        finally:
            engine.dispose()

    def verified(self) -> Report:
        """Export the evidence, and check it as a stranger would."""
        bundle = self.folder / "bundle"
        with self.log() as log:
            write_bundle(log, bundle)
            return verify(Bundle.open(bundle), log.verifier)


@contextmanager
def site(folder: Path, settings: ControlSettings | None = None) -> Iterator[Site]:
    settings = settings or ControlSettings(
        rails=Rails(jitter=0.0, surprise=0.0, first=0.0, recovery=14)
    )
    home = Home.create(folder / "home", PASSPHRASE, QUICK)
    home = replace(home, settings=replace(home.settings, database=settings.database))
    new_node_key(folder / "node.key")
    place = Site(folder, home, settings)
    place.start_node()
    try:
        yield place
    finally:
        place.stop_node()
