"""A soak: the service over many node processes, while faults from a seed harm everything around it.

With HOLDFAST_LONG set it is 504 holdings on 8 nodes for 30 minutes (`make test-long`), otherwise 12
holdings on 3 nodes for 10 seconds. HOLDFAST_SOAK="5 4 12 7" chooses another one: minutes, nodes,
holdings on each, and the seed.
"""

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from sqlalchemy import select
from tests.support import parts
from tests.support.live_service import Site, site
from tests.support.soaked_fleet import MAX_SHIFT, SoakedFleet, soaked_fleet

from holdfast.control.incidents.alerts import Alert
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.settings.models import ControlSettings, Pace, Timeouts, Upkeep
from holdfast.durations import SECOND
from holdfast.evidence import leaf
from holdfast.evidence.leaf import Outcome
from holdfast.storage.database import connect, transaction
from holdfast.storage.schema import holdings

LONG = bool(os.environ.get("HOLDFAST_LONG"))
CHOSEN = os.environ.get("HOLDFAST_SOAK", "30 8 63 1" if LONG else "0.17 3 4 1426").split()
MINUTES, NODES, PER_NODE, SEED = float(CHOSEN[0]), *map(int, CHOSEN[1:])
CALM_SECONDS = 60  # at most, for everything to be caught up with
UNIT = 5 * SECOND
BLAMING = {Outcome.FAILED, Outcome.TIMED_OUT, Outcome.ADMITTED, Outcome.OFFLINE}


def settings(address: str) -> ControlSettings:
    return ControlSettings(
        database=f"{address}&schema=public",
        policy="heuristic",
        rails=Rails(unit=UNIT, longest=1, jitter=0.1, surprise=0.0, first=1.0),
        patience=Timeouts(deadline=4 * SECOND, first_pause=SECOND // 2, longest_pause=SECOND),
        pace=Pace(lease=10 * SECOND),
        upkeep=Upkeep(enrol=SECOND, anchor=10 * SECOND, idle=SECOND // 5),
    )


@dataclass(frozen=True)
class SoakReport:
    """What a soak came to."""

    fleet: SoakedFleet
    audits: Sequence[tuple[str, leaf.Audit]]  # by holding
    alerts: Sequence[Alert]

    def __str__(self) -> str:
        outcomes = Counter(str(audit.outcome) for _, audit in self.audits)
        kinds = Counter(str(alert.kind) for alert in self.alerts)
        unknown = Counter(a.reason for _, a in self.audits if a.outcome is Outcome.UNKNOWN)
        return "\n".join(
            [
                f"{len(self.fleet.nodes)} nodes, {len(self.fleet.names)} holdings, seed {SEED}",
                f"faults:   {_listing(self.fleet.faults)}",
                f"audits:   {len(self.audits)}: {_listing(outcomes)}",
                f"unknown:  {_listing(unknown)}",
                f"damaged:  {len(self.fleet.damaged)} holdings",
                f"alerts:   {_listing(kinds)}",
            ]
        )


def _listing(counts: Mapping[Any, int]) -> str:
    return (
        ", ".join(
            f"{count} x {name}"
            for name, count in sorted(counts.items(), key=itemgetter(1), reverse=True)
        )
        or "none"
    )


def run_soak(place: Site, fleet: SoakedFleet) -> None:
    """Run the service, harm everything for a while, and let it recover."""
    over, stopped, errors = Event(), Event(), []

    def serve() -> None:
        try:
            with place.service(fleet.clock) as service:
                service.pause = stopped.wait
                service.run(stopped.is_set)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)
            over.set()

    thread = Thread(target=serve)
    thread.start()
    try:
        fleet.harm_until(over, time.monotonic() + 60 * MINUTES)
        calm_down(fleet, over)
    finally:
        stopped.set()
        thread.join()
    if errors:
        raise errors[0]


def calm_down(fleet: SoakedFleet, over: Event) -> None:
    """Wait until every holding was audited twice more, or is quarantined."""
    fleet.clock.shift = MAX_SHIFT  # so that nothing is due later than it was planned
    engine = connect(fleet.place.settings.address(fleet.place.home.folder))
    query = select(holdings.c.name, holdings.c.number).where(~holdings.c.quarantined)
    with transaction(engine) as connection:
        rows = connection.execute(query).all()
    before = {row.name: row.number for row in rows}
    for _ in range(CALM_SECONDS):
        with transaction(engine) as connection:
            rows = connection.execute(query).all()
        left = [name for name, number in rows if number < before[name] + 2]
        if not left or over.wait(1):
            break
    engine.dispose()
    assert not left, f"not audited any more: {left}"


def read_report(place: Site, fleet: SoakedFleet) -> SoakReport:
    names = {}
    for name in fleet.names:
        with place.home.holding(name) as holding:
            names[holding.key_id] = name
    audits = [(names[audit.holding.key], audit) for audit in place.audits()]
    return SoakReport(fleet, audits, place.alerts())


def check_soak(place: Site, report: SoakReport) -> None:
    fleet = report.fleet
    for name in fleet.names:
        own = [audit for holding, audit in report.audits if holding == name]
        assert [audit.number for audit in own] == list(range(1, len(own) + 1))
    for name, audit in report.audits:
        assert audit.reason or audit.outcome in {Outcome.PASSED, Outcome.FAILED}
        if audit.outcome in BLAMING:
            assert audit.holding.node in fleet.harmed, f"{name}: {audit.outcome} {audit.reason}"
    alerted = {alert.subject for alert in report.alerts}
    for name in fleet.damaged:
        assert name in alerted, f"nothing was said of the damage to {name}"
    verified = place.verified()
    assert verified.findings == ()
    assert verified.audits == len(report.audits)


@pytest.mark.slow(seconds=30)
@pytest.mark.timeout(60 * MINUTES + 900)
def test_a_soak_blames_nobody_and_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        parts.postgres() as server,
        parts.database(server, "soak") as address,
        site(tmp_path, settings(address)) as place,
        soaked_fleet(place, server, (NODES, PER_NODE), SEED) as fleet,
    ):
        run_soak(place, fleet)
        report = read_report(place, fleet)
        with capsys.disabled():
            print(f"\n{report}")  # noqa: T201
        check_soak(place, report)
