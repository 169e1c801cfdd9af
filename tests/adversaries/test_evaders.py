"""Nodes that have lost blocks and are not there for challenges that they can't pass.

The service, its local ledger and the nodes are real, on real ports; days pass on its clock alone.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.adversaries.front import Front, standing_before
from tests.support.live_service import SECTORS, Site, site

from holdfast.control.incidents.alerts import Kind
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.scheduling.telemetry import FAILURES
from holdfast.control.service import Service
from holdfast.control.settings.models import ControlSettings, Timeouts, Upkeep
from holdfast.durations import HOUR, MINUTE
from holdfast.evidence.leaf import Outcome
from holdfast.model.action import Action
from holdfast.model.detection import samples
from holdfast.pdp import Challenge
from holdfast.storage.database import transaction
from holdfast.storage.schema import audits

BLOCKS, LOST = 400, 40
RATIO = 0.03  # 12 blocks of 400
SPAN = 6 * HOUR  # between two audits
SETTINGS = ControlSettings(
    policy=f"constant:1,{RATIO}",
    rails=Rails(
        unit=SPAN,
        longest=1,
        jitter=0.0,
        surprise=0.0,
        first=0.0,
        recovery=14,
        fail_safe=Action(1, RATIO),
    ),
    patience=Timeouts(deadline=HOUR, first_pause=20 * MINUTE, longest_pause=20 * MINUTE),
    upkeep=Upkeep(enrol=30 * MINUTE, anchor=1000 * HOUR),
)
CONTENT = random.Random(3).randbytes(31 * SECTORS * BLOCKS - 1)


def meets(lost: set[int]) -> Callable[[Challenge], bool]:
    """Return the test whether a challenge asks for a lost block."""
    return lambda challenge: not lost.isdisjoint(challenge.sample.indices.tolist())


def passes() -> float:
    """Return how likely a sample meets no lost block, by the formula."""
    sampled = int(samples(RATIO, BLOCKS, BLOCKS))
    chance = 1.0
    for k in range(sampled):
        chance *= (BLOCKS - LOST - k) / (BLOCKS - k)
    return chance


@pytest.fixture
def lost() -> set[int]:
    return set(random.Random(4).sample(range(BLOCKS), LOST))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path, SETTINGS) as place:
        yield place


def stored_behind(place: Site, front: Front) -> None:
    """Put the holding on the node by way of what stands before it."""
    place.holding("kept", CONTENT, replace(place.node, url=front.url))


def count_audits(service: Service) -> int:
    with transaction(service.schedule.engine) as connection:
        return connection.execute(select(func.count()).select_from(audits)).scalar_one()


def let_audits_pass(place: Site, service: Service, count: int) -> None:
    """Let time pass until so many audits have ended."""
    service.step()
    while count_audits(service) < count:
        due = service.schedule.next_due()
        assert due is not None
        place.times.now = max(due, place.times.now + 1)
        service.step()


def let_pass(place: Site, service: Service, count: int, before: Callable[[], None]) -> None:
    """Let time pass in steps, with probes and audits, until so many audits have ended."""
    while count_audits(service) < count:
        before()
        for probe in service.prober.tick():
            probe.result(timeout=30)
        place.times.now += 10 * MINUTE
        before()
        service.step()
        place.times.now += 10 * MINUTE


@pytest.mark.slow
def test_who_hangs_up_on_challenges_is_found_as_often_as_its_sample_says(
    place: Site, lost: set[int]
) -> None:
    """The node takes the connection, reads the challenge and closes if it can't pass.

    Before a delivered challenge counted, 60 audits gave 13 passed, 47 offline, 0 failed.
    """
    with standing_before(place.node.url, meets(lost)) as front:
        stored_behind(place, front)
        with place.service() as service:
            let_audits_pass(place, service, 60)
    came = Counter(str(audit.outcome) for audit in place.audits())
    assert set(came) == {Outcome.PASSED, Outcome.TIMED_OUT}, came
    expected, deviation = 60 * passes(), (60 * passes() * (1 - passes())) ** 0.5
    assert abs(came["passed"] - expected) < 4 * deviation
    reasons = {audit.reason for audit in place.audits() if audit.outcome == Outcome.TIMED_OUT}
    assert all("took the request and gave no answer" in reason for reason in reasons)
    assert place.verified().findings == ()


class Watcher:
    """A node that sees on the ledger which challenges are opened, and is away for some."""

    def __init__(self, place: Site, front: Front, evades: Callable[[Challenge], bool]) -> None:
        self._place, self._front, self._evades = place, front, evades
        self._until = 0  # seconds, as the ledger counts

    def watch(self, service: Service) -> None:
        ledger = service.fleet.ledger(SECTORS)
        opened = ledger.open

        def seen(number: int, challenge: Challenge, target: bytes, deadline: int) -> Any:
            receipt = opened(number, challenge, target, deadline)
            if self._evades(challenge):
                self._until = deadline
                self._front.go()
            return receipt

        ledger.open = seen  # type: ignore[method-assign]

    def look(self) -> None:
        if self._place.times.wall() // 1000 > self._until:
            self._front.come()


@pytest.mark.slow(seconds=10)
def test_who_is_away_only_when_challenged_is_blamed(place: Site, lost: set[int]) -> None:
    """Nothing is ever delivered to it, but probes that it can't foresee are.

    Before probes, it could go on for ever: all audits that it could not pass were offline.
    """
    with standing_before(place.node.url) as front:
        stored_behind(place, front)
        with place.service() as service:
            watcher = Watcher(place, front, meets(lost))
            watcher.watch(service)
            let_pass(place, service, 24, watcher.look)
            service.check_health(place.times.wall())
            service.monitor.on_success()
            (record,) = service.contacts.records_away().values()
    story = [audit.outcome for audit in place.audits()]
    assert Outcome.OFFLINE in story, "the first ones may be an outage"
    first = next(number for number, step in enumerate(story) if str(step) in FAILURES)
    assert first < 20
    missed = story[first:].count(Outcome.OFFLINE)  # by passes that came just after the blame
    assert missed <= 2 < story[first:].count(Outcome.TIMED_OUT)
    reason = place.audits()[first].reason
    assert reason.startswith("away at ")
    assert "challenges but at 0 of " in reason
    assert record.blamed
    (alert,) = (alert for alert in place.alerts() if alert.kind == Kind.EVASION)
    assert alert.detail.startswith("away at ")
    assert alert.ended is None
    assert place.verified().findings == ()


@pytest.mark.slow(seconds=10)
def test_an_outage_that_has_nothing_to_do_with_challenges_is_not_blamed(place: Site) -> None:
    """The node is away as often as the evader, at times of its own."""
    with standing_before(place.node.url) as front:
        stored_behind(place, front)

        def by_spells() -> None:
            spell = place.times.now // (2 * HOUR)
            (front.go if random.Random(spell).random() < 0.6 else front.come)()

        with place.service() as service:
            let_pass(place, service, 24, by_spells)
            assert not any(record.blamed for record in service.contacts.records_away().values())
    story = [audit.outcome for audit in place.audits()]
    assert story.count(Outcome.OFFLINE) >= 2
    assert not FAILURES & {*map(str, story)}
