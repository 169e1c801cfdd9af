"""`holdfast status` says how far a repair is, and which bytes of which file are lost."""

import random
from pathlib import Path

import pytest
from sqlalchemy import insert
from tests.support.command_line import Workplace
from tests.support.live_service import SECTORS, Site, site
from tests.support.owner_env import flip
from tests.support.simulated_fleet import Clock

from holdfast.control.incidents.types import Step
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.service import Service
from holdfast.control.settings.models import ControlSettings, Responses
from holdfast.durations import DAY
from holdfast.storage.database import transaction
from holdfast.storage.schema import responses

BLOCK_BYTES = 31 * SECTORS
CONTENT = random.Random(1).randbytes(20_000)


def settle(service: Service) -> None:
    while service.step() or service.responder.tick():
        pass


def damage(place: Site, name: str) -> None:
    """Change a byte of every block."""
    with place.home.holding(name) as holding:
        for path in place.node.stored(holding, "data"):
            flip(path, *range(0, path.stat().st_size, BLOCK_BYTES))


@pytest.mark.slow
def test_status_names_the_bytes_that_are_lost_and_shows_how_far_a_repair_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("holdfast.cli.control.milliseconds", lambda: clock.now)
    settings = ControlSettings(
        policy="fixed-high",
        rails=Rails(jitter=0.0, surprise=0.0, sample_cap=100),
        responses=Responses(failed=(Step.LOCALISE, Step.REPAIR, Step.ALERT)),
    )
    with site(tmp_path, settings) as place, place.service(clock, clock) as service:
        place.holding("attic", CONTENT)
        monkeypatch.setenv("HOLDFAST_HOME", str(place.home.folder))
        desk = Workplace(place.folder, capsys)
        settle(service)
        damage(place, "attic")
        clock.now += DAY
        settle(service)
        shown = desk.run("status")
        assert shown.code == 1
        assert f"attic, bytes 0 to {len(CONTENT) - 1:,}" in shown.stdout
        assert sum("bytes 0 to" in line for line in shown.stdout.splitlines()) == 1
        (step,) = desk.run("status", "--json").data["repairs"]
        assert step["losses"][0]["ranges"] == [[0, len(CONTENT)]]

        row = {"holding": 1, "audit": 9, "step": "repair", "state": "ready", "detail": ""}
        moments = {"began": clock.now - 10_000, "progressed": clock.now}
        with transaction(service.responder._cases._engine) as connection:
            connection.execute(insert(responses), [row | moments | {"done": 500, "total": 2000}])
        text = "repair attic: 500 of 2,000 blocks, 50 a second, about 30 s left\n"
        assert text in desk.run("status").stdout
