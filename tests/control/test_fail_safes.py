"""The three fail-safe cases of the rails, each met by the real service on a real node.

The evidence of the audit that was decided so shows the fail-safe and its reason.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from tests.support.live_service import Site, site

from holdfast.control.audits import lanes
from holdfast.control.scheduling.guardrails import REASONS, Override, Rails
from holdfast.control.settings.models import ControlSettings, Timeouts, Upkeep
from holdfast.durations import DAY, HOUR
from holdfast.evidence import leaf
from holdfast.evidence.leaf import Freshness, Outcome
from holdfast.model.action import Action
from holdfast.storage.database import transaction
from holdfast.storage.schema import holdings

pytestmark = pytest.mark.slow

FAIL_SAFE = Action(1, 0.10)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Site]:
    settings = ControlSettings(
        rails=Rails(jitter=0.0, surprise=0.0, first=0.0, recovery=14),
        # It asks as often as it looks.
        patience=Timeouts(deadline=6 * HOUR, first_pause=HOUR, longest_pause=HOUR),
        upkeep=Upkeep(enrol=DAY, idle=HOUR),
    )
    with site(tmp_path, settings) as place:
        place.holding("one", random.Random(3).randbytes(3000))
        yield place


def reasons(told: leaf.Audit) -> list[tuple[str, str, Action]]:
    return [(each.rail, each.reason, each.action) for each in told.decision.overrides]


def check_fail_safe(told: leaf.Audit, override: Override) -> None:
    assert reasons(told) == [(str(override.name).lower(), REASONS[override], FAIL_SAFE)]
    assert told.decision.action == FAIL_SAFE
    assert told.challenge.samples == -(-told.challenge.blocks // 10)


@pytest.mark.slow
def test_an_audit_after_no_news_is_the_fail_safe(place: Site) -> None:
    with place.service() as service:
        port = place.stop_node()
        while not place.audits():
            place.run(service, DAY)
        place.start_node(port)
        place.run(service, 2 * DAY)
    first, *_, back = place.audits()
    assert (first.outcome, back.outcome) == (Outcome.OFFLINE, Outcome.PASSED)
    assert back.decision.telemetry.freshness is Freshness.MISSING
    check_fail_safe(back, Override.TELEMETRY)
    assert place.verified().findings == ()


@pytest.mark.slow
def test_an_audit_decided_on_stale_telemetry_is_the_fail_safe(place: Site) -> None:
    with place.service() as service:
        service.enrol(place.times.wall())
    place.times.now += 29 * DAY
    with place.service() as service:
        place.run(service, 2 * DAY)
    first = place.audits()[0]
    assert first.decision.telemetry.freshness is Freshness.STALE
    check_fail_safe(first, Override.TELEMETRY)
    assert place.verified().findings == ()


@pytest.mark.slow(seconds=20)
def test_an_audit_decided_without_the_policys_state_is_the_fail_safe(place: Site) -> None:
    with place.service() as service:
        while not place.audits():
            place.run(service, DAY)
        with transaction(service.schedule.engine) as connection:
            connection.execute(update(holdings).values(memory=b""))
        while len(place.audits()) < 4:
            place.run(service, DAY)
    first, second, third, fourth = place.audits()[:4]
    assert not reasons(first)
    assert not reasons(second), "it was decided before the state was lost"
    check_fail_safe(third, Override.STATE)
    assert not reasons(fourth), "a new state has begun"
    assert place.verified().findings == ()


@pytest.mark.slow(seconds=10)
def test_an_audit_decided_outside_the_envelope_is_the_fail_safe(
    place: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = lanes.ask_node

    def slowly(*arguments: Any) -> Any:
        """Answer after two minutes, and training met 50 seconds at most."""
        answer = asked(*arguments)
        place.times.pause(120)
        return answer

    with place.service() as service:
        with monkeypatch.context() as patch:
            patch.setattr(lanes, "ask_node", slowly)
            while not place.audits():
                place.run(service, DAY)
        while len(place.audits()) < 3:
            place.run(service, DAY)
    first, second, third = place.audits()[:3]
    assert not reasons(first)
    check_fail_safe(second, Override.ENVELOPE)
    assert not reasons(third)
    seen = second.decision.telemetry.observation
    assert seen is not None
    assert seen.latency > 0.99
    assert place.verified().findings == ()
