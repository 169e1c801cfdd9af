"""The log of operation says what each audit taught about the data."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.inference import FLEET
from sqlalchemy import Engine, insert
from tests.support.command_line import Workplace
from tests.support.live_operation import guarded
from tests.support.live_service import site
from tests.support.owner_env import World
from tests.support.simulated_fleet import START, Clock
from tests.support.simulated_operation import operation
from tests.support.small_node import SEGMENT_BYTES

from holdfast.control.inference.audit_log import read_episodes, read_log
from holdfast.control.scheduling.guardrails import Override, Rails
from holdfast.control.scheduling.schedule import Schedule
from holdfast.control.settings.models import ControlSettings
from holdfast.durations import DAY, MINUTE
from holdfast.evidence import leaf
from holdfast.evidence.leaf import Outcome
from holdfast.model.action import GRID
from holdfast.pdp import SecretKey
from holdfast.storage.database import transaction
from holdfast.storage.schema import audits

SMALL = replace(FLEET, blocks=20, honest_rate=0.01, malicious_rate=0.1)
PUBLIC = SecretKey(bytes(32), 1).public


def test_the_log_has_every_audit_of_an_operation_with_its_outcome(tmp_path: Path) -> None:
    place = operation(tmp_path, SMALL, 3, policy="constant:7,0.20")
    place.until(START + 37 * DAY)
    known = read_episodes(place.engine, DAY, place.clock.now)
    log = known.log
    assert known.names == tuple(subject.name for subject in place.world.subjects)
    for node, subject in enumerate(place.world.subjects):
        rows = log.node == node
        assert np.count_nonzero(rows) == subject.tally.audits == 5
        assert np.count_nonzero(log.failed[rows]) == subject.tally.detections
    assert log.failed.any()
    assert set(log.interval.tolist()) == {7}
    assert log.elapsed.tolist() == [2, 2, 2]
    assert set(log.action.tolist()) == {GRID.index_of(7, 0.20)}
    assert set(log.sampled.tolist()) == {4}
    assert (log.latency > 0).all()
    assert (log.observation[[0, 5, 10], 0] == 0.5).all(), "before the first audit nothing is known"
    assert not (log.observation[1:5, 0] == 0.5).all()


@pytest.mark.slow
def test_audits_that_come_early_are_in_the_log_with_their_times(tmp_path: Path) -> None:
    """Before, a first audit was taken for as old as its interval, whenever it came."""
    place = operation(
        tmp_path,
        SMALL,
        10,
        policy="constant:7,0.20",
        rails=Rails(surprise=0.5, first=0.0, recovery=14),
    )
    place.until(START + 37 * DAY)
    log = read_log(place.engine, DAY, place.clock.now)
    for node in range(10):
        assert log.interval[log.node == node].sum() + log.elapsed[node] == 37
    told = [leaf.decode(entry.leaf) for entry in place.log().entries()]
    audits = [each for each in told if isinstance(each, leaf.Audit)]
    early = [each for each in audits if each.decision.overrides]
    assert {rail.rail for each in early for rail in each.decision.overrides} == {"surprise"}
    assert all("come early at random" in each.decision.overrides[0].reason for each in early)
    assert all(each.decision.action == (7, 0.20) for each in audits)
    waits = [(each.due_at - each.decision.at) / DAY for each in early]
    assert 0 < min(waits) < 1 < max(waits) < 7.7


def added(engine: Engine, *rows: Any) -> None:
    """Enter a holding of 100 blocks, and audits of it, each a week after the last."""
    Schedule(engine).add([("attic", 100, PUBLIC)], START)
    usual: dict[str, Any] = {
        "holding": 1,
        "interval": 7,
        "ratio": 0.1,
        "samples": 10,
        "overrides": 0,
    }
    usual |= {"latency": 0.2, "gas": 1.0, "observation": b"", "found": None}
    for number, row in enumerate(rows, 1):
        moment = START + 7 * DAY * number
        with transaction(engine) as connection:
            timed = {"number": number, "due": moment, "ended": moment}
            connection.execute(insert(audits).values(usual | timed | row))


def test_what_taught_nothing_counts_as_time_that_passed(engine: Engine) -> None:
    silent = [{"outcome": str(each)} for each in (Outcome.OFFLINE, Outcome.UNKNOWN)]
    added(
        engine,
        *(silent[0], {"outcome": "passed"}, silent[1], {"outcome": "timed-out"}),
        *({"outcome": "failed", "found": 0}, {"outcome": "passed"}, silent[0]),
    )
    log = read_log(engine, DAY, START + 50 * DAY)
    assert log.interval.tolist() == [14, 28]
    assert log.elapsed.tolist() == [8]
    assert not log.failed.any()


def test_a_time_out_after_which_damage_was_counted_is_a_failure(engine: Engine) -> None:
    added(engine, {"outcome": "timed-out", "found": 3, "latency": 0.0})
    log = read_log(engine, DAY, START + 50 * DAY)
    assert log.failed.tolist() == [True]
    assert log.damaged.tolist() == [3]
    assert np.isnan(log.latency).all()


def test_a_loss_that_the_node_admits_is_a_detection(engine: Engine) -> None:
    kept, admitted = {"outcome": "passed"}, {"outcome": "admitted", "latency": 0.0}
    added(engine, admitted | {"found": 4}, kept, admitted, kept, admitted | {"found": 0}, kept)
    log = read_log(engine, DAY, START + 50 * DAY)
    assert log.failed.tolist() == [True, False, True, False, False]
    assert log.damaged.tolist() == [4, -1, -1, -1, -1]


def test_a_time_out_that_nothing_clears_is_a_failure(engine: Engine) -> None:
    """A node that gives no proof where it can't must not look healthy by those that it gives.

    Before, 20 passed and 40 timed out of 60 were 20 rows, none of which had failed.
    """
    silent, kept = {"outcome": "timed-out"}, {"outcome": "passed"}
    added(engine, kept, silent, {"outcome": "offline"}, silent, kept, silent)
    log = read_log(engine, DAY, START + 50 * DAY)
    assert log.failed.tolist() == [False, True, False, True]
    assert log.interval.tolist() == [7, 7, 21, 7]


def test_a_follow_up_that_fails_again_is_no_second_failure(engine: Engine) -> None:
    again = {"overrides": int(Override.FOLLOW_UP)}
    added(
        engine,
        {"outcome": "failed", "found": 5},
        *({"outcome": "failed"} | again, {"outcome": "passed"} | again),
        {"outcome": "failed"},
    )
    log = read_log(engine, DAY, START + 50 * DAY)
    assert log.failed.tolist() == [True, False, True]
    assert log.damaged.tolist() == [5, -1, -1]


def test_a_schedule_without_audits_has_an_empty_log(engine: Engine) -> None:
    assert read_log(engine, DAY, START).nodes == 0
    added(engine)
    log = read_log(engine, DAY, START + 3 * DAY)
    assert (log.nodes, log.audits, log.elapsed.tolist()) == (1, 0, [3])


@pytest.mark.slow
def test_damage_that_was_located_is_in_the_log(engine: Engine, world: World) -> None:
    content = random.Random(1).randbytes(SEGMENT_BYTES)
    for name in ("plain", "secret"):
        world.put(name, world.file(content))
    with guarded(engine, world) as running:
        running.damage("plain")
        running.until(START + DAY + MINUTE)
        located = running.leaves("plain")[3]
        known = read_episodes(engine, DAY, running.clock.now)
    rows = known.log.node == known.names.index("plain")
    assert known.log.failed[rows].tolist() == [True, False]
    assert isinstance(located, leaf.Response)
    blocks = sum(span.stop - span.start for span in located.blocks)
    assert known.log.damaged[rows].tolist() == [blocks, -1]


@pytest.mark.slow
def test_the_commands_tell_what_was_inferred(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("holdfast.cli.control.milliseconds", lambda: clock.now)
    settings = ControlSettings(
        policy="fixed-high",
        rails=Rails(jitter=0.0, surprise=0.0, first=0.0, recovery=14, sample_cap=100),
    )
    with site(tmp_path, settings) as place:
        monkeypatch.setenv("HOLDFAST_HOME", str(place.home.folder))
        place.holding("attic", random.Random(1).randbytes(20_000))
        desk = Workplace(place.folder, capsys)
        with place.service(clock, clock) as service:
            while service.step() or service.responder.tick():
                pass
            early = desk.run("policy", "fit")
            assert early.code == 2
            assert "no audit has passed or failed yet" in early.sentence()
            for _ in range(3):
                clock.now += DAY
                while service.step() or service.responder.tick():
                    pass
        assert "not saved" in desk.run("policy", "fit", "--dry-run").stdout
        kept = desk.run("policy", "fit", "--json").data
        assert kept["id"] == 1
        assert (kept["audits"], kept["nodes"]) == (3, 1)
        clock.now += 5 * DAY
        told = desk.run("confidence", "--json").data
        assert told["observed"] is False
        assert (told["ceiling"], told["broken"]) == (None, False), "fixed-high promises none"
        (attic,) = told["holdings"]
        assert 0 <= attic["at_most"] < 1
        assert 0 < attic["damaged"] < 1
        shown = desk.run("confidence", "attic").stdout
        assert "inferred from the log, not observed" in shown
        assert "no ceiling is set" in shown
        held = desk.run("confidence", "--ceiling", "1")
        assert (held.code, "below the ceiling of 100.0%" in held.stdout) == (0, True)
        assert "is not on the schedule" in desk.run("confidence", "cellar").sentence()
