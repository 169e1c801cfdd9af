"""Coverage with a memory: all is read in every cycle, in an order that nobody can tell."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection, Engine

from holdfast.checkers.interface import Extent, Group
from holdfast.control.scheduling import coverage
from holdfast.control.scheduling.coverage import WHOLE, Draw, Look, Promise, Wanted
from holdfast.control.scheduling.guardrails import DRAWS, Override, Rails, plan
from holdfast.durations import DAY, HOUR
from holdfast.model.action import GRID
from holdfast.storage.database import connect, migrate, transaction

HOLDING = 1
NOW = 1_800_000_000_000
ALL = 10**6


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    with transaction(engine) as connection:
        yield connection


def extent_of(*names: str, units: int = 1, size: int = 10) -> Extent:
    groups = tuple(Group(name, units, size) for name in names)
    return Extent("pack", units * len(names), size * len(names), "tool", groups)


def names_of(count: int) -> list[str]:
    return [f"g{n:03}" for n in range(count)]


def save(connection: Connection, extent: Extent, now: int = NOW) -> None:
    coverage.save_groups(connection, HOLDING, extent, now)


def draw(connection: Connection, wanted: Wanted, now: int = NOW) -> Draw:
    return coverage.draw(connection, HOLDING, wanted, now)


def verify(connection: Connection, drawn: Draw, now: int = NOW, *damaged: str) -> None:
    intact = tuple(name for name in drawn.groups if name not in damaged)
    coverage.record_look(connection, HOLDING, Look(intact, damaged, now, None))


def test_every_group_is_drawn_once_before_any_is_drawn_twice(connection: Connection) -> None:
    save(connection, extent_of(*names_of(50)))
    orders = []
    for _ in range(4):
        order: list[str] = []
        for _ in range(5):
            drawn = draw(connection, Wanted(10, ALL))
            verify(connection, drawn)
            order += drawn.groups
        assert sorted(order) == names_of(50)
        orders.append(tuple(order))
    assert len(set(orders)) == 4, "each cycle has an order of its own"


def test_a_new_group_belongs_to_the_cycle_under_way_and_a_removed_one_to_none(
    connection: Connection,
) -> None:
    save(connection, extent_of(*names_of(10)))
    verify(connection, draw(connection, Wanted(5, ALL)))
    save(connection, extent_of(*names_of(9), "new"))
    rest = draw(connection, Wanted(5 + 1, ALL))
    assert "new" in rest.groups
    assert "g009" not in rest.groups


def test_a_group_that_was_not_verified_comes_again(connection: Connection) -> None:
    save(connection, extent_of(*names_of(10)))
    draw(connection, Wanted(10, ALL))  # its check comes to nothing
    seen = [name for _ in range(5) for name in drawn_and_verified(connection, 2)]
    assert sorted(seen) == names_of(10)


def drawn_and_verified(connection: Connection, units: int) -> tuple[str, ...]:
    drawn = draw(connection, Wanted(units, ALL))
    verify(connection, drawn)
    return drawn.groups


def test_samples_are_counted_in_units(connection: Connection) -> None:
    save(connection, extent_of(*names_of(10), units=7))
    drawn = draw(connection, Wanted(15, ALL))
    assert (len(drawn.groups), drawn.units) == (3, 21)


def test_empty_groups_are_never_drawn(connection: Connection) -> None:
    groups = (Group("empty", 0, 0), Group("full", 3, 9))
    save(connection, Extent("pack", 3, 9, "tool", groups))
    assert draw(connection, Wanted(3, ALL)).groups == ("full",)


def test_nothing_is_drawn_from_nothing(connection: Connection) -> None:
    save(connection, Extent("pack", 0, 0, "tool", ()))
    assert draw(connection, Wanted(3, ALL)) == Draw((), 0)


def test_damaged_groups_are_drawn_first_until_they_are_verified(connection: Connection) -> None:
    save(connection, extent_of(*names_of(40)))
    drawn = draw(connection, Wanted(3, ALL))
    bad = drawn.groups[0]
    verify(connection, drawn, NOW, bad)
    for _ in range(3):
        again = draw(connection, Wanted(3, ALL))
        assert bad in again.groups
        verify(connection, again, NOW, bad)
    verify(connection, draw(connection, Wanted(3, ALL)))
    assert bad not in draw(connection, Wanted(3, ALL)).groups


def test_the_cap_is_never_exceeded_and_it_is_said(connection: Connection) -> None:
    save(connection, extent_of(*names_of(40)))
    drawn = draw(connection, Wanted(30, 8))
    assert (drawn.units, drawn.overrides) == (8, Override.SAMPLE_CAP)


def test_a_budget_of_bytes_is_kept_on_average(connection: Connection) -> None:
    save(connection, extent_of(*names_of(40), size=100))
    drawn = draw(connection, Wanted(40, ALL, daily_bytes=500))
    assert (len(drawn.groups), drawn.overrides) == (5, Override.DAILY_BYTES)
    both = draw(connection, Wanted(40, 8, daily_bytes=500))
    assert both.overrides == Override.SAMPLE_CAP | Override.DAILY_BYTES
    verify(connection, drawn)
    later = draw(connection, Wanted(40, ALL, daily_bytes=500), NOW + 2 * DAY)
    assert len(later.groups) == 10
    sooner = draw(connection, Wanted(40, ALL, daily_bytes=500), NOW + HOUR)
    assert len(sooner.groups) == 1, "a check reads one group at least"


def test_a_tool_that_chooses_by_itself_is_one_group(connection: Connection) -> None:
    save(connection, Extent("segment", 100, 1000, "tool"))
    promise = Promise(10 * DAY, NOW + 5 * DAY)
    assert draw(connection, Wanted(7, ALL, promise=promise)) == Draw((), 7)
    coverage.record_look(connection, HOLDING, Look((WHOLE,), (), NOW, None))
    late = NOW + 6 * DAY
    promise = Promise(10 * DAY, late + 5 * DAY)
    expected = Draw((), 100, int(Override.VERIFY_WITHIN))
    assert draw(connection, Wanted(7, ALL, promise=promise), late) == expected


def test_after_a_check_that_could_not_end_old_groups_have_no_precedence(
    connection: Connection,
) -> None:
    save(connection, extent_of("old"))
    save(connection, extent_of("old", *names_of(30)), NOW + 9 * DAY)
    promise = Promise(10 * DAY, NOW + 11 * DAY)
    seen: Counter[str] = Counter()
    for _ in range(8):
        wanted = Wanted(2, 2, cautious=True, promise=promise)
        seen.update(draw(connection, wanted, NOW + 9 * DAY).groups)
    assert seen["old"] <= 1
    drawn = draw(connection, Wanted(2, 2, promise=promise), NOW + 9 * DAY)
    assert "old" in drawn.groups


def test_names_that_are_no_text_are_kept_as_they_are(connection: Connection) -> None:
    odd = "caf\udce9\n"
    save(connection, extent_of(odd))
    save(connection, extent_of(odd, "other"))
    assert odd in draw(connection, Wanted(2, ALL)).groups


WITHIN = 30 * DAY
RAILS = Rails()
CHECK_TIME = 12 * HOUR
CYCLES = 200
UNITS = 120


class Storage:
    """Units that come and go, and what reading them gave."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self._next = rng, UNITS
        self.since = {f"g{n}": NOW for n in range(UNITS)}  # added, or last verified

    def change(self, now: int) -> None:
        """Let some units go and others come; now and then, many at once."""
        count = 40 if self._rng.random() < 0.02 else int(self._rng.integers(0, 3))
        for name in self._rng.permutation(sorted(self.since))[:count]:
            del self.since[str(name)]
        for _ in range(int(self._rng.integers(0, 2 * count + 1)) if len(self.since) < 200 else 0):
            self.since[f"g{self._next}"] = now
            self._next += 1

    def extent(self) -> Extent:
        return extent_of(*sorted(self.since))

    def oldest(self, now: int) -> int:
        return max(now - since for since in self.since.values())

    def read(self, names: tuple[str, ...], now: int) -> None:
        for name in names:
            if name in self.since:
                self.since[name] = now


@pytest.mark.slow
def test_over_200_cycles_no_unit_is_older_than_promised(tmp_path: Path) -> None:
    """Units come and go, times are drawn by the rails, and the policy asks for far too little.

    Beside it, the same number of units is drawn at random without a memory.
    """
    rng = np.random.default_rng(7)
    memory, forgetful = Storage(rng), Storage(np.random.default_rng(7))
    engine = connect(str(tmp_path / "coverage.db"))
    migrate(engine)
    now, end = NOW, NOW + round(CYCLES * coverage.CYCLE_SHARE * WITHIN)
    oldest = oldest_at_random = 0
    read = 0.0
    late_at_random = []
    with transaction(engine) as connection:
        while now < end:
            memory.change(now)
            forgetful.since |= dict.fromkeys(memory.since.keys() - forgetful.since.keys(), now)
            forgetful.since = {n: forgetful.since[n] for n in memory.since}
            save(connection, memory.extent(), now)
            promise = Promise.of(RAILS, WITHIN, now, CHECK_TIME)
            drawn = draw(connection, Wanted(1, ALL, promise=promise), now)
            ended = now + int(rng.integers(0, CHECK_TIME))
            oldest = max(oldest, memory.oldest(ended))
            memory.read(drawn.groups, now)
            verify(connection, drawn, now)
            names = sorted(forgetful.since)
            oldest_at_random = max(oldest_at_random, forgetful.oldest(ended))
            random_names = rng.choice(names, size=len(drawn.groups), replace=False)
            forgetful.read(tuple(map(str, random_names)), now)
            late = sum(ended - since > WITHIN for since in forgetful.since.values())
            late_at_random.append(late / len(names))
            read += len(drawn.groups) / len(names)
            now = next_check(rng, ended)
    engine.dispose()
    assert oldest <= WITHIN
    assert oldest_at_random > 3 * WITHIN, "without a memory some are not read for months"
    assert np.mean(late_at_random) > 0.08
    cycles = (end - NOW) / (coverage.CYCLE_SHARE * WITHIN)
    assert read <= 1.1 * cycles, "and it costs little more than reading all once a cycle"


def next_check(rng: np.random.Generator, now: int) -> int:
    """Return when the rails let the next check begin, of a policy that would wait for long."""
    one = np.ones(1, np.bool_)
    planned = plan(
        RAILS,
        now,
        np.array([GRID.index_of(14, 0.01)]),
        telemetry=one,
        state=one,
        inside=one,
        new=~one,
        recovering=~one,
        uniforms=rng.random((DRAWS, 1)),
        within=np.array([WITHIN]),
    )
    assert planned.overrides[0] & Override.VERIFY_WITHIN
    return int(planned.due[0])


@pytest.mark.slow
def test_times_and_units_stay_unpredictable_under_a_promise(tmp_path: Path) -> None:
    """A cycle is two thirds of the promise, so that most draws are in random order."""
    engine = connect(str(tmp_path / "coverage.db"))
    migrate(engine)
    with transaction(engine) as connection:
        save(connection, extent_of(*names_of(100)))
        positions: list[list[int]] = []
        now = NOW
        for _ in range(40):
            order: list[str] = []
            while len(order) < 100:
                promise = Promise(WITHIN, now + 2 * DAY)
                drawn = draw(connection, Wanted(1, ALL, promise=promise), now)
                verify(connection, drawn, now)
                order += [name for name in drawn.groups if name not in order]
                now += DAY
            positions.append([order.index(name) for name in names_of(100)])
    engine.dispose()
    pairs = [np.corrcoef(a, b)[0, 1] for a, b in pairwise(positions[5:])]
    assert abs(float(np.mean(pairs))) < 0.5, "the last order says little about the next"
