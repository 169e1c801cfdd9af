"""Damage of the owner's own: audits find it, nobody is alarmed, and it tells how well they look."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.support.command_line import Workplace
from tests.support.live_operation import Guarded, alerts, guarded, steps
from tests.support.live_service import site
from tests.support.owner_env import PASSPHRASE, World
from tests.support.simulated_fleet import START, Clock
from tests.support.small_node import SEGMENT_BYTES

from holdfast.cli.terminal import PASSPHRASE_VARIABLE
from holdfast.control.inference.audit_log import read_log
from holdfast.control.inference.canaries import lift, listing, plant, read_trials
from holdfast.control.scheduling.guardrails import Rails
from holdfast.control.settings.models import ControlSettings
from holdfast.durations import DAY, MINUTE
from holdfast.errors import InputError
from holdfast.node.canary import flip_blocks
from holdfast.node.objects import Folder

CONTENT = random.Random(1).randbytes(3 * SEGMENT_BYTES + 77)


def flip(running: Guarded, world: World, blocks: Sequence[int]) -> None:
    with running.home.holding("plain") as place:
        flip_blocks(Folder(world.one.folder), place.owner, place.key_id, blocks)


@pytest.mark.slow
def test_a_canary_is_found_without_alarm_and_lifted_without_trace(
    engine: Engine, world: World, tmp_path: Path
) -> None:
    world.put("plain", world.file(CONTENT))
    with guarded(engine, world) as running:
        running.until(START + DAY + MINUTE)
        with running.home.holding("plain") as place:
            kept = [path.read_bytes() for path in world.one.stored(place, "data")]
            everything = range(place.inventory.blocks)
        plant(engine, "plain", everything, lambda b: flip(running, world, b), running.clock.now)
        with pytest.raises(InputError, match="has a canary already"):
            plant(engine, "plain", [0], lambda b: flip(running, world, b), running.clock.now)
        running.until(START + 3 * DAY + MINUTE)
        assert running.story("plain") == ["passed", "planted", "failed", "failed"]
        assert not steps(running)
        assert not alerts(running)
        lift(engine, "plain", lambda b: flip(running, world, b), running.clock.now)
        with running.home.holding("plain") as place:
            assert [path.read_bytes() for path in world.one.stored(place, "data")] == kept
        running.until(START + 4 * DAY + MINUTE)
        assert running.story("plain")[-2:] == ["lifted", "passed"]
        assert running.verified(tmp_path).findings == ()
        trials = read_trials(engine)
        assert trials.detected.tolist() == [True], "later audits met what was found already"
        assert trials.expected.tolist() == [1.0]
        log = read_log(engine, DAY, running.clock.now)
        plain = log.node == 0
        assert log.interval[plain].tolist() == [1, 3]
        assert not log.failed.any()
        (canary,) = listing(engine)
        assert canary.planted < (canary.found or 0) < (canary.lifted or 0)


@pytest.mark.slow
def test_what_can_t_be_damaged_is_not_planted(engine: Engine, world: World) -> None:
    world.put("plain", world.file(CONTENT))
    with guarded(engine, world) as running:
        with pytest.raises(InputError, match="never audited"):
            plant(engine, "plain", [0], lambda b: flip(running, world, b), START)
        running.until(START + DAY + MINUTE)

        def elsewhere(blocks: Sequence[int]) -> None:
            flip_blocks(Folder(world.folder), bytes(20), bytes(32), blocks)

        with pytest.raises(InputError, match="no store of the node"):
            plant(engine, "plain", [0], elsewhere, START)
        with pytest.raises(InputError, match="has no canary"):
            lift(engine, "plain", elsewhere, START)
        assert listing(engine) == []
        assert running.story("plain") == ["passed"]


@pytest.mark.slow
def test_the_commands_plant_list_and_lift(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("holdfast.cli.control.milliseconds", lambda: clock.now)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE.decode())
    settings = ControlSettings(
        policy="fixed-high",
        rails=Rails(jitter=0.0, surprise=0.0, first=0.0, recovery=14, sample_cap=100),
    )
    with site(tmp_path, settings) as place:
        monkeypatch.setenv("HOLDFAST_HOME", str(place.home.folder))
        place.holding("cage", CONTENT)
        desk = Workplace(place.folder, capsys)
        store = ("cage", "--store", place.node.folder)
        with place.service(clock, clock) as service:
            for _ in range(2):
                while service.step() or service.responder.tick():
                    pass
                clock.now += DAY
        too_many = desk.run("canary", "plant", *store, "--blocks", "100000")
        assert "blocks, not 100000" in too_many.sentence()
        assert "are damaged" in desk.run("canary", "plant", *store, "--blocks", "3").stdout
        told = desk.run("canary", "list", "--json").data
        assert [each["blocks"] for each in told["canaries"]] == [3]
        assert told["efficacy"]["value"] == 1.0
        assert "not detected yet" in desk.run("canary", "list").stdout
        assert "are restored" in desk.run("canary", "lift", *store).stdout
