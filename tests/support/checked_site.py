"""A home whose holdings are checked by scripts, and its service on a clock that tests move."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy import select
from tests.support.live_service import Times
from tests.support.owner_env import PASSPHRASE, QUICK
from tests.support.scripted_checker import KIND, SCRIPTS, Script

from holdfast.checkers.interface import Extent
from holdfast.control import checked_commands
from holdfast.control.audits.types import AuditResult
from holdfast.control.checked_commands import NewChecked
from holdfast.control.evidence.reader import DatabaseLog
from holdfast.control.evidence.signer import current_signer
from holdfast.control.incidents.alerts import Alert, Alerts
from holdfast.control.policies.aliases import Author
from holdfast.control.queries.coverage import Coverage, list_coverage
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.service import Service, open_service
from holdfast.control.settings.models import ControlSettings
from holdfast.durations import DAY
from holdfast.evidence import leaf
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.verification import Report, verify
from holdfast.owner import Home
from holdfast.owner.checked import CheckedRecord
from holdfast.storage.database import open_engine, transaction
from holdfast.storage.schema import holdings, leaves

REAL_SECONDS = 120.0  # for which a test waits for a thread
RAILS = Rails(jitter=0.0, surprise=0.0, first=0.0, recovery=14)


@dataclass
class CheckedSite:
    folder: Path
    home: Home
    settings: ControlSettings
    times: Times = field(default_factory=Times)

    @property
    def address(self) -> str:
        return self.settings.address(self.home.folder)

    def add(
        self,
        name: str,
        groups: dict[str, int] | None = None,
        *,
        verify_within: int | None = None,
        kind: str = KIND,
        **script: object,
    ) -> Script:
        """Add a holding that a script checks; return the script."""
        made = Script(groups if groups is not None else {f"g{n}": 1 for n in range(20)}, **script)  # type: ignore[arg-type]
        SCRIPTS[f"script://{name}"] = made
        self.add_kind(NewChecked(name, kind, f"script://{name}", {}, verify_within))
        return made

    def add_kind(self, new: NewChecked) -> tuple[CheckedRecord, Extent]:
        author = Author("olga", self.times.wall(), "")
        with self.home.catalogue() as catalogue:
            folder = self.home.folder
            return checked_commands.add(catalogue, folder, new, self.settings, author)

    @contextmanager
    def service(self) -> Iterator[Service]:
        home = replace(self.home, clock=lambda: self.times.wall() / 1000)
        with open_service(
            home,
            self.settings,
            clock=self.times.wall,
            steady=self.times.steady,
            pause=self.times.pause,
            alone=False,
        ) as service:
            service.enrol(self.times.wall())
            yield service

    def run(
        self, service: Service, audits: int = 1, *, days: float = 30.0, respond: bool = False
    ) -> list[AuditResult]:
        """Let time pass from one due moment to the next until so many audits have ended."""
        results: list[AuditResult] = []
        end, give_up = self.times.now + round(days * DAY), time.monotonic() + REAL_SECONDS
        while len(results) < audits and self.times.now < end:
            assert time.monotonic() < give_up, "the audits do not end"
            tick = service.worker.tick()
            service.monitor.on_tick(tick)
            results += tick.concluded
            if respond:
                service.responder.tick()
            if not tick.busy:
                due = service.schedule.next_due()
                self.times.now = max(self.times.now + 1, end if due is None else min(due, end))
        service.sequencer.sequence()
        service.monitor.on_success()
        return results

    def respond(self, service: Service, until: Callable[[], object]) -> None:
        """Respond to what failed, and audit what follows up, until something holds."""
        give_up = time.monotonic() + REAL_SECONDS
        while not until():
            assert time.monotonic() < give_up, "the responses do not end"
            service.responder.tick()
            if not service.worker.tick().busy:
                time.sleep(0.01)
            self.times.now += 1

    def leaves(self) -> list[leaf.Leaf]:
        with open_engine(self.address) as engine, transaction(engine) as connection:
            rows = connection.execute(select(leaves.c.body).order_by(leaves.c.id)).scalars()
            return [leaf.decode(bytes(body)) for body in rows]

    def checks(self) -> list[leaf.StorageCheck]:
        return [entry for entry in self.leaves() if isinstance(entry, leaf.StorageCheck)]

    def row(self, name: str) -> object:
        with open_engine(self.address) as engine, transaction(engine) as connection:
            return connection.execute(select(holdings).where(holdings.c.name == name)).one()

    def coverage(self, name: str) -> Coverage:
        with open_engine(self.address) as engine, transaction(engine) as connection:
            return next(iter(list_coverage(connection, self.times.wall(), [name])))

    def alerts(self, *, ended: bool = False) -> list[Alert]:
        with open_engine(self.address) as engine:
            return Alerts(engine, self.times.wall).listing(ended=ended)

    def verified(self) -> Report:
        """Export the evidence, and check it as a stranger would."""
        bundle = self.folder / "bundle"
        bundle.unlink(missing_ok=True)
        with open_engine(self.address) as engine:
            log = DatabaseLog(engine, current_signer(self.home.keyring, engine).verifier)
            write_bundle(log, bundle)
            return verify(Bundle.open(bundle), log.verifier)


def checked_site(folder: Path, settings: ControlSettings | None = None) -> CheckedSite:
    settings = settings or ControlSettings(policy="constant:1,0.10", rails=RAILS)
    home = Home.create(folder / "home", PASSPHRASE, QUICK)
    home = replace(home, settings=replace(home.settings, database=settings.database))
    with home.catalogue():
        return CheckedSite(folder, home, settings)
