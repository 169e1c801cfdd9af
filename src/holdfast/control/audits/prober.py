"""The prober: checks at unpredictable times whether nodes are present.

The probes of a node are a Poisson process. A probe looks like a challenge on the network: the same
client asks from the same host, on a new connection. A node that takes the request counts as
present, whatever it answers, as with a challenge.
"""

import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from typing import Self

import structlog

from holdfast.control.audits.contacts import Contacts
from holdfast.control.settings.models import ProbeSettings
from holdfast.durations import SECOND
from holdfast.errors import HoldfastError, NodeError, RefusedError, UnreachableError
from holdfast.node.access import NodeAccess

MAX_PROBES_AT_ONCE = 16
ENROL_INTERVAL = 30 * SECOND  # between two lookups of new nodes
MAX_WITNESSES = 3  # other nodes that are asked whether we are online ourselves
log = structlog.get_logger()


Clients = Mapping[bytes, Callable[[], NodeAccess]]  # how to make the client of each node


class Prober:
    def __init__(
        self,
        contacts: Contacts,
        nodes: Callable[[], Clients],
        settings: ProbeSettings,
        *,
        clock: Callable[[], int],
        on_probe: Callable[[str], None] = lambda _result: None,
        describe: Callable[[bytes], str] = lambda node: f"0x{node.hex()}",
        rng: Random | None = None,
    ) -> None:
        """Make a prober of the nodes that `nodes` returns, which is called regularly.

        `describe` returns a node in words, for the log.
        """
        self._contacts, self._nodes, self._settings = contacts, nodes, settings
        self._clock, self._on_probe, self._describe = clock, on_probe, describe
        self._rng = rng or secrets.SystemRandom()
        self._clients: Clients = {}
        self._enrolled: int | None = None
        self._pool = ThreadPoolExecutor(MAX_PROBES_AT_ONCE, thread_name_prefix="probe")
        self._running: list[Future[None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def tick(self) -> list[Future[None]]:
        """Start the probes that are due, as far as there is room; a slow node delays no other."""
        now = self._clock()
        if self._enrolled is None or not 0 <= now - self._enrolled < ENROL_INTERVAL:
            self._clients = self._nodes()
            self._contacts.enrol({address: now + self._pause() for address in self._clients})
            self._enrolled = now
        claimed = self._contacts.claim_probes(now, self._free_threads(), self._pause)
        started = [
            self._pool.submit(self._probe, address, self._clients)
            for address in claimed
            if address in self._clients
        ]
        self._running += started
        return started

    def _free_threads(self) -> int:
        self._running = [probe for probe in self._running if not probe.done()]
        return MAX_PROBES_AT_ONCE - len(self._running)

    def _pause(self) -> int:
        return max(round(self._rng.expovariate(1 / self._settings.every)), 1)

    def _probe(self, address: bytes, clients: Clients) -> None:
        try:
            present = self._reaches(clients[address])
            if present or len(clients) == 1 or self._is_online(address, clients):
                self._contacts.record_probe(address, self._clock(), present=present)
                self._on_probe("present" if present else "away")
            else:
                self._on_probe("unknown")
        except (HoldfastError, OSError) as error:
            node = self._describe(address)
            log.warning("a probe could not be made", node=node, reason=str(error))

    def _reaches(self, client: Callable[[], NodeAccess]) -> bool:
        """Ask a node who it is; return whether it took the request."""
        with client() as node:
            try:
                node.facts(seconds=self._settings.timeout / SECOND)
            except UnreachableError:
                return False
            except (NodeError, RefusedError):
                return True
        return True

    def _is_online(self, address: bytes, clients: Clients) -> bool:
        """Return whether another node is reached: otherwise we may be offline ourselves."""
        others = sorted(other for other in clients if other != address)
        for other in self._rng.sample(others, min(MAX_WITNESSES, len(others))):
            if self._reaches(clients[other]):
                self._contacts.record_reached(other, self._clock())
                return True
        return False
