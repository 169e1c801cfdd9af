"""Who was there at challenges and at probes: an evader is blamed, an honest node is not."""

import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, product
from math import exp
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine, select
from tests.support.simulated_fleet import START
from tests.support.simulated_operation import operation

from holdfast.control.audits.contacts import (
    MAX_CHALLENGES,
    MAX_PROBES,
    TOTAL_LEVEL,
    Contacts,
    Record,
)
from holdfast.durations import DAY, HOUR
from holdfast.model.scenario import PAPER
from holdfast.storage.database import transaction
from holdfast.storage.schema import audits, nodes

ONE, TWO = b"1" * 20, b"2" * 20
OPENED, ASKED = 1000, 5000


def test_the_figures_are_those_of_fishers_test() -> None:
    """Compared with figures that were worked out by hand from the formula."""
    assert Record(True, "xxx.", "." * 100).chance == pytest.approx(4 / 182104)
    assert Record(True, "x.", "x.").chance == pytest.approx(5 / 6)
    assert Record(True, "..", "..").chance == 1
    assert Record(True, "", "").chance == 1
    blamed = Record(True, "xxxxxxxxx...", "xx" + "." * 238)
    assert blamed.blamed
    assert str(blamed) == "away at 9 of 12 challenges but at 2 of 240 probes"


def test_little_is_no_reason_for_blame() -> None:
    assert not Record(True, "xx", "." * 1000).blamed
    assert not Record(True, "x" * 64, "." * 19).blamed
    assert not Record(True, "x" * 12, "x" * 240).blamed
    assert Record(True, "x" * 12, "." * 240).blamed


def test_one_pass_does_not_end_the_blame() -> None:
    close = Record(True, "xxxx.", "." * 100)
    assert close.blamed
    after = close.with_challenge(present=True).with_challenge(present=True)
    after = after.with_challenge(present=True).with_challenge(present=True)
    assert not after.blamed
    assert not after.cleared
    assert Record(True, "xxx" + "." * 30, "." * 100).cleared
    assert Record().cleared


class Outages:
    """When a node is away, drawn from spells whose lengths have no memory; times in hours."""

    def __init__(self, rng: random.Random, present: float, away: float) -> None:
        self._rng, self._means, self._ends = rng, (present, away), [0.0]

    def away(self, at: float) -> bool:
        return self._spell(at) % 2 == 1

    def away_throughout(self, start: float, stop: float) -> bool:
        return self.away(start) and self._spell(start) == self._spell(stop)

    def _spell(self, at: float) -> int:
        while self._ends[-1] <= at:
            mean = self._means[(len(self._ends) - 1) % 2]
            self._ends.append(self._ends[-1] + self._rng.expovariate(1 / mean))
        return bisect_right(self._ends, at) - 1


def life(
    rng: random.Random, outages: Outages, hours: float, evades: float = 0.0
) -> Iterator[Record]:
    """Yield the record after every challenge that met nobody.

    Audits come four days apart, but a day after one that met nobody, as they do in operation.
    """
    record, probe, audit = Record(), rng.expovariate(1), 24.0
    while min(probe, audit) < hours:
        if probe < audit:
            record = record.with_probe(present=not outages.away(probe))
            probe += rng.expovariate(1)
            continue
        away = outages.away_throughout(audit, audit + 1) or rng.random() < evades
        if record.present:
            record = record.with_challenge(present=not away)
        record = replace(record, present=not away)
        if away:
            yield record
        audit += 24 if away else 24 * 4


# Mean hours for which a node is there, and away: 2 %, 20 % and two thirds of the time.
FATES = [(49, 1), (240, 5), (2400, 48), (4, 1), (96, 24), (1, 2), (24, 48)]


@pytest.mark.slow
def test_an_honest_node_is_blamed_no_more_often_than_it_says() -> None:
    """Outages are what they are for probes and challenges alike: none is held against it."""
    blamed = []
    for seed, (present, away) in product(range(60), FATES):
        rng = random.Random(seed)
        records = life(rng, Outages(rng, present, away), 24 * 180)
        blamed += [(seed, present, away) for record in records if record.blamed][:1]
    assert TOTAL_LEVEL == 1e-3
    assert len(blamed) <= 3, blamed  # of 420 lives at 1e-3: more has a chance of 0.1 %


def test_a_long_outage_would_be_blamed_if_all_of_it_counted() -> None:
    """So only contacts count before which the node was there: the audits come thicker in it."""
    rng = random.Random(1)
    outages = Outages(rng, 2400, 240)
    challenges, probes = "", "".join("x" if outages.away(t) else "." for t in range(1000, 2000))
    for record in life(random.Random(2), Outages(random.Random(1), 2400, 240), 24 * 365 * 3):
        challenges += "x"
        assert not record.blamed
    assert Record(True, challenges[:64], probes).challenges.count("x") > 20


def test_an_evader_is_blamed_after_a_few_challenges() -> None:
    needed = []
    for seed in range(100):
        rng = random.Random(seed)
        records = life(rng, Outages(rng, 240, 5), 24 * 365, evades=2 / 3)
        needed.append(next(number for number, record in zip(count(1), records) if record.blamed))
    assert max(needed) <= 12
    assert np.median(needed) <= 5


def test_the_record_of_a_node_is_bounded() -> None:
    record = Record()
    for _ in range(2 * MAX_PROBES):
        record = record.with_probe(present=True).with_challenge(present=False)
    assert len(record.probes) == MAX_PROBES
    assert len(record.challenges) == MAX_CHALLENGES


def probed(contacts: Contacts, address: bytes, times: int, *, present: bool = True) -> None:
    for _ in range(times):
        contacts.record_probe(address, 100, present=present)


def evade(contacts: Contacts, address: bytes) -> str:
    """Be away at a challenge, and there for the probe after it."""
    assert contacts.present_nodes([address]) == {address}
    contacts.record_challenges({address: False}, [], OPENED)
    reason = contacts.judge_absence(address, OPENED, ASKED, counted=True)
    probed(contacts, address, 1)
    return reason


@pytest.mark.slow
def test_absence_is_judged_by_what_was_recorded(engine: Engine) -> None:
    contacts = Contacts(engine)
    probed(contacts, ONE, 101)
    contacts.record_challenges({ONE: True}, [ONE], 200)
    reasons = [evade(contacts, ONE) for _ in range(5)]
    assert reasons[:3] == [""] * 3
    assert reasons[4] == "away at 5 of 6 challenges but at 0 of 100 probes"
    assert contacts.records_away()[ONE].blamed


@pytest.mark.slow
def test_an_absence_counts_only_if_another_node_was_there(engine: Engine) -> None:
    """Else we may have been offline ourselves."""
    contacts = Contacts(engine)
    probed(contacts, ONE, 101)
    probed(contacts, TWO, 1)
    assert [evade(contacts, ONE) for _ in range(9)] == [""] * 9
    assert contacts.records_away() == {}
    contacts.record_reached(TWO, OPENED + 1)
    assert [evade(contacts, ONE) for _ in range(9)][-1].startswith("away at 9 of 9 challenges")


def test_a_node_that_took_any_request_in_the_window_was_there(engine: Engine) -> None:
    contacts = Contacts(engine)
    contacts.record_probe(ONE, OPENED + 1, present=True)
    reason = contacts.judge_absence(ONE, OPENED, ASKED, counted=False)
    assert reason == "the node took another request after the challenge was opened"
    contacts.record_probe(ONE, ASKED + 1, present=True)  # it came back after our last try
    assert contacts.judge_absence(ONE, OPENED, ASKED, counted=False) == ""


@pytest.mark.slow
def test_no_two_workers_make_the_same_probe(engine: Engine) -> None:
    here, there = Contacts(engine), Contacts(engine)
    due = {bytes([k]) * 20: 100 + k for k in range(10)}
    here.enrol(due)
    there.enrol(dict.fromkeys(due, 1))  # which are planned already
    assert here.claim_probes(99, 16, lambda: HOUR) == []
    first = here.claim_probes(104, 3, lambda: HOUR)
    second = there.claim_probes(104, 16, lambda: HOUR)
    assert len(first) == 3
    assert set(first) | set(second) == {bytes([k]) * 20 for k in range(5)}
    assert not set(first) & set(second)
    assert here.claim_probes(104, 16, lambda: HOUR) == []
    here.enrol({ONE: 7})
    assert here.claim_probes(HOUR * 9, 16, lambda: HOUR) == [ONE]


def test_half_of_all_pauses_are_shorter_than_they_would_be_at_fixed_times() -> None:
    """A memoryless pause has its mean, but nobody who waits learns from that."""
    rng = random.Random(3)
    pauses = [rng.expovariate(1 / HOUR) for _ in range(20000)]
    for waited in (0, HOUR, 2 * HOUR):
        rest = [pause - waited for pause in pauses if pause > waited]
        assert np.mean([pause > HOUR for pause in rest]) == pytest.approx(exp(-1), abs=0.03)


@pytest.mark.slow
def test_an_outage_of_days_counts_as_one_challenge(tmp_path: Path) -> None:
    running = operation(tmp_path, PAPER, 2, policy="constant:1,0.01")
    running.world.audited = lambda *_drawn: False  # type: ignore[method-assign]
    running.until(START + 2 * DAY + 2 * HOUR)
    gone, there = running.world.subjects
    gone.unreachable = 1.0
    running.until(START + 6 * DAY + 2 * HOUR)
    with transaction(running.engine) as connection:
        rows = connection.execute(select(nodes.c.address, nodes.c.challenges)).all()
        outcomes = connection.execute(select(audits.c.outcome)).scalars().all()
    assert outcomes.count("offline") >= 3
    # The first contact of all tells nothing: nobody knows whether the node was there before.
    assert {bytes(row.address): row.challenges for row in rows} == {
        gone.address: ".x",
        there.address: "." * 5,
    }
