"""Probes of real nodes: at random times, beside the work, and never against us being offline."""

import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, select
from tests.support.owner_env import World

from holdfast.control.audits.contacts import Contacts
from holdfast.control.audits.open_holdings import HomeFleet
from holdfast.control.audits.prober import MAX_PROBES_AT_ONCE, Prober
from holdfast.control.settings.models import ProbeSettings
from holdfast.durations import HOUR, SECOND
from holdfast.node.access import NodeAccess
from holdfast.owner import HoldingRecord
from holdfast.storage.database import connect, migrate, transaction
from holdfast.storage.schema import nodes

SETTINGS = ProbeSettings(every=HOUR, timeout=SECOND)
Clients = dict[bytes, Callable[[], NodeAccess]]


@pytest.fixture
def engine(world: World) -> Iterator[Engine]:
    engine = connect(str(world.folder / "holdfast.db"))
    migrate(engine)
    yield engine
    engine.dispose()


class Bench:
    """A prober on a clock of its own, and what it recorded."""

    def __init__(self, engine: Engine, clients: Clients) -> None:
        self.now, self.results = 10**12, list[str]()
        self._engine, self.contacts = engine, Contacts(engine)
        self.prober = Prober(
            self.contacts,
            lambda: clients,
            SETTINGS,
            clock=lambda: self.now,
            on_probe=self.results.append,
            rng=random.Random(5),
        )

    def hours(self, count: float) -> None:
        """Let hours pass, with all probes."""
        end = self.now + count * HOUR
        while self.now < end:
            for probe in self.prober.tick():
                probe.result(timeout=60)
            self.now += HOUR // 12

    def row(self, address: bytes) -> tuple[bool | None, str]:
        query = select(nodes.c.present, nodes.c.probes).where(nodes.c.address == address)
        with transaction(self._engine) as connection:
            present, probes = connection.execute(query).one()
            return present, probes


@contextmanager
def probing(engine: Engine, clients: Clients) -> Iterator[Bench]:
    bench = Bench(engine, clients)
    with bench.prober:
        yield bench


def clients_of(world: World) -> Clients:
    with HomeFleet(world.home) as fleet:
        return fleet.nodes()


def nowhere(world: World, address: bytes) -> Callable[[], NodeAccess]:
    """Return how to make a client of a node that nobody finds."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    place = HoldingRecord("nowhere", url, address, None, bytes(16), 2, encrypted=False)
    return lambda: world.home.client(place)


@pytest.mark.slow
def test_nodes_that_are_there_are_probed_about_once_an_hour(world: World, engine: Engine) -> None:
    with probing(engine, clients_of(world)) as bench:
        bench.hours(30)
        for node in (world.one, world.two):
            present, probes = bench.row(node.address)
            assert present
            assert set(probes) == {"."}
            assert 15 <= len(probes) <= 50


@pytest.mark.slow
def test_a_node_that_is_gone_is_away_where_another_one_is_there(
    world: World, engine: Engine
) -> None:
    clients = clients_of(world)
    with probing(engine, clients) as bench:
        bench.hours(5)
        clients[world.one.address] = nowhere(world, world.one.address)
        bench.hours(20)
        present, probes = bench.row(world.one.address)
    assert present is False
    assert probes.count("x") == 1, "an outage that lasts counts once"
    assert set(bench.results) == {"present", "away"}


def test_nothing_counts_while_nobody_at_all_is_reached(world: World, engine: Engine) -> None:
    clients = clients_of(world)
    with probing(engine, clients) as bench:
        bench.hours(5)
        before = {address: bench.row(address) for address in clients}
        for address in clients:
            clients[address] = nowhere(world, address)
        bench.results.clear()
        bench.hours(10)
        assert set(bench.results) == {"unknown"}
        assert {address: bench.row(address) for address in clients} == before


@pytest.mark.slow
def test_a_hung_node_took_the_request_and_holds_up_no_other_probe(
    world: World, engine: Engine
) -> None:
    with probing(engine, clients_of(world)) as bench:
        bench.hours(1)
        os.kill(world.one.process.pid, signal.SIGSTOP)
        before = len(bench.row(world.two.address)[1])
        try:
            began, ticks = time.monotonic(), 0
            while time.monotonic() - began < 2:
                bench.prober.tick()
                bench.now += HOUR // 4
                ticks += 1
                time.sleep(0.02)
            assert ticks > 20, "no tick waits for a node"
            assert len(bench.row(world.two.address)[1]) >= before + 3
        finally:
            os.kill(world.one.process.pid, signal.SIGCONT)
        bench.prober._pool.shutdown()
        assert bench.row(world.one.address)[0]
        assert bench.prober._free_threads() == MAX_PROBES_AT_ONCE
