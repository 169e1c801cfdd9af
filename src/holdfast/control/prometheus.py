"""Metrics for Prometheus: counters of this process, and gauges read from the database.

Counters belong to one process and are to be summed. Gauges are read on request, so every worker
reports the same. No label names a holding, of which there may be a million; a few name a node.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Engine

from holdfast.control.policies.aliases import named_aliases
from holdfast.control.queries.confidence import FleetConfidence, read_fleet_confidence
from holdfast.control.queries.coverage import Coverage, list_coverage
from holdfast.control.queries.fleet import read_figures
from holdfast.control.queries.nodes import Reachability, list_reachability
from holdfast.control.scheduling import guardrails
from holdfast.control.scheduling.worker import Tick
from holdfast.durations import SECOND
from holdfast.errors import HoldfastError, InputError, LedgerError, NodeError, StorageError
from holdfast.evidence.leaf import Outcome
from holdfast.storage.database import transaction

PARTS = {LedgerError: "ledger", NodeError: "node", StorageError: "database"}


class Metrics:
    def __init__(self, engine: Engine, clock: Callable[[], int]) -> None:
        self.registry = registry = CollectorRegistry()
        self._audits = Counter(
            "holdfast_audits",
            "Audits concluded. admitted: the node says that it lost data; timed-out: it took the "
            "challenge and gave no proof; offline: unreachable.",
            ["outcome"],
            registry=registry,
        )
        self._overrides = Counter(
            "holdfast_overrides", "Audits that a guardrail changed.", ["reason"], registry=registry
        )
        self._gas = Counter("holdfast_gas", "Gas spent on verdicts.", registry=registry)
        self._retries = Counter(
            "holdfast_audit_retries",
            "Audits put back to wait for a node or a ledger.",
            registry=registry,
        )
        self._failures = Counter(
            "holdfast_failures",
            "Worker runs aborted by a ledger, node or database error.",
            ["part"],
            registry=registry,
        )
        self.ticks = Histogram(
            "holdfast_tick_seconds", "Duration of a worker run that had work.", registry=registry
        )
        self.decisions = Histogram(
            "holdfast_decision_seconds", "Duration of a batch of decisions.", registry=registry
        )
        self._probes = Counter(
            "holdfast_probes",
            "Probes of nodes: present, away, or unknown if no node at all was reachable.",
            ["result"],
            registry=registry,
        )
        self._shadowed = Counter(
            "holdfast_shadow_decisions",
            "Decisions that the challenger took in shadow.",
            registry=registry,
        )
        self._agreed = Counter(
            "holdfast_shadow_agreements",
            "Shadow decisions that agree with the champion's.",
            registry=registry,
        )
        for outcome in Outcome:
            self._audits.labels(outcome)
        for part in (*PARTS.values(), "other"):
            self._failures.labels(part)
        for result in ("present", "away", "unknown"):
            self._probes.labels(result)
        registry.register(_Database(engine, clock))

    def count_tick(self, tick: Tick, seconds: float) -> None:
        if tick.claimed:
            self.ticks.observe(seconds)
        self._retries.inc(tick.waiting)
        self._shadowed.inc(tick.shadowed)
        self._agreed.inc(tick.agreed)
        for result in tick.concluded:
            self._audits.labels(result.outcome).inc()
            self._gas.inc(result.gas)
        for overrides in tick.overrides:
            for reason in guardrails.override_names(overrides):
                self._overrides.labels(reason).inc()

    def count_probe(self, result: str) -> None:
        self._probes.labels(result).inc()

    def count_failure(self, error: Exception) -> None:
        part = next((name for kind, name in PARTS.items() if isinstance(error, kind)), "other")
        self._failures.labels(part).inc()

    @contextmanager
    def serve(self, host: str, port: int) -> Iterator[None]:
        """Serve the metrics on a port while the context lasts."""
        try:
            server, thread = start_http_server(port, host, self.registry)
        except (OSError, OverflowError) as error:
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
        up = (
            "holdfast_database_up",
            "Whether the database can be read; if not, its gauges are missing.",
        )
        try:
            with transaction(self._engine) as connection:
                figures = read_figures(connection, self._clock(), grace=0)  # none is by health
                aliases = named_aliases(connection)
                nodes = list_reachability(connection, self._clock())
                confidence = read_fleet_confidence(connection)
                coverage = list_coverage(connection, self._clock())
        except HoldfastError:
            yield GaugeMetricFamily(*up, value=0)
            return
        yield GaugeMetricFamily(*up, value=1)
        policy = InfoMetricFamily(
            "holdfast_policy", "The versions with an alias.", labels=("alias",)
        )
        for alias, named in aliases.items():
            policy.add_metric((alias,), {"name": named.name, "version": named.version})
        yield policy
        yield from _hours(nodes)
        yield from _covered(coverage)
        lag, evidence = figures.lag, figures.evidence
        for name, meaning, value in (
            (
                "overdue_holdings",
                "Holdings that are due and that no worker has, or has for a minute.",
                lag.overdue,
            ),
            (
                "due_lag_seconds",
                "Seconds since the first overdue holding was due.",
                lag.longest / 1000,
            ),
            ("working_holdings", "Holdings that a worker has now.", lag.working),
            ("quarantined_holdings", "Holdings taken off the schedule.", lag.quarantined),
            ("damaged_holdings", "Holdings whose last audit showed a loss.", figures.failed),
            ("silent_holdings", "Holdings whose last audit brought no proof.", figures.unanswered),
            ("holdings", "Holdings known.", figures.holdings),
            ("evidence_leaves", "Leaves in the evidence's tree.", evidence.leaves),
            ("evidence_anchored_leaves", "Leaves below the last anchor.", evidence.anchored),
            ("evidence_unsequenced_leaves", "Leaves still without a place.", evidence.waiting),
            ("open_cases", "Holdings with a response in progress.", figures.cases),
            ("open_alerts", "Alerts that have not ended.", figures.alerts),
        ):
            yield GaugeMetricFamily(f"holdfast_{name}", meaning, value=value)
        if confidence is not None:
            yield from _inferred(confidence, figures.at)


def _hours(nodes: Sequence[Reachability]) -> Iterator[Metric]:
    for name, meaning in (
        ("reachable_hours", "Hours of the last 30 days in which the node was reachable."),
        ("observed_hours", "Hours of the last 30 days for which that is known."),
    ):
        hours = GaugeMetricFamily(f"holdfast_node_{name}", meaning, labels=("node",))
        for node in nodes:
            hours.add_metric((node.address,), getattr(node, name))
        yield hours


def _covered(checked: Sequence[Coverage]) -> Iterator[Metric]:
    """Yield what checks by tools have read; shares are of the holding's own units."""
    share = GaugeMetricFamily(
        "holdfast_check_verified_ratio",
        "Share of a holding's units that were read and intact within so many days.",
        labels=("holding", "days"),
    )
    ages = ("oldest_unit_age_seconds", "Seconds since the oldest unit was read, or added.")
    kept = ("promise_seconds", "Seconds within which the owner wants every unit read.")
    bound = ("damaged_ratio_at_most", "Share of the units that is damaged at most, at 95 %.")
    units = ("units", "Units of the holding: packs, objects, files.")
    of_holding = {
        name: GaugeMetricFamily(f"holdfast_check_{name}", meaning, labels=("holding",))
        for name, meaning in (units, ages, kept, bound)
    }
    for coverage in checked:
        for days, verified in coverage.verified.items():
            share.add_metric((coverage.holding, str(days)), verified)
        within, oldest = coverage.verify_within, coverage.oldest
        for name, value in (
            ("units", coverage.units),
            ("oldest_unit_age_seconds", None if oldest is None else oldest / SECOND),
            ("promise_seconds", None if within is None else within / SECOND),
            ("damaged_ratio_at_most", coverage.bound.share),
        ):
            if value is not None:
                of_holding[name].add_metric((coverage.holding,), value)
    yield share
    yield from of_holding.values()


def _inferred(confidence: FleetConfidence, now: int) -> Iterator[Metric]:
    rate = confidence.miss_rate
    for name, meaning, value in (
        ("damaged_at_most", "Share of all blocks damaged, at 95 %.", confidence.fleet_at_most),
        ("miss_rate", "Misses per miss or detection, over the whole log.", rate.value),
        ("miss_rate_low", "The lower end of its 95 % interval.", rate.low),
        ("miss_rate_high", "The upper end of its 95 % interval.", rate.high),
        ("age_seconds", "Age of the oldest of these figures.", (now - confidence.at) / 1000),
    ):
        help_text = f"Inferred, not observed. {meaning}"
        yield GaugeMetricFamily(f"holdfast_confidence_{name}", help_text, value=value)
