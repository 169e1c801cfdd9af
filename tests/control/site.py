"""The real service on a real home: one small node in its own process, and its holdings."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.owner.small_node import SEGMENT_BYTES
from tests.owner.world import PASSPHRASE, QUICK, RunningNode, new_node_key, node_process

from holdfast.control.database import connect
from holdfast.control.log import DatabaseLog
from holdfast.control.rails import Rails
from holdfast.control.service import Service, evidence_signer, opened_service
from holdfast.control.settings import ControlSettings
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.verification import Report, verify
from holdfast.owner import Home, Original, add_holding, put
from holdfast.pdp import Location

SECTORS = 2


@dataclass(frozen=True)
class Site:
    folder: Path
    home: Home
    node: RunningNode
    settings: ControlSettings

    def holding(self, name: str, content: bytes) -> None:
        """Put a file on the node, in a holding of its own."""
        add_holding(self.home, name, self.node.url, sectors=SECTORS, encrypted=False)
        path = self.folder / name
        path.write_bytes(content)
        original = Original.of(Location(str(path)), SEGMENT_BYTES)
        with self.home.changing(name) as place:
            put(place, name, original, processes=1)

    @contextmanager
    def service(self, clock: Callable[[], int], steady: Callable[[], int]) -> Iterator[Service]:
        """Yield a service on these clocks, which does not wait."""
        home = replace(self.home, clock=lambda: clock() / 1000)
        with opened_service(
            home, self.settings, clock=clock, steady=steady, pause=lambda _: None
        ) as service:
            yield service

    @contextmanager
    def log(self) -> Iterator[DatabaseLog]:
        engine = connect(self.settings.address(self.home.folder))
        try:
            yield DatabaseLog(engine, evidence_signer(self.home.keyring).verifier)
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
    home = Home.create(folder / "home", PASSPHRASE, QUICK)
    new_node_key(folder / "node.key")
    chosen = settings or ControlSettings(rails=Rails(jitter=0.0))
    with node_process(folder / "node", folder / "node.key", home.keyring.owner) as node:
        yield Site(folder, home, node, chosen)
