"""The rails: what no policy can get around."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.scheduling.guardrails import (
    DRAWS,
    FAIL_SAFE,
    REASONS,
    Override,
    Plan,
    Rails,
    Window,
    hold_for_gas,
    override_names,
    plan,
)
from holdfast.durations import DAY, HOUR, MINUTE
from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.arrays import IntArray

NOW = 1_800_000_000_000
REGULAR = Rails(jitter=0.0, surprise=0.0, first=0.0, recovery=14)


def planned(
    rails: Rails,
    chosen: list[int],
    *,
    telemetry: bool = True,
    state: bool = True,
    inside: bool = True,
    new: bool = False,
    recovering: bool = False,
    luck: float = 0.5,
) -> Plan:
    size = len(chosen)
    return plan(
        rails,
        NOW,
        np.array(chosen),
        telemetry=np.full(size, telemetry),
        state=np.full(size, state),
        inside=np.full(size, inside),
        new=np.full(size, new),
        recovering=np.full(size, recovering),
        uniforms=np.full((DRAWS, size), luck),
    )


def test_what_the_rails_allow_is_left_alone() -> None:
    found = planned(REGULAR, [GRID.index_of(7, 0.05)])
    assert found.due.tolist() == [NOW + 7 * DAY]
    assert found.ratio.tolist() == [0.05]
    assert found.overrides.tolist() == [0]


@pytest.mark.parametrize(
    ("telemetry", "state", "inside", "reason"),
    [
        (False, True, True, Override.TELEMETRY),
        (True, False, True, Override.STATE),
        (True, True, False, Override.ENVELOPE),
        (False, False, False, FAIL_SAFE),
    ],
)
def test_the_fail_safe_takes_over(
    *, telemetry: bool, state: bool, inside: bool, reason: Override
) -> None:
    found = planned(REGULAR, [24], telemetry=telemetry, state=state, inside=inside)
    assert (found.due[0], found.ratio[0]) == (NOW + DAY, 0.10)
    assert found.overrides.tolist() == [int(reason)]
    assert found.action.tolist() == [GRID.index_of(1, 0.10)]


def test_intervals_are_clipped_and_the_nearest_action_is_told_to_the_policy() -> None:
    rails = replace(REGULAR, shortest=2, longest=6)
    found = planned(rails, [GRID.index_of(1, 0.2), GRID.index_of(5, 0.2), GRID.index_of(14, 0.2)])
    assert ((found.due - NOW) / DAY).tolist() == [2.0, 5.0, 6.0]
    assert found.overrides.tolist() == [int(Override.SHORTEST), 0, int(Override.LONGEST)]
    assert [GRID.action(a).interval for a in found.action] == [1, 5, 5]


rails = st.builds(
    lambda unit, shortest, more, jitter, surprise, start, length: Rails(
        unit=unit,
        shortest=shortest,
        longest=shortest + more,
        jitter=jitter,
        surprise=surprise,
        quiet=(Window(start * HOUR, (start + length) % 24 * HOUR),) if length else (),
    ),
    unit=st.sampled_from([DAY, HOUR, MINUTE]),
    shortest=st.integers(1, 10),
    more=st.integers(0, 10),
    jitter=st.floats(0, 0.9),
    surprise=st.floats(0, 0.9),
    start=st.integers(0, 23),
    length=st.integers(0, 23),
)


@given(rails, st.integers(0, GRID.size - 1), st.floats(0, 0.999), st.booleans())
def test_only_a_surprise_comes_before_the_shortest_interval_and_none_after_the_longest(
    rails: Rails, chosen: int, luck: float, telemetry: bool
) -> None:
    found = planned(rails, [chosen], luck=luck, telemetry=telemetry)
    due, early = int(found.due[0]), bool(found.overrides[0] & Override.SURPRISE)
    assert 0 <= due - NOW <= rails.longest * rails.unit
    if not early and rails.shortest < rails.longest:
        assert due - NOW >= rails.shortest * rails.unit
    for window in rails.quiet:
        into = (due - window.start) % DAY
        if into < window.length:  # there was no room, neither before nor behind
            assert not early
            latest, earliest = NOW + rails.longest * rails.unit, NOW + rails.shortest * rails.unit
            assert latest - (due - into + window.length) < MINUTE
            if rails.shortest < rails.longest:
                assert due - into - earliest < MINUTE


def test_an_audit_moves_out_of_a_quiet_window_that_passes_midnight() -> None:
    midnight = NOW - NOW % DAY + 3 * DAY
    wait = (midnight + HOUR - NOW) // 3
    rails = replace(REGULAR, unit=wait, quiet=(Window.parse("22:00-06:00"),))
    for luck, hour in ((0.0, 6), (0.5, 10), (0.75, 12)):  # over as long as the window lasts
        found = planned(rails, [GRID.index_of(3, 0.05)], luck=luck)
        assert found.due.tolist() == [midnight + hour * HOUR]
        assert found.overrides.tolist() == [int(Override.QUIET)]


def test_jitter_spreads_audits_over_its_share_of_the_interval() -> None:
    rails = Rails(jitter=0.2, surprise=0.0)
    chosen = [GRID.index_of(5, 0.05)]
    ends = [planned(rails, chosen, luck=luck).due[0] - NOW for luck in (0.0, 0.5, 1.0)]
    assert [end / DAY for end in ends] == pytest.approx([4.0, 5.0, 6.0])


def test_dear_gas_delays_an_audit_but_never_beyond_the_longest_interval() -> None:
    rails = Rails(gas_price_cap=100)
    longest = NOW - 14 * DAY
    audited = np.array([NOW - DAY, longest + 9 * MINUTE, longest + 4 * MINUTE, NOW - 20 * DAY])
    for luck, minutes in ((0.0, [5, 5]), (0.5, [10, 7]), (1.0, [15, 9])):
        waiting, until = hold_for_gas(rails, NOW, 101, audited, np.full((2, 4), luck))
        assert waiting.tolist() == [True, True, False, False]
        assert until[:2].tolist() == [NOW + minute * MINUTE for minute in minutes]
    half = np.full((2, 4), 0.5)
    assert not hold_for_gas(rails, NOW, 100, audited, half)[0].any()
    assert not hold_for_gas(Rails(), NOW, 10**18, audited, half)[0].any()


def test_what_waits_for_cheaper_gas_does_not_wait_into_a_quiet_window() -> None:
    midnight = NOW - NOW % DAY
    rails = Rails(gas_price_cap=100, quiet=(Window(0, 6 * HOUR),))
    rng = np.random.default_rng(1)
    now, audited = midnight - 10 * MINUTE, np.full(10_000, midnight - 3 * DAY)
    waits, until = hold_for_gas(rails, now, 101, audited, rng.random((2, 10_000)))
    assert waits.all()
    assert ((until < midnight) | (until >= midnight + 6 * HOUR)).all()
    assert largest_mass(until) < 0.01


def test_every_override_has_a_reason_and_a_name() -> None:
    assert set(REASONS) == set(Override)
    assert override_names(Override.TELEMETRY | Override.SAMPLE_CAP) == ["telemetry", "sample-cap"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("22-6", "write it as"), ("24:00-01:00", "24 hours"), ("07:00-07:00", "different times")],
)
def test_a_window_that_is_none_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Window.parse(text)


def test_windows_that_touch_are_refused() -> None:
    with pytest.raises(ValueError, match="must not touch"):
        Rails(quiet=(Window.parse("20:00-23:00"), Window.parse("23:00-02:00")))
    with pytest.raises(ValueError, match="must not touch"):
        Rails(quiet=(Window.parse("20:00-02:00"), Window.parse("01:00-03:00")))
    Rails(quiet=(Window.parse("20:00-23:00"), Window.parse("23:30-02:00")))


MANY = 100_000
NIGHT = (Window.parse("22:00-06:00"),)
BREAKS = (Window.parse("01:00-03:00"), Window.parse("12:00-14:30"), Window.parse("23:00-23:30"))
ALL_DAY = (Window.parse("10:00-09:00"),)  # but for an hour
BOUNDS = ((1, 14), (3, 5), (7, 7), (14, 14))


def largest_mass(due: IntArray) -> float:
    """Return the share of the audits that come at the most frequent millisecond."""
    return float(np.unique(due, return_counts=True)[1].max() / len(due))


def drawn(
    rails: Rails,
    interval: int,
    now: int = NOW,
    count: int = MANY,
    seed: int = 1,
    *,
    new: bool = False,
) -> Plan:
    """Plan many audits after the same interval."""
    sound = np.ones(count, np.bool_)
    return plan(
        rails,
        now,
        np.full(count, GRID.index_of(interval, 0.05)),
        telemetry=sound,
        state=sound,
        inside=sound,
        new=sound if new else ~sound,
        recovering=~sound,
        uniforms=np.random.default_rng(seed).random((DRAWS, count)),
    )


@pytest.mark.parametrize("interval", GRID.intervals)
@pytest.mark.parametrize("quiet", [(), NIGHT, BREAKS, ALL_DAY], ids=["", "night", "breaks", "day"])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_no_moment_is_likelier_than_its_neighbours(
    bounds: tuple[int, int], quiet: tuple[Window, ...], interval: int
) -> None:
    """Times are drawn within the bounds and outside quiet windows, never put on an edge.

    Before, of 100,000 audits at intervals 1 and 14 half came at one exact millisecond, and 15 to
    34 % of all audits at the very end of the night.
    """
    shortest, longest = bounds
    rails = Rails(shortest=shortest, longest=longest, quiet=quiet)
    for hour in range(0, 24, 5):
        now = NOW - NOW % DAY + hour * HOUR + 123_456
        due = drawn(rails, interval, now).due
        assert largest_mass(due) < 0.001
        for window in quiet:
            assert np.mean((due - window.stop) % DAY < MINUTE) < 0.025, "at the end of a window"
            assert np.mean((window.start - due) % DAY < MINUTE) < 0.025, "at its beginning"


@pytest.mark.parametrize("interval", GRID.intervals)
@pytest.mark.parametrize("quiet", [(), NIGHT, BREAKS], ids=["", "night", "breaks"])
def test_at_every_time_since_the_last_audit_the_next_one_may_come(
    quiet: tuple[Window, ...], interval: int
) -> None:
    """An hour of the interval in which no audit ever came would be safe to drop data in.

    Before, none ever came in the first 90 % of an interval.
    """
    due = drawn(Rails(quiet=quiet), interval, count=1_000_000).due
    hours = (due - NOW) // HOUR
    came = np.bincount(hours)
    still = len(due) - np.cumsum(came) + came  # audits that had not come before that hour
    for hour in range(int(0.999 * interval * 24)):
        ends = NOW + hour * HOUR, NOW + (hour + 1) * HOUR
        if any((end - window.start) % DAY < window.length for window in quiet for end in ends):
            continue
        hazard = came[hour] / still[hour]
        assert hazard > 0.5 * 0.1 / (interval * 24), hour


@pytest.mark.parametrize("interval", GRID.intervals)
@pytest.mark.parametrize("quiet", [(), NIGHT], ids=["", "night"])
def test_as_many_audits_come_early_as_the_settings_say(
    quiet: tuple[Window, ...], interval: int
) -> None:
    found = drawn(Rails(quiet=quiet), interval)
    early = (found.overrides & Override.SURPRISE) > 0
    assert np.mean(early) == pytest.approx(0.1, rel=0.15)
    assert found.due[early].min() < NOW + 0.01 * interval * DAY
    assert set(GRID.interval_of[found.action[~early]]) == {interval}
    waits = (found.due - NOW)[early] / DAY
    nearest = np.abs(waits[:, np.newaxis] - np.array(GRID.intervals)).min(axis=1)
    told = np.abs(waits - GRID.interval_of[found.action[early]])
    assert np.allclose(told, nearest), "the policy is told what will be carried out"
    assert not (drawn(Rails(surprise=0.0), interval).overrides & Override.SURPRISE).any()


@pytest.mark.parametrize("quiet", [(), NIGHT, BREAKS, ALL_DAY], ids=["", "night", "breaks", "day"])
def test_new_holdings_are_audited_at_random_within_the_first_day(
    quiet: tuple[Window, ...],
) -> None:
    """Before, the policy chose 14 days for all of them at once."""
    found = drawn(Rails(quiet=quiet), 14, new=True)
    waits = found.due - NOW
    assert (found.overrides == int(Override.FIRST)).all()
    assert (found.interval == 1).all()
    assert (waits.min() >= 0) & (waits.max() <= DAY)
    assert largest_mass(found.due) < 0.001
    for window in quiet:
        assert not ((found.due - window.start) % DAY < window.length).any()
    if not quiet:
        hours = np.bincount(waits // HOUR)
        assert hours.min() == pytest.approx(MANY / 24, rel=0.1), "no hour is safe"


def test_a_first_audit_does_not_wait_for_a_window_that_fills_all_its_time() -> None:
    rails = Rails(quiet=ALL_DAY, first=0.01)
    midnight = NOW - NOW % DAY
    found = drawn(rails, 14, midnight, new=True)
    assert (found.due - midnight).max() <= 0.01 * DAY


def test_the_first_audit_can_be_left_to_the_policy() -> None:
    found = planned(replace(REGULAR, first=0.0), [GRID.index_of(14, 0.05)], new=True)
    assert found.due.tolist() == [NOW + 14 * DAY]
    assert found.overrides.tolist() == [0]


def test_after_a_failure_the_interval_is_short_whatever_the_policy_chose() -> None:
    rails = replace(REGULAR, recovery=3)
    chosen = [GRID.index_of(interval, 0.05) for interval in (1, 3, 14)]
    found = planned(rails, chosen, recovering=True)
    assert ((found.due - NOW) / DAY).tolist() == [1.0, 3.0, 3.0]
    assert found.overrides.tolist() == [0, 0, int(Override.RECOVERY)]
    assert found.ratio.tolist() == [0.05] * 3
    assert found.action.tolist() == [chosen[0], chosen[1], chosen[1]]


def test_recovery_stays_within_the_bounds_on_the_interval() -> None:
    rails = replace(REGULAR, shortest=5, longest=7, recovery=1)
    found = planned(rails, [GRID.index_of(14, 0.05), GRID.index_of(1, 0.05)], recovering=True)
    assert ((found.due - NOW) / DAY).tolist() == [5.0, 5.0]
    assert found.overrides.tolist() == [int(Override.RECOVERY), int(Override.SHORTEST)]


@pytest.mark.parametrize("surprise", [0.0, 0.05, 0.3])
def test_plans_count_the_audits_that_come_early(surprise: float) -> None:
    rails = Rails(surprise=surprise)
    waits = (drawn(rails, 5).due - NOW) / DAY
    assert 5 / waits.mean() == pytest.approx(rails.audits_per_interval, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("interval", GRID.intervals)
@pytest.mark.parametrize("quiet", [(), NIGHT], ids=["", "night"])
def test_a_node_that_has_its_data_only_near_expected_audits_is_caught_within_a_year(
    quiet: tuple[Window, ...], interval: int
) -> None:
    """The node drops its data after each audit, and has it again when the next is expected.

    It knows interval and rails, and is back with its data at 0.9 of the interval. Before, it was
    caught by none of 35,658 audits in 100 years at interval 1, of 5,267 at 7, of 2,712 at 14. Now a
    year catches it always, on the median after 8 days at interval 1 and 43 at 7; at 14 in 92 to
    97 of 100 years, after 93 days.
    """
    years, end = 200, NOW + 365 * DAY
    caught = np.zeros(years, np.bool_)
    audited = np.full(years, NOW)
    for turn in range(3 * 365):
        going = np.flatnonzero(audited < end)
        if not len(going):
            break
        for now in np.unique(audited[going] // HOUR):  # those that were audited in the same hour
            some = going[audited[going] // HOUR == now]
            wait = drawn(Rails(quiet=quiet), interval, int(now) * HOUR, len(some), turn).due
            wait -= int(now) * HOUR
            caught[some] |= wait < 0.9 * interval * DAY
            audited[some] += np.maximum(wait, 1)
    assert (audited >= end).all()
    assert caught.mean() > (0.99 if interval < 7 else 0.85)


def test_audits_that_wait_for_cheaper_gas_spread() -> None:
    """Before, all that waited came at one millisecond, and at the longest interval's very end."""
    rails, rng = Rails(gas_price_cap=100), np.random.default_rng(1)
    longest = 14 * DAY
    audited = np.full(MANY, NOW - longest + 3 * HOUR)
    now = np.full(MANY, NOW)
    ended = np.zeros(MANY, np.int64)
    _, once = hold_for_gas(rails, NOW, 101, audited, rng.random((2, MANY)))
    assert largest_mass(once) < 0.001
    for _ in range(100):
        ahead = now - NOW  # each is looked at in a time of its own
        waits, until = hold_for_gas(rails, NOW, 101, audited - ahead, rng.random((2, MANY)))
        ended = np.where(~waits & (ended == 0), now, ended)
        now = np.where(waits, until + ahead, now)
    assert (ended > 0).all()
    assert (ended <= audited + longest).all()
    assert largest_mass(ended) < 0.001
