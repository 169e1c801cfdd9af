"""Assembles the service from a home: its database, clock, ledger, nodes and workers.

A service is one worker with its upkeep, the responses to failed audits and the probes of nodes. Any
number of services, on this host and others, share one database.
"""

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import structlog
from sqlalchemy import Engine

from holdfast import atomic
from holdfast.control.audits.assembly import Fleets, open_auditor
from holdfast.control.audits.checked_fleet import CheckedFleet
from holdfast.control.audits.contacts import Contacts
from holdfast.control.audits.lanes import uptime
from holdfast.control.audits.open_holdings import HomeFleet
from holdfast.control.audits.prober import Prober
from holdfast.control.evidence.reader import VERIFIER
from holdfast.control.evidence.sequencer import Sequencer
from holdfast.control.evidence.signer import current_signer
from holdfast.control.incidents.alerts import Alerts, Webhook
from holdfast.control.incidents.monitor import Clocks, Monitor
from holdfast.control.incidents.responder import Responder
from holdfast.control.incidents.store import Cases
from holdfast.control.inference.fits import last_taught
from holdfast.control.inference.retraining import Retraining
from holdfast.control.policies.active import PolicyLoader, ensure_champion
from holdfast.control.policies.aliases import Author
from holdfast.control.prometheus import Metrics
from holdfast.control.queries.absences import list_absences, present_nodes
from holdfast.control.queries.coverage import list_coverage
from holdfast.control.queries.names import describe_node
from holdfast.control.removals import Removals
from holdfast.control.scheduling.claims import LeaseLostError
from holdfast.control.scheduling.decider import system_rng
from holdfast.control.scheduling.schedule import Schedule
from holdfast.control.scheduling.telemetry import FAILURES
from holdfast.control.scheduling.worker import Tick, Worker
from holdfast.control.settings.configuration import operator, record_configuration
from holdfast.control.settings.models import (
    ControlSettings,
    RetrainingSettings,
    Timeouts,
    Upkeep,
    read_control,
)
from holdfast.control.settings.show import recorded_settings
from holdfast.errors import HoldfastError, InputError
from holdfast.evidence import leaf
from holdfast.owner import Home
from holdfast.policy.serving import load_serving
from holdfast.processes import join_threads, start_thread
from holdfast.storage.database import connect, migrate, transaction

RESPONDERS = 4  # threads that respond to failed audits: as many cases go on at the same time
STOP_SECONDS = 2.0  # for nodes to answer once the service is to stop
MAX_MISSED_PROBES = 6  # after which nobody knows whether a node was reachable meanwhile
log = structlog.get_logger()


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Service:
    schedule: Schedule
    worker: Worker
    sequencer: Sequencer
    fleet: HomeFleet
    checked: CheckedFleet
    monitor: Monitor
    responder: Responder
    prober: Prober
    contacts: Contacts
    retraining: Retraining
    removals: Removals
    metrics: Metrics
    upkeep: Upkeep
    longest: int  # milliseconds between two audits of a holding, at most
    check: Callable[[], None]  # raises if the settings can't be used any more
    clock: Callable[[], int]
    pause: Callable[[float], object]
    _checked: int = 0
    _anchored: int = 0
    _postponed: dict[str, int] = field(default_factory=dict)  # holdings not scheduled until then

    def run(self, stopping: Callable[[], bool]) -> None:
        """Do what is due until stopped; failures are reported and tried again."""
        over = Event()
        responding = [start_thread(self._respond, over) for _ in range(RESPONDERS)]
        probing = start_thread(self._probe, over)
        start_thread(self.removals.run, over)
        try:
            self._work(lambda: stopping() or not all(t.is_alive() for t in responding))
        finally:
            over.set()
            self.stop_worker()
        join_threads((*responding, probing), STOP_SECONDS)
        self.responder.give_up()
        if not stopping():
            raise HoldfastError("the responses to failed audits have stopped: the log says why")

    def stop_worker(self) -> None:
        """Give up the audits that still wait for nodes, so that others can resume them."""
        try:
            self.worker.stop(STOP_SECONDS)
            self.sequencer.sequence()
        except (HoldfastError, LeaseLostError) as error:
            log.warning("audits that run are resumed when their leases end", reason=str(error))

    def _respond(self, over: Event) -> None:
        """Respond to failed audits in a thread of its own: a slow node delays no other case."""
        while not over.is_set():
            try:
                if self.responder.tick():
                    continue
            except LeaseLostError:
                log.warning("another worker has taken over a response")
            except (HoldfastError, OSError) as error:
                log.warning("the responses stand still", reason=str(error))
                self.metrics.count_failure(error)
            over.wait(self.upkeep.idle / 1000)

    def _probe(self, over: Event) -> None:
        """Probe nodes in a thread of its own: a slow node delays no audit."""
        while not over.is_set():
            try:
                self.prober.tick()
            except (HoldfastError, OSError) as error:
                log.warning("probes can't be made", reason=str(error))
                self.metrics.count_failure(error)
            over.wait(self.upkeep.idle / 1000)

    def _work(self, stopping: Callable[[], bool]) -> None:
        wait = self.upkeep.idle
        while not stopping():
            try:
                busy = self.step()
                wait = 0 if busy else self.upkeep.idle
            except LeaseLostError:
                log.warning("another worker has taken over an audit: this one was too slow")
            except (HoldfastError, OSError) as error:
                log.warning("the work stands still", reason=str(error))
                self.monitor.on_error(error)
                self.metrics.count_failure(error)
                wait = min(max(2 * wait, self.upkeep.idle), 60 * self.upkeep.idle)
            if wait and not stopping():
                self.pause(wait / 1000)

    def step(self) -> bool:
        """Do what is due now; return whether there may be more."""
        now = self.clock()
        self.enrol(now)
        start = time.perf_counter()
        tick = self.worker.tick()
        self.metrics.count_tick(tick, time.perf_counter() - start)
        self.monitor.on_tick(tick)
        _log_results(tick)
        if any(result.outcome in FAILURES for result in tick.concluded):
            self.responder.open_cases()
        sequenced = self.sequencer.sequence()
        if now - self._checked >= self.upkeep.enrol or now < self._checked:
            self.check_health(now)
            self._checked = now
        if now - self._anchored >= self.upkeep.anchor or now < self._anchored:
            self.anchor(now)
        self.monitor.on_success()
        return bool(tick.busy or sequenced)

    def enrol(self, now: int) -> None:
        """Schedule new holdings, and record their registrations in the evidence."""
        retry = now + self.upkeep.enrol
        postponed = {name for name, until in self._postponed.items() if now < until <= retry}
        fresh = [row for row in self.fleet.unscheduled() if row[0] not in postponed]
        registrations, errors = self._registrations([name for name, _, _ in fresh], now)
        self._postponed |= dict.fromkeys(errors, retry)
        if errors and not registrations and not self.schedule.names():
            raise next(iter(errors.values()))
        fresh = [row for row in fresh if row[0] in registrations]
        checked = self.checked.unscheduled()
        try:
            if fresh:
                self.schedule.add(fresh, now, registrations)
            if checked:
                self.schedule.add_checked(checked, now)
        except InputError:
            return  # another worker was faster: the next step sees the rest
        if fresh or checked:
            log.info("holdings are scheduled from now on", count=len(fresh) + len(checked))

    def _registrations(
        self, names: Sequence[str], now: int
    ) -> tuple[dict[str, bytes], dict[str, HoldfastError]]:
        """Return the leaves of new holdings, and for the others why there is none."""
        leaves, errors = {}, {}
        for name in names:
            try:
                leaves[name] = leaf.encode(self.fleet.registration(name, now))
            except HoldfastError as error:
                log.warning("a holding is not scheduled yet", holding=name, reason=str(error))
                errors[name] = error
        return leaves, errors

    def check_health(self, now: int) -> None:
        """Check what no audit shows: lateness, settings, retraining, reorganisations."""
        self.schedule.enforce_longest(self.longest, now)
        self.monitor.check_lag(self.schedule.lag(now))
        self.monitor.check_evasion(self.contacts.records_away())
        with transaction(self.schedule.engine) as connection:
            absences, present = list_absences(connection), present_nodes(connection)
            coverage = list_coverage(connection, now)
        self.monitor.check_absences(absences, present)
        self.monitor.check_coverage(coverage)
        self.monitor.check_settings(self.check)
        trouble = self.retraining.look(now)
        if trouble is not None:
            self.monitor.on_retraining(trouble)
        ledger = self.fleet.any_ledger()
        if ledger is not None:
            ledger.reconcile()
            self.monitor.check_reorganisations(ledger.reorganisations())

    def anchor(self, now: int) -> None:
        ledger = self.fleet.any_ledger()
        if ledger is not None:
            head = self.sequencer.anchor(ledger)
            if head is not None:
                log.info("anchored the evidence", size=head.size, root=head.root.hex())
                self.monitor.on_anchor()
            self._anchored = now


@contextmanager
def open_service(
    home: Home,
    settings: ControlSettings,
    *,
    clock: Callable[[], int] = milliseconds,
    steady: Callable[[], int] = uptime,
    pause: Callable[[float], object] = time.sleep,
    number: int = 0,
    patience: Timeouts | None = None,
    sample_cap: int | None = None,
    alone: bool = True,
) -> Iterator[Service]:
    """Open a service of a home; `number` is its own among those on this host.

    `patience` and `sample_cap` replace those of the settings. One that is not `alone` beside
    others serves no metrics.
    """
    address = settings.address(home.folder)
    engine, reader = connect(address), connect(address, read_only=True)
    hook = settings.alerts.webhook
    try:
        migrate(engine)
        sink = None if hook is None else Webhook(hook)
        clocks, host = Clocks(clock, steady), socket.gethostname()
        monitor = Monitor(Alerts(engine, clock), sink, clocks, host, settings.alerts)
        policies = _load_policies(engine, settings, monitor, clock())
        metrics = Metrics(reader, clock)
        values = recorded_settings(
            home.folder, home.settings, settings, home.keyring.settings_key()
        )
        if record_configuration(engine, values, Author(operator(), clock())):
            log.info("recorded the settings in the evidence")
        signer = current_signer(home.keyring, engine)
        verifier = f"{signer.verifier}\n".encode()
        atomic.write(home.folder / VERIFIER, verifier, mode=atomic.PRIVATE)
        with ExitStack() as stack:
            if settings.metrics.listen is not None and alone:
                host_name, port = settings.metrics.listen
                stack.enter_context(metrics.serve(host_name, port + number))
            fleet = stack.enter_context(HomeFleet(home))
            schedule = Schedule(engine)
            contacts = Contacts(engine, max_gap=MAX_MISSED_PROBES * settings.probes.every)
            longest = settings.rails.longest * settings.rails.unit
            schedule.enforce_longest(longest)
            checked = CheckedFleet(home.folder, engine)
            auditor = open_auditor(
                stack,
                Fleets(fleet, checked),
                schedule,
                contacts,
                settings,
                clocks,
                patience=patience,
                sample_cap=sample_cap,
            )
            worker = Worker(
                schedule,
                auditor,
                policies,
                rails=settings.rails,
                constants=settings.scenario.constants,
                clock=clock,
                rng=system_rng,
                pace=settings.pace,
                timing=metrics.decisions.time,
            )
            responder = Responder(
                Cases(engine),
                home,
                settings.responses,
                unit=settings.rails.unit,
                clock=clock,
                checked=checked,
            )
            prober = stack.enter_context(
                Prober(
                    contacts,
                    fleet.nodes,
                    settings.probes,
                    clock=clock,
                    on_probe=metrics.count_probe,
                    describe=lambda node: describe_node(reader, node),
                )
            )
            # Only the first service of a host retrains.
            plan = settings.retraining if number == 0 else RetrainingSettings()
            retraining = Retraining(home.folder, plan, lambda: last_taught(engine))
            stack.callback(retraining.stop)
            yield Service(
                schedule,
                worker,
                Sequencer(engine, signer, clock),
                fleet,
                checked,
                monitor,
                responder,
                prober,
                contacts,
                retraining,
                Removals(home),
                metrics,
                settings.upkeep,
                longest,
                lambda: check_settings(read_control(home.folder), home.folder),
                clock,
                pause,
            )
    finally:
        reader.dispose()
        engine.dispose()


def _load_policies(
    engine: Engine, settings: ControlSettings, monitor: Monitor, now: int
) -> PolicyLoader:
    """Load the policies; if the champion can't be used, raise an alert, then the error."""
    try:
        named = load_serving(settings.policy, settings.scenario)
        ensure_champion(engine, settings.policy, settings.scenario, now)
        policies = PolicyLoader(engine, with_plugins=settings.allow_plugins)
        champion = policies.now().champion
    except HoldfastError as error:
        monitor.on_unusable_settings(str(error))
        raise
    if champion.version != named.version:
        log.warning(
            "the registry's champion decides, not the policy of holdfast.toml",
            champion=champion.name,
            version=champion.version,
            settings=settings.policy,
        )
    return policies


def _log_results(tick: Tick) -> None:
    for result in tick.concluded:
        write = log.info if result.outcome == "passed" else log.warning
        write(
            "audited",
            holding=result.name,
            outcome=str(result.outcome),
            samples=result.checked,
            reason=result.reason or None,
        )


def check_settings(settings: ControlSettings, home: Path) -> None:
    """Raise if these settings can't work, before anything is started."""
    load_serving(settings.policy, settings.scenario)
    connect(settings.address(home)).dispose()
    if settings.rails.longest * settings.rails.unit <= settings.patience.deadline:
        raise InputError("deadline in [control.patience] must be below longest in [control.rails]")
    if settings.pace.gather >= settings.alerts.overdue:
        raise InputError("gather in [control.pace] must be below overdue in [control.alerts]")
