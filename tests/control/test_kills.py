"""Workers are killed at any moment, again and again: no evidence is lost, doubled or wrong.

The service, its database, the local ledger and the node are real, and so are the processes. With
HOLDFAST_LONG set it is 200 kills on each database (`make test-long`).
"""

import os
import random
import time
from pathlib import Path

import pytest
from sqlalchemy import select
from tests.support.killed_workers import (
    HOLDINGS,
    LEASE,
    WORKERS,
    Crew,
    _enrolled,
    check_everything,
    settings,
    wait_for_audits,
)
from tests.support.live_service import site

from holdfast.control.scheduling.schedule import Schedule
from holdfast.control.service import milliseconds
from holdfast.storage.database import connect, transaction
from holdfast.storage.schema import holdings

LONG = bool(os.environ.get("HOLDFAST_LONG"))
KILLS = 200 if LONG else 10


@pytest.mark.slow(seconds=10)
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


def check_leases(schedule: Schedule) -> None:
    """Every holding comes back with the end of its lease, at the latest."""
    now = milliseconds()
    with transaction(schedule.engine) as connection:
        rows = connection.execute(select(holdings.c.due, holdings.c.lease)).all()
    unit = settings("").rails.unit
    assert all(row.lease <= now + LEASE for row in rows)
    assert all(row.due <= now + max(unit, settings("").patience.first_pause) for row in rows)
