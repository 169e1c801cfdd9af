"""After a failed audit: real nodes whose files are damaged, and what is done about it."""

import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, select, update
from tests.support.live_operation import Guarded, alerts, guarded, move_node, steps
from tests.support.owner_env import BLOCK_BYTES, World, flip, killed_at, lines_of
from tests.support.simulated_fleet import START
from tests.support.small_node import SEGMENT_BYTES

from holdfast.control.incidents import responder as responses
from holdfast.control.incidents.repair import Damage, Spot
from holdfast.control.incidents.responder import Responder
from holdfast.control.incidents.store import Cases, release
from holdfast.control.incidents.types import Kind, State, Step
from holdfast.control.policies.aliases import Author
from holdfast.control.queries.incidents import list_follow_ups, list_repairs
from holdfast.control.scheduling.claims import LeaseLostError
from holdfast.control.settings.models import ALL_STEPS, Responses
from holdfast.durations import DAY, HOUR, MINUTE, SECOND
from holdfast.errors import InputError
from holdfast.evidence import leaf
from holdfast.evidence.leaf import Outcome
from holdfast.owner import localisation, replica
from holdfast.pdp.spans import Spans
from holdfast.storage import schema
from holdfast.storage.database import connect, migrate, transaction
from holdfast.storage.schema import NEVER

CONTENT = random.Random(1).randbytes(5 * SEGMENT_BYTES + 77)
CONTROL = Path(responses.__file__).parents[1]
SPANS = st.sets(st.integers(0, 50)).map(lambda blocks: Spans.of_blocks(sorted(blocks)))
AUDITED = START + DAY  # when the first audit ends, a day after the first decision


@pytest.fixture
def alone(world: World) -> World:
    """Return a world where only one holding has the file."""
    world.put("plain", world.file(CONTENT))
    return world


@pytest.fixture
def replicated(alone: World) -> World:
    """Return a world where both holdings have the file."""
    alone.put("secret", alone.folder / "file")
    return alone


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Engine]:
    engine = connect(str(tmp_path / "holdfast.db"))
    migrate(engine)
    yield engine
    engine.dispose()


def damage_told(running: Guarded) -> str:
    """Return what the alert about damage says."""
    query = select(schema.alerts.c.detail).where(schema.alerts.c.kind == Kind.DAMAGED)
    with transaction(running.engine) as connection:
        return str(connection.execute(query).scalar_one())


@pytest.mark.slow
def test_damage_is_followed_up_located_and_repaired_from_the_other_holding(
    engine: Engine, replicated: World, tmp_path: Path
) -> None:
    with guarded(engine, replicated) as running:
        running.damage("plain")
        running.until(AUDITED + MINUTE)
        assert running.story("plain") == [
            *("failed", "follow-up", "failed"),
            *("localised", "repaired", "follow-up", "passed"),
        ]
        with running.home.holding("plain") as place:
            parts = [path.read_bytes() for path in replicated.one.stored(place, "data")]
            blocks = place.inventory.blocks
        assert b"".join(parts) == CONTENT
        first, _, second, located, repaired, *_ = running.leaves("plain")
        assert isinstance(first, leaf.Audit)
        assert isinstance(second, leaf.Audit)
        assert [each.rail for each in second.decision.overrides] == ["follow-up"]
        assert second.decision.action == (0, 0.20)
        assert second.challenge.samples == -(-blocks // 5)
        assert second.due_at == first.at, "it follows at once"
        assert isinstance(located, leaf.Response)
        assert isinstance(repaired, leaf.Response)
        assert located.blocks == repaired.blocks != ()
        assert steps(running)[-2:] == [("quarantine", "dropped"), ("alert", "dropped")]
        assert alerts(running) == [(Kind.DAMAGED, "plain", False)]
        assert running.story("secret") == ["passed"]
        running.until(AUDITED + 2 * DAY)
        assert running.story("plain")[-1] == "passed"
        assert running.verified(tmp_path).findings == ()


@pytest.mark.slow
def test_without_a_replica_the_holding_is_quarantined_until_it_is_released(
    engine: Engine, alone: World, tmp_path: Path
) -> None:
    with guarded(engine, alone) as running:
        with pytest.raises(InputError, match="is not quarantined"):
            release(engine, "plain", Author("a test", running.clock.now))
        running.damage("plain")
        running.until(AUDITED + DAY)
        told = ["failed", "follow-up", "failed", "localised", "lost", "quarantined", "alerted"]
        assert running.story("plain") == told
        assert running.row("plain") == (True, NEVER)
        assert alerts(running) == [
            (Kind.DAMAGED, "plain", True),
            (Kind.QUARANTINED, "plain", True),
        ]
        assert "206 blocks lost: no replica has them: file, bytes 0 to 123" in damage_told(running)
        assert "; node 0x" in damage_told(running)
        for response in running.leaves("plain")[-3:]:
            assert isinstance(response, leaf.Response)
            if response.step is not leaf.Step.ALERTED:
                assert response.detail.endswith("lost: no replica has them"), "without the name"

        running.damage("plain")  # the same bits once more: all is as it was
        release(engine, "plain", Author("a test", running.clock.now))
        running.until(running.clock.now + MINUTE)
        assert running.story("plain") == [*told, "released", "passed"]
        assert alerts(running) == [
            (Kind.DAMAGED, "plain", False),
            (Kind.QUARANTINED, "plain", False),
        ]
        assert damage_told(running).endswith("; a test released the holding")
        assert not running.row("plain")[0]
        assert running.verified(tmp_path).findings == ()


def test_nobody_can_release_what_is_not_there(embedded: Engine) -> None:
    with pytest.raises(InputError, match="'attic' is not on the schedule"):
        release(embedded, "attic", Author("a test", START))


@pytest.mark.slow
def test_a_follow_up_that_passes_ends_the_case(embedded: Engine, alone: World) -> None:
    with guarded(embedded, alone, Responses(delay=HOUR)) as running:
        running.damage("plain")
        running.until(AUDITED + MINUTE)
        assert running.story("plain") == ["failed", "follow-up"]
        running.damage("plain")  # back again
        running.until(AUDITED + 3 * HOUR)
        assert running.story("plain") == [
            *("failed", "follow-up", "passed"),
            *("localised", "follow-up", "passed"),
        ]
        assert alerts(running) == [(Kind.DAMAGED, "plain", False)]
        assert damage_told(running).endswith("; nothing was repaired, audit 3 passed")
        assert steps(running)[-2:] == [("quarantine", "dropped"), ("alert", "dropped")]


@pytest.mark.slow
def test_damage_that_a_follow_up_misses_is_localised_all_the_same(
    embedded: Engine, replicated: World
) -> None:
    """Before: a passing follow-up ended the case, though the node had signed a wrong proof."""
    with guarded(embedded, replicated, Responses(delay=HOUR)) as running:
        running.damage("plain")
        running.until(AUDITED + MINUTE)
        assert running.story("plain") == ["failed", "follow-up"]
        running.damage("plain")  # away for a while
        running.audited(AUDITED + HOUR)
        running.damage("plain")  # and there again, as if the sample had missed it
        running.until(AUDITED + 3 * HOUR)
        assert running.story("plain") == [
            *("failed", "follow-up", "passed"),
            *("localised", "repaired", "follow-up", "passed"),
        ]
        assert damage_told(running).endswith("; repaired, audit 3 passed")


@pytest.mark.slow
def test_damage_that_was_localised_and_repaired_is_over_with_the_next_pass(
    embedded: Engine, replicated: World
) -> None:
    twice = (Step.LOCALISE, Step.REPAIR, Step.FOLLOW_UP)
    with guarded(embedded, replicated, Responses(failed=(*twice, *twice))) as running:
        running.damage("plain")
        running.until(AUDITED + MINUTE)
        assert running.story("plain") == ["failed", "localised", "repaired", "follow-up", "passed"]
        assert {state for _, state in steps(running)[3:]} == {State.DROPPED}


@pytest.mark.slow
def test_a_follow_up_that_tells_nothing_is_made_again(embedded: Engine, alone: World) -> None:
    plan = (Step.FOLLOW_UP, Step.ALERT)
    with guarded(embedded, alone, Responses(failed=plan)) as running:
        running.damage("plain")
        running.audited(AUDITED)
        running.responder.tick()
        running.worker.tick()
        assert running.story("plain") == ["failed", "follow-up", "failed"]
        away = update(schema.audits).where(schema.audits.c.number == 2).values(outcome="offline")
        with transaction(embedded) as connection:
            connection.execute(away)
        running.until(AUDITED + MINUTE)
        assert steps(running) == [("follow-up", "ready"), ("alert", "planned")]
        running.until(AUDITED + HOUR)
        assert running.story("plain")[3:] == ["follow-up", "failed", "alerted"]


@pytest.mark.slow
def test_a_time_out_is_over_when_a_later_audit_passes(embedded: Engine, alone: World) -> None:
    """Before, it was called a repair, and a case that waited for its follow-up stayed open."""
    with guarded(embedded, alone) as running:
        running.audited(AUDITED)
        number = schema.audits.c.number == 1
        late = update(schema.audits).where(number).values(outcome="timed-out", unanswered=True)
        with transaction(embedded) as connection:
            connection.execute(late)
        running.responder.open_cases()
        assert ("follow-up", "ready") in steps(running)
        with transaction(embedded) as connection:
            (waiting,) = list_follow_ups(connection)
        assert (waiting.holding, waiting.audit) == ("plain", 1)
        running.audited(AUDITED + 20 * DAY)
        assert running.story("plain")[-1] == "passed"
        running.responder.open_cases()
        assert {state for _, state in steps(running)} == {State.DROPPED}
        with transaction(embedded) as connection:
            assert list_follow_ups(connection) == []


@pytest.mark.slow
def test_a_loss_that_the_node_admits_raises_an_alert_and_is_repaired(
    embedded: Engine, replicated: World
) -> None:
    with guarded(embedded, replicated) as running:
        running.damage("plain")
        running.audited(AUDITED)
        failed = update(schema.audits).where(schema.audits.c.outcome == "failed")
        with transaction(embedded) as connection:
            connection.execute(failed.values(outcome="admitted"))
        Cases(embedded).open(Responses().plans, AUDITED)
        assert damage_told(running).startswith("audit 1: the node admits that what it stored is")
        running.until(AUDITED + MINUTE)
        assert running.story("plain")[1:] == [
            *("follow-up", "failed", "localised", "repaired", "follow-up", "passed"),
        ]
        assert alerts(running) == [(Kind.DAMAGED, "plain", False)]


@pytest.mark.slow
def test_a_holding_that_is_repaired_too_often_is_quarantined_until_it_is_released(
    engine: Engine, replicated: World, tmp_path: Path
) -> None:
    """Before, a node that lost blocks every day was repaired every day, for ever."""
    repaired = ["failed", "localised", "repaired", "follow-up", "passed"]
    plan = (Step.LOCALISE, Step.REPAIR, Step.FOLLOW_UP)
    with guarded(engine, replicated, Responses(failed=plan, repairs=2)) as running:
        running.damage("plain")
        running.until(AUDITED + HOUR)
        assert running.story("plain") == repaired
        assert not running.row("plain")[0], "once is no pattern"
        running.damage("plain")
        running.until(AUDITED + DAY + HOUR)
        assert running.story("plain") == [*repaired, *repaired, "quarantined", "alerted"]
        assert running.row("plain")[0]
        assert alerts(running) == [
            *[(Kind.DAMAGED, "plain", False)] * 2,
            (Kind.QUARANTINED, "plain", True),
        ]
        quarantined = running.leaves("plain")[-2]
        assert isinstance(quarantined, leaf.Response)
        assert quarantined.detail == "repaired 2 times within 30 days"

        release(engine, "plain", Author("a test", running.clock.now))
        running.damage("plain")
        running.until(running.clock.now + HOUR)
        assert running.story("plain")[-6:] == ["released", *repaired]
        assert not running.row("plain")[0], "repairs before the release don't count"
        assert running.verified(tmp_path).findings == ()


@pytest.mark.slow
def test_repairs_that_lie_far_apart_lead_to_no_quarantine(
    embedded: Engine, replicated: World
) -> None:
    settings = Responses(repairs=2, repairs_within=12 * HOUR)
    with guarded(embedded, replicated, settings) as running:
        for day in range(3):
            running.damage("plain")
            running.until(AUDITED + day * DAY + HOUR)
        assert running.story("plain").count("repaired") == 3
        assert "quarantined" not in running.story("plain")


@pytest.mark.slow
def test_whoever_was_too_slow_can_not_end_a_step_that_another_took_over(
    engine: Engine, alone: World
) -> None:
    with guarded(engine, alone) as running:
        running.damage("plain")
        running.audited(AUDITED)
        cases = Cases(engine)
        cases.open({Outcome.FAILED: (Step.ALERT,)}, AUDITED)
        slow = cases.claim(AUDITED, SECOND)
        assert cases.claim(AUDITED, SECOND) is None
        quick = cases.claim(AUDITED + SECOND, SECOND)
        assert slow is not None
        assert quick is not None
        with pytest.raises(LeaseLostError):
            cases.alert(slow, AUDITED + SECOND)
        assert running.story("plain") == ["failed"]
        assert alerts(running) == [(Kind.DAMAGED, "plain", True)]
        cases.alert(quick, AUDITED + SECOND)
        assert running.story("plain") == ["failed", "alerted"]


@pytest.mark.slow
def test_a_replica_that_is_damaged_itself_gives_what_it_has(
    embedded: Engine, replicated: World, tmp_path: Path
) -> None:
    plan = (Step.LOCALISE, Step.REPAIR, Step.FOLLOW_UP, Step.ALERT)
    with guarded(embedded, replicated, Responses(failed=plan)) as running:
        running.damage("plain")
        with running.home.holding("secret") as place:
            flip(replicated.two.stored(place, "data")[0], 0)
        running.until(AUDITED + MINUTE)
        told = running.leaves("plain")
        assert running.story("plain") == ["failed", "localised", "repaired", "lost", "alerted"]
        (lost,) = [e for e in told if isinstance(e, leaf.Response) and e.step is leaf.Step.LOST]
        assert lost.blocks == (leaf.Span(0, 1),), "the node's own tag confirms the second block"
        assert (Kind.FAILED, "plain", True) in alerts(running)
        assert running.verified(tmp_path).findings == ()


@pytest.mark.slow
def test_lost_tags_are_repaired_in_slices_too(
    embedded: Engine, replicated: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(localisation, "SPAN_BLOCKS", 64)
    monkeypatch.setattr(replica, "WINDOW_BYTES", 16 * BLOCK_BYTES)
    with guarded(embedded, replicated) as running, running.home.holding("plain") as place:
        paths = [p for part in ("data", "tags") for p in replicated.one.stored(place, part)]
        before = [path.read_bytes() for path in paths]
        running.damage("plain")
        for path in replicated.one.stored(place, "tags"):
            flip(path, *range(200, path.stat().st_size, 700))
        running.until(AUDITED + 2 * MINUTE)  # the node says so
        assert alerts(running) == [], "that alone shows no damage"
        running.until(AUDITED + 4 * HOUR)
        assert alerts(running) == [(Kind.DAMAGED, "plain", False)]
        assert running.story("plain") == [
            *("admitted", "follow-up", "admitted"),
            *("localised", "repaired", "follow-up", "passed"),
        ]
        assert [path.read_bytes() for path in paths] == before


@pytest.mark.slow
def test_a_tick_ends_with_its_slice_though_there_is_more_to_do(
    embedded: Engine, replicated: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(localisation, "SPAN_BLOCKS", 16)
    plan = (Step.LOCALISE, Step.ALERT)
    with guarded(embedded, replicated) as running:
        running.damage("plain")
        running.audited(AUDITED)
        readings = iter(range(AUDITED, NEVER, 100))
        responder = Responder(
            Cases(embedded),
            running.home,
            Responses(failed=plan, slice=500),
            unit=DAY,
            clock=lambda: next(readings),
        )
        goes = [responder.tick() for _ in range(3)]
        assert all(0 < each < 5 for each in goes)
        assert steps(running) == [("localise", "ready"), ("alert", "planned")]


@pytest.mark.slow
def test_how_far_a_search_and_a_repair_are_can_be_read(
    embedded: Engine, replicated: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(localisation, "SPAN_BLOCKS", 16)
    monkeypatch.setattr(replica, "WINDOW_BYTES", 16 * BLOCK_BYTES)
    settings = Responses(failed=(Step.LOCALISE, Step.REPAIR, Step.ALERT), slice=200)
    with guarded(embedded, replicated) as running:
        running.damage("plain")
        running.audited(AUDITED)
        readings = iter(range(AUDITED, NEVER, 100))
        responder = Responder(
            Cases(embedded), running.home, settings, unit=DAY, clock=lambda: next(readings)
        )
        seen: dict[Step, list[int]] = {}
        while responder.tick():
            with transaction(embedded) as connection:
                moving = list_repairs(connection)
            for step in moving:
                assert step.progress is not None
                assert 0 < step.progress.done <= step.progress.total
                assert step.progress.per_second > 0
                assert "a second, about" in step.progress.text
                seen.setdefault(step.step, []).append(step.progress.done)
        assert list(seen) == [Step.LOCALISE, Step.REPAIR]
        assert all(done == sorted(done) and len(done) > 1 for done in seen.values())


@pytest.mark.slow
def test_a_node_that_hangs_holds_up_no_other_incident(embedded: Engine, replicated: World) -> None:
    settings = Responses(failed=(Step.LOCALISE, Step.ALERT))
    with guarded(embedded, replicated, settings) as running:
        for holding in ("plain", "secret"):
            running.damage(holding)
        running.audited(AUDITED)
        Cases(embedded).open(settings.plans, AUDITED)
        ready = select(schema.holdings.c.name).join(
            schema.responses, schema.responses.c.holding == schema.holdings.c.id
        )
        with transaction(embedded) as connection:
            first = connection.execute(ready.order_by(schema.responses.c.id)).scalars().first()
        node = replicated.one if first == "plain" else replicated.two
        other = "secret" if first == "plain" else "plain"
        node.process.send_signal(signal.SIGSTOP)
        hung = threading.Thread(target=running.responder.tick)
        try:
            hung.start()
            leased = select(schema.responses.c.id).where(schema.responses.c.lease > 0)
            for _ in range(1000):
                with transaction(embedded) as connection:
                    if connection.execute(leased).first():
                        break
                time.sleep(0.01)
            assert running.responder.tick() > 0
            assert running.story(other) == ["failed", "localised", "alerted"]
            assert hung.is_alive()
            assert running.story(str(first)) == ["failed"]
        finally:
            node.process.send_signal(signal.SIGCONT)
            hung.join()
        running.until(AUDITED + MINUTE)
        assert running.story(str(first)) == ["failed", "localised", "alerted"]


@pytest.mark.slow
def test_a_node_that_is_away_is_tried_again(embedded: Engine, replicated: World) -> None:
    with guarded(embedded, replicated, Responses(failed=ALL_STEPS[1:])) as running:
        running.damage("plain")
        running.audited(AUDITED)
        move_node(replicated.home, "http://127.0.0.1:9")
        running.until(AUDITED + MINUTE)
        assert running.story("plain") == ["failed"]
        move_node(replicated.home, replicated.one.url)
        running.until(AUDITED + 15 * MINUTE)
        assert running.story("plain")[1:] == ["localised", "repaired", "follow-up", "passed"]


@pytest.mark.slow
def test_what_can_t_be_located_for_too_long_is_quarantined(
    embedded: Engine, replicated: World
) -> None:
    settings = Responses(failed=ALL_STEPS[1:], patience=HOUR)
    with guarded(embedded, replicated, settings) as running:
        running.damage("plain")
        running.audited(AUDITED)
        move_node(replicated.home, "http://127.0.0.1:9")
        running.until(AUDITED + 2 * HOUR)
        assert running.story("plain") == ["failed", "quarantined", "alerted"]
        quarantined = running.leaves("plain")[1]
        assert isinstance(quarantined, leaf.Response)
        assert quarantined.detail.startswith("localise was given up: can't reach")


@pytest.mark.slow
def test_a_replica_that_is_away_for_too_long_is_waited_for_no_more(
    embedded: Engine, replicated: World, tmp_path: Path
) -> None:
    plan = (Step.LOCALISE, Step.REPAIR, Step.FOLLOW_UP, Step.ALERT)
    settings = Responses(failed=plan, patience=HOUR)
    with guarded(embedded, replicated, settings) as running:
        running.damage("plain")
        move_node(replicated.home, "http://127.0.0.1:9", "secret")
        running.until(AUDITED + 30 * MINUTE)
        assert running.story("plain") == ["failed", "localised"]
        running.until(AUDITED + 2 * HOUR)
        assert running.story("plain") == ["failed", "localised", "alerted"]
        assert steps(running)[1] == ("repair", "dropped")
        assert alerts(running) == [(Kind.DAMAGED, "plain", True), (Kind.FAILED, "plain", True)]
        release(embedded, "plain", Author("a test", running.clock.now))
        assert alerts(running) == [(Kind.DAMAGED, "plain", False), (Kind.FAILED, "plain", False)]
        assert running.verified(tmp_path).findings == ()


@pytest.mark.slow
def test_steps_that_are_not_configured_are_not_taken(embedded: Engine, replicated: World) -> None:
    with guarded(embedded, replicated, Responses(failed=())) as running:
        running.damage("plain")
        running.until(AUDITED + MINUTE)
        assert running.story("plain") == ["failed"]
        assert steps(running) == []
        assert alerts(running) == [(Kind.DAMAGED, "plain", True)], "that is told all the same"


@pytest.mark.slow
def test_a_worker_that_is_killed_anywhere_leaves_each_step_to_be_taken_once(
    replicated: World, tmp_path: Path
) -> None:
    plan = (Step.LOCALISE, Step.REPAIR, Step.QUARANTINE, Step.ALERT)
    settings = Responses(failed=plan)
    database = tmp_path / "holdfast.db"

    def respond(now: int) -> None:
        engine = connect(str(database))
        Responder(Cases(engine), replicated.home, settings, unit=DAY, clock=lambda: now).tick()
        engine.dispose()

    engine = connect(str(database))
    migrate(engine)
    with guarded(engine, replicated, settings) as running:
        running.damage("plain")
        running.audited(AUDITED)
        engine.dispose()
        before = database.read_bytes()
        running.damage("plain")
        lines = lines_of(CONTROL, lambda: respond(AUDITED))
        for kill in range(1, lines, lines // 8):
            engine.dispose()
            database.write_bytes(before)
            running.damage("plain")
            killed_at(kill, CONTROL, lambda: respond(AUDITED))
            respond(AUDITED + settings.lease)
            told = running.story("plain")
            assert told == ["failed", "localised", "repaired", "quarantined", "alerted"], kill
            told_of = [(Kind.DAMAGED, "plain", True), (Kind.QUARANTINED, "plain", True)]
            assert alerts(running) == told_of, kill
        assert running.verified(tmp_path).findings == ()


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ((Step.REPAIR,), "repair comes after localise"),
        ((Step.QUARANTINE, Step.FOLLOW_UP), "no follow-up comes after quarantine"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(plan: tuple[Step, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Responses(timed_out=plan)


@pytest.mark.slow
@given(
    st.lists(
        st.builds(
            Spot,
            st.tuples(st.text("0123456789abcdef", min_size=32, max_size=32), st.integers(1, 9)),
            st.integers(0, 2**40),
            SPANS,
            st.integers(0, 50),
            SPANS,
            SPANS,
        )
    ).map(tuple),
    st.integers(0, 2**40),
)
def test_progress_is_read_as_it_was_written(spots: tuple[Spot, ...], reached: int) -> None:
    damage = Damage("ab", reached, spots)
    assert Damage.decode(damage.encode()) == damage
