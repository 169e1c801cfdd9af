"""Workers as processes that are killed, and what must hold afterwards."""

import os
import signal
import sys
import time
import traceback
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from sqlalchemy import select
from tests.support.live_service import SECTORS, Site

from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.scheduling.schedule import Schedule
from holdfast.control.service import open_service
from holdfast.control.settings.models import ControlSettings, Pace, Timeouts, Upkeep
from holdfast.durations import MINUTE, SECOND
from holdfast.evidence import leaf
from holdfast.ledger.interface import Anchored, Batch, Event, Opened, OpenedMany, Passed
from holdfast.storage.database import transaction
from holdfast.storage.schema import audits, holdings, leaves

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
            with open_service(self.place.home, self.place.settings) as service:
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


def _enrolled(schedule: Schedule) -> set[str]:
    with suppress(Exception):  # there may be no tables yet
        return schedule.names()
    return set()


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
