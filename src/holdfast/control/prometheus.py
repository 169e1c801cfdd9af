"""What the control plane tells Prometheus: what this process did, and how the database stands.

Counters are each process's own, to be summed; gauges are read from the database when asked for, so
every worker tells the same. No label names a holding: there may be a million.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine

from holdfast.control.policies.aliases import named_aliases
from holdfast.control.queries.fleet import read_figures
from holdfast.control.scheduling import guardrails
from holdfast.control.scheduling.telemetry import Outcome
from holdfast.control.scheduling.worker import Tick
from holdfast.errors import HoldfastError, InputError, LedgerError, NodeError, StorageError
from holdfast.storage.database import transaction

PARTS = {LedgerError: "ledger", NodeError: "node", StorageError: "database"}


class Metrics:
    def __init__(self, engine: Engine, clock: Callable[[], int]) -> None:
        self.registry = registry = CollectorRegistry()
        self._audits = Counter(
            "holdfast_audits",
            "Audits concluded; timed-out: the node took the challenge, offline: it was not there.",
            ["outcome"],
            registry=registry,
        )
        self._overrides = Counter(
            "holdfast_overrides", "Audits that a rail changed.", ["reason"], registry=registry
        )
        self._gas = Counter("holdfast_gas", "Gas spent on verdicts.", registry=registry)
        self._retries = Counter(
            "holdfast_audit_retries", "Audits that wait for a node or a ledger.", registry=registry
        )
        self._failures = Counter(
            "holdfast_failures",
            "Goes that something kept from their end.",
            ["part"],
            registry=registry,
        )
        self.ticks = Histogram(
            "holdfast_tick_seconds", "Time of a worker's go that had work.", registry=registry
        )
        self.decisions = Histogram(
            "holdfast_decision_seconds", "Time of a batch of decisions.", registry=registry
        )
        self._probes = Counter(
            "holdfast_probes",
            "Probes of nodes: present, away, or unknown where we reached no node at all.",
            ["result"],
            registry=registry,
        )
        self._shadowed = Counter(
            "holdfast_shadow_decisions",
            "Decisions that the challenger took too.",
            registry=registry,
        )
        self._agreed = Counter(
            "holdfast_shadow_agreements", "Those of them that it took alike.", registry=registry
        )
        for outcome in Outcome:
            self._audits.labels(outcome)
        for part in (*PARTS.values(), "other"):
            self._failures.labels(part)
        for result in ("present", "away", "unknown"):
            self._probes.labels(result)
        registry.register(_Database(engine, clock))

    def ticked(self, tick: Tick, seconds: float) -> None:
        if tick.claimed:
            self.ticks.observe(seconds)
        self._retries.inc(tick.waiting)
        self._shadowed.inc(tick.shadowed)
        self._agreed.inc(tick.agreed)
        for result in tick.concluded:
            self._audits.labels(result.outcome).inc()
            self._gas.inc(result.gas)
        for overrides in tick.overrides:
            for reason in guardrails.names(overrides):
                self._overrides.labels(reason).inc()

    def probed(self, result: str) -> None:
        self._probes.labels(result).inc()

    def failed(self, error: Exception) -> None:
        part = next((name for kind, name in PARTS.items() if isinstance(error, kind)), "other")
        self._failures.labels(part).inc()

    @contextmanager
    def served(self, host: str, port: int) -> Iterator[None]:
        """Answer Prometheus on a port while the context lasts."""
        try:
            server, thread = start_http_server(port, host, self.registry)
        except OSError as error:
            raise InputError(f"the metrics can't be served on {host}:{port}: {error}") from error
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Database(Collector):
    def __init__(self, engine: Engine, clock: Callable[[], int]) -> None:
        self._engine, self._clock = engine, clock

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        up = "holdfast_database_up", "Whether the database can be read; if not, its figures lack."
        try:
            with transaction(self._engine) as connection:
                figures = read_figures(connection, self._clock(), grace=0)  # none is by health
                aliases = named_aliases(connection)
        except HoldfastError:
            yield GaugeMetricFamily(*up, value=0)
            return
        yield GaugeMetricFamily(*up, value=1)
        policy = InfoMetricFamily(
            "holdfast_policy", "Who decides, who is in shadow.", labels=("alias",)
        )
        for alias, named in aliases.items():
            policy.add_metric((alias,), {"name": named.name, "version": named.version})
        yield policy
        lag, evidence = figures.lag, figures.evidence
        for name, meaning, value in (
            ("overdue_holdings", "Holdings that are due and nobody works on.", lag.overdue),
            ("due_lag_seconds", "Since when the first of them is due.", lag.longest / 1000),
            ("working_holdings", "Holdings that a worker has now.", lag.working),
            ("quarantined_holdings", "Holdings taken off the schedule.", lag.quarantined),
            ("damaged_holdings", "Holdings whose last audit failed.", figures.failed),
            ("silent_holdings", "Holdings whose last audit got no proof.", figures.unanswered),
            ("holdings", "Holdings known.", figures.holdings),
            ("evidence_leaves", "Leaves in the evidence's tree.", evidence.leaves),
            ("evidence_anchored_leaves", "Leaves below the last anchor.", evidence.anchored),
            ("evidence_unsequenced_leaves", "Leaves without a place yet.", evidence.waiting),
            ("open_cases", "Holdings with a response under way.", figures.cases),
            ("open_alerts", "Alerts that have not ended.", figures.alerts),
        ):
            yield GaugeMetricFamily(f"holdfast_{name}", meaning, value=value)
