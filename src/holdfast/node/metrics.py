"""The metrics that a node exports to Prometheus."""

import time
from collections import Counter as Tally
from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.ledger.interface import Answer
from holdfast.node.store import Store
from holdfast.node.wire import Reason

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters since the node started, and gauges of what is stored."""

    def __init__(self, store: Store) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "holdfast_node_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            "holdfast_node_request_seconds",
            "Time until an answer was complete.",
            ["route"],
            registry=self._registry,
        )
        self.proofs = Counter(
            "holdfast_node_proofs",
            "Challenges answered: proved, or refused by this code.",
            ["result"],
            registry=self._registry,
        )
        for name, meaning, value in (
            ("holdings", "Holdings stored.", lambda: sum(len(a.holdings) for a in store.accounts)),
            (
                "reserved_bytes",
                "Bytes stored or reserved by uploads.",
                lambda: sum(account.reserved_bytes for account in store.accounts),
            ),
        ):
            Gauge(f"holdfast_node_{name}", meaning, registry=self._registry).set_function(value)

    def count_proofs(self, answers: Iterable[Answer | Reason]) -> None:
        results = Tally(
            answer.code if isinstance(answer, Reason) else "proved" for answer in answers
        )
        for result, count in results.items():
            self.proofs.labels(result).inc(count)

    def text(self) -> bytes:
        return generate_latest(self._registry)


class MetricsMiddleware:
    """Counts an application's answers by route, never by client address."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        start = time.perf_counter()

        async def send_and_note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note_status)
        finally:
            route = _route(scope)
            method = scope["method"] if route != "none" else "any"
            self._metrics.requests.labels(method, route, status).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - start)


def _route(scope: Scope) -> str:
    route: Any = scope.get("route")
    return getattr(route, "path", "none")
