"""The service audits a direct holding, raises an alert that names the object, and leaves repair."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.direct_env import NAME, DirectSite, FolderStorage
from tests.support.live_service import Site, site

from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.settings.models import ControlSettings, Responses
from holdfast.durations import DAY, MINUTE
from holdfast.evidence.leaf import Outcome
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct_operations import add_direct_holding

pytestmark = pytest.mark.slow

RAILS = Rails(jitter=0.0, surprise=0.0, first=0.0, recovery=14)
VICTIM = "album/002.jpg"


def settings(*, repair: bool) -> ControlSettings:
    return ControlSettings(rails=RAILS, responses=Responses(repair_direct=repair))


@pytest.fixture(params=[False, True])
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Site, DirectSite, bool]]:
    """Return a site with a direct holding and a copy, and whether it may be repaired unasked."""
    with site(tmp_path, settings(repair=request.param)) as place:
        data = DirectSite(place.home, FolderStorage(tmp_path / "data"))
        data.fill()
        data.add()
        copy = FolderStorage(tmp_path / "copy")
        for name, content in data.contents.items():
            copy.write(name, content)
        address = DirectAddress.of(copy.address)
        add_direct_holding(place.home, "copy", address, sectors=2)
        yield place, data, request.param


def test_damage_is_found_named_and_repaired_only_where_that_is_allowed(
    live: tuple[Site, DirectSite, bool],
) -> None:
    place, data, repairs = live
    victim = Path(data.storage.address, VICTIM)
    victim.unlink()

    def settled() -> bool:
        named = any(VICTIM in alert.detail for alert in place.alerts())
        return named and victim.exists() is repairs

    with place.service() as service:
        place.run(service, MINUTE)
        place.times.now += 15 * DAY
        end = time.monotonic() + 120
        while not settled():
            assert time.monotonic() < end, place.alerts()
            place.run(service, MINUTE)
    outcomes = [audit.outcome for audit in place.audits()]
    assert Outcome.FAILED in outcomes
    assert Outcome.TIMED_OUT not in outcomes
    alerts = [alert for alert in place.alerts() if alert.subject == NAME]
    assert any(VICTIM in alert.detail for alert in alerts), alerts
    report = place.verified()
    assert report.fine, report.findings
