"""A node that hangs harms nobody but itself, and an answer that we bring late harms nobody.

The service, its ledger and the nodes are real; a node hangs because its process was stopped.
"""

import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from sqlalchemy import select, update
from tests.support.live_service import Site, site
from tests.support.owner_env import RunningNode, flip, new_node_key, node_process

from holdfast.control.audits.running_audit import WE_WERE_AWAY
from holdfast.control.incidents.types import Kind
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.service import Service, milliseconds
from holdfast.control.settings.models import ControlSettings, Timeouts
from holdfast.durations import SECOND
from holdfast.evidence import leaf
from holdfast.evidence.leaf import Outcome
from holdfast.storage.database import transaction
from holdfast.storage.schema import holdings, leaves

pytestmark = pytest.mark.slow

CONTENT = random.Random(5).randbytes(3000)
DEADLINE_SECONDS = 6
HOLDINGS = 3
SECONDLY = ControlSettings(
    policy="heuristic",
    rails=Rails(unit=SECOND, longest=1, jitter=0.0, surprise=0.0, first=0.0, recovery=14),
    # Fewer requests side by side than a node has holdings: they share its time.
    patience=Timeouts(deadline=DEADLINE_SECONDS * SECOND, at_once=2),
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path, SECONDLY) as place:
        yield place


@contextmanager
def more_nodes(place: Site, count: int) -> Iterator[list[RunningNode]]:
    """Run further nodes beside the site's own."""
    with ExitStack() as stack:
        nodes = []
        for number in range(count):
            key = place.folder / f"node-{number}.key"
            new_node_key(key)
            folder = place.folder / f"node-{number}"
            nodes.append(stack.enter_context(node_process(folder, key, place.home.keyring.owner)))
        yield nodes


@contextmanager
def stopped(node: RunningNode) -> Iterator[None]:
    """Stop the node's process, the kernel of which still takes connections and bytes."""
    os.kill(node.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(node.process.pid, signal.SIGCONT)


def outcomes(place: Site) -> dict[bytes, list[Outcome]]:
    """Return what came of the first audits, by node."""
    first = [audit for audit in place.audits() if audit.number == 1]
    by_node = defaultdict(list)
    for audit in first:
        by_node[audit.holding.node].append(audit.outcome)
    return by_node


@pytest.mark.slow
def test_a_hung_node_times_out_alone(place: Site) -> None:
    """One stopped process harms no holding of another node.

    Before answers were settled as they came, one go took 60 s: all 6 holdings of the healthy nodes
    were timed out, and the 3 of the hung one were offline.
    """
    with more_nodes(place, 2) as healthy:
        for number in range(HOLDINGS):
            for which, node in enumerate((*healthy, place.node)):
                place.holding(f"holding-{which}-{number}", CONTENT, node)
        with place.service(milliseconds) as service:
            service.step()
            time.sleep(1.1)
            with stopped(place.node):
                while len(outcomes(place)[place.node.address]) < HOLDINGS:
                    service.step()
                    time.sleep(0.05)
        came = outcomes(place)
        assert came.pop(place.node.address) == [Outcome.TIMED_OUT] * HOLDINGS
        assert came == {node.address: [Outcome.PASSED] * HOLDINGS for node in healthy}
        # The healthy nodes' answers were settled while the hung one was waited for.
        order = [audit.holding.node for audit in place.audits() if audit.number == 1]
        assert order[-HOLDINGS:] == [place.node.address] * HOLDINGS


@pytest.mark.slow
def test_a_hung_node_excuses_nobody_who_is_away(place: Site) -> None:
    """A dead node is asked again while a hung one is waited for.

    Before, its retries were missed meanwhile, and its outage counted as an absence of ours.
    """
    with more_nodes(place, 1) as (dead,):
        for which, node in enumerate((dead, place.node)):
            place.holding(f"holding-{which}", CONTENT, node)
        with place.service(milliseconds) as service:
            service.step()
            time.sleep(1.1)
            dead.process.kill()
            dead.process.wait()
            with stopped(place.node):
                while sum(map(len, outcomes(place).values())) < 2:
                    service.step()
                    time.sleep(0.2)
        came = outcomes(place)
        assert came[dead.address] == [Outcome.OFFLINE]
        assert came[place.node.address] == [Outcome.TIMED_OUT]


def test_audits_behind_a_hung_request_are_asked_for_in_time(place: Site) -> None:
    """Silence of a hung node is its own, also where another request of ours waits for it.

    Before, they were asked for after their deadline, and ended as `unknown`: our fault.
    """
    for name in ("first", "second"):
        place.holding(name, CONTENT)
    with place.service(milliseconds) as service:
        service.step()
        time.sleep(1.1)
        put_off(service, "second", 60 * SECOND)
        with stopped(place.node):
            service.step()
            time.sleep(0.3)
            put_off(service, "second", 0)
            while len(outcomes(place)[place.node.address]) < 2:
                service.step()
                time.sleep(0.05)
    assert Outcome.TIMED_OUT in outcomes(place)[place.node.address]
    for audit in place.audits():
        # Where a try was due while the other request waited, the node is given the benefit of it.
        if audit.outcome is not Outcome.TIMED_OUT:
            assert (audit.outcome, audit.reason) == (Outcome.UNKNOWN, WE_WERE_AWAY)


def put_off(service: Service, name: str, wait: int) -> None:
    due = update(holdings).where(holdings.c.name == name).values(due=milliseconds() + wait)
    with transaction(service.schedule.engine) as connection:
        connection.execute(due)


@pytest.mark.slow(seconds=20)
def test_a_hung_node_delays_no_alert_and_no_repair_of_others(place: Site) -> None:
    """Threads that wait for a hung node leave others for the cases of other nodes.

    Before, four threads waited for it, and nobody was alerted of the others' damage meanwhile.
    """
    with more_nodes(place, 2) as (damaged, sound):
        for number in range(5):
            place.holding(f"hung-{number}", CONTENT)
        place.holding("damaged", CONTENT, damaged)
        place.holding("sound", CONTENT, sound)
        (path,) = damaged.folder.glob("*/*/*/data.*")
        over = Event()

        def harm() -> None:
            try:
                with stopped(place.node):
                    wait_for(lambda: Outcome.TIMED_OUT in outcomes(place)[place.node.address])
                    flip(path, *range(0, len(CONTENT), 50))
                    wait_for(lambda: leaf.Step.REPAIRED in steps_of(place))
            finally:
                over.set()

        with place.service(milliseconds) as service:
            harming = Thread(target=harm)
            harming.start()
            service.run(over.is_set)
            harming.join()
    assert leaf.Step.REPAIRED in steps_of(place), "while the node hung"
    assert (Kind.DAMAGED, "damaged") in [(alert.kind, alert.subject) for alert in place.alerts()]


def steps_of(place: Site) -> list[leaf.Step]:
    with place.log() as log, transaction(log._engine) as connection:
        bodies = connection.execute(select(leaves.c.body)).scalars().all()
    decoded = [leaf.decode(bytes(body)) for body in bodies]
    return [response.step for response in decoded if isinstance(response, leaf.Response)]


def wait_for(condition: Callable[[], bool]) -> None:
    over = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < over
        time.sleep(0.2)
