"""Workers are killed at any moment, again and again: no evidence is lost, doubled or wrong.

The service, its database, the local ledger and the node are real, and so are the processes. With
HOLDFAST_LONG set it is 200 kills on each database (`make test-long`).
"""

import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import select
from tests.support.live_service import SECTORS, Site, site

from holdfast.control.audits.settlement import Timeouts
from holdfast.control.scheduling.guardrails import MINUTE, SECOND, Rails
from holdfast.control.scheduling.schedule import Schedule
from holdfast.control.scheduling.worker import Pace
from holdfast.control.service import milliseconds, opened_service
from holdfast.control.settings.models import ControlSettings, Upkeep
from holdfast.evidence import leaf
from holdfast.ledger.interface import Anchored, Batch, Event, Opened, OpenedMany, Passed
from holdfast.storage.database import connect, transaction
from holdfast.storage.schema import audits, holdings, leaves

LONG = bool(os.environ.get("HOLDFAST_LONG"))
KILLS = 200 if LONG else 10
WORKERS, HOLDINGS = 3, 9
LEASE = 2 * SECOND


def settings(address: str) -> ControlSettings:
    """Return settings under which every holding is due several times a second."""
    return ControlSettings(
        database=address,
        policy="heuristic",
        rails=Rails(unit=150, longest=1),
        patience=Timeouts(deadline=10 * MINUTE, at_once=2),
        pace=Pace(batch=4, lease=LEASE),
        upkeep=Upkeep(enrol=SECOND, anchor=SECOND // 2, idle=20),
    )


@dataclass
class Crew:
    """Workers as processes of their own."""

    place: Site
    schedule: Schedule
    alive: list[int] = field(default_factory=list)

    def start(self) -> None:
        self.schedule.engine.dispose()  # a file of SQLite that is open must not be forked
        tests = os.getpid()
        child = os.fork()
        if child:
            self.alive.append(child)
            return
        code = 1
        try:
            with opened_service(self.place.home, self.place.settings) as service:
                service.run(lambda: os.getppid() != tests)
            code = 0
        except BaseException:  # noqa: BLE001 - else nobody would hear why it ended
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)

    def kill(self, child: int) -> None:
        self.alive.remove(child)
        os.kill(child, signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, "it had ended by itself"

    def kill_all(self) -> None:
        """Kill all of them, also those after one that had ended by itself."""
        with ExitStack() as stack:
            for child in list(self.alive):
                stack.callback(self.kill, child)


def numbers(schedule: Schedule) -> dict[int, int]:
    with transaction(schedule.engine) as connection:
        rows = connection.execute(select(holdings.c.id, holdings.c.number)).all()
    return {row.id: row.number for row in rows}


def wait_for_audits(schedule: Schedule, more: int) -> None:
    """Wait until every holding was audited so many times more."""
    before = numbers(schedule)
    while any(numbers(schedule)[id_] < number + more for id_, number in before.items()):
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_kills_at_any_moment_lose_double_and_forge_nothing(address: str, tmp_path: Path) -> None:
    luck = random.Random(7)
    with site(tmp_path, settings(address)) as place:
        for number in range(HOLDINGS):
            place.holding(f"holding-{number}", luck.randbytes(3000 + number))
        schedule = Schedule(connect(place.settings.address(place.home.folder)))
        crew = Crew(place, schedule)
        try:
            for _ in range(WORKERS):
                crew.start()
            while len(_enrolled(schedule)) < HOLDINGS:
                time.sleep(0.02)
            wait_for_audits(schedule, 1)
            for _ in range(KILLS):
                time.sleep(luck.expovariate(8))
                crew.kill(luck.choice(crew.alive))
                crew.start()
            crew.kill_all()
            check_leases(schedule)
            crew.start()
            wait_for_audits(schedule, 1)
        finally:
            crew.kill_all()
        with place.service() as service:
            while service.sequencer.sequence():
                pass
        check_everything(place, schedule)
        schedule.engine.dispose()


def _enrolled(schedule: Schedule) -> set[str]:
    with suppress(Exception):  # there may be no tables yet
        return schedule.names()
    return set()


def check_leases(schedule: Schedule) -> None:
    """Every holding comes back with the end of its lease, at the latest."""
    now = milliseconds()
    with transaction(schedule.engine) as connection:
        rows = connection.execute(select(holdings.c.due, holdings.c.lease)).all()
    unit = settings("").rails.unit
    assert all(row.lease <= now + LEASE for row in rows)
    assert all(row.due <= now + max(unit, settings("").patience.first_pause) for row in rows)


def names_opened(event: Event) -> list[bytes]:
    if isinstance(event, Opened):
        return [event.challenge]
    if isinstance(event, OpenedMany):
        batch = Batch(event.owner, event.seed, event.deadline, event.words)
        return [batch.challenge_id(index) for index in range(len(batch.words))]
    return []


def check_everything(place: Site, schedule: Schedule) -> None:
    with transaction(schedule.engine) as connection:
        rows = connection.execute(select(audits.c.holding, audits.c.number)).all()
        bodies = connection.execute(select(leaves.c.body)).scalars().all()
    made = [(row.holding, row.number) for row in rows]
    counts = Counter(holding for holding, _ in made)
    assert counts == numbers(schedule)
    assert set(made) == {(id_, k + 1) for id_, count in counts.items() for k in range(count)}

    told = [each for each in map(leaf.decode, bodies) if isinstance(each, leaf.Audit)]
    assert {each.outcome for each in told} == {leaf.Outcome.PASSED}
    with place.home.ledger(SECTORS) as ledger:
        events = [event for receipt in ledger.receipts() for event in receipt.events]
    opened = Counter(name for event in events for name in names_opened(event))
    passed = Counter(event.challenge for event in events if isinstance(event, Passed))
    assert set(opened.values()) == set(passed.values()) == {1}
    assert set(passed) >= {each.opening.name for each in told}
    assert len(told) == len(made)
    anchors = Counter(event.size for event in events if isinstance(event, Anchored))
    assert set(anchors.values()) == {1}

    under_way = set(opened) - {each.opening.name for each in told}
    assert len(under_way) <= HOLDINGS
    report = place.verified()
    assert report.findings == ()
    assert report.audits == report.proofs == len(made)
    assert report.anchors > 0
