"""The rails: what no policy can get around."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.rails import (
    DAY,
    FAIL_SAFE,
    HOUR,
    REASONS,
    Override,
    Plan,
    Rails,
    Window,
    held,
    names,
    plan,
)
from holdfast.errors import InputError
from holdfast.model.action import GRID

NOW = 1_800_000_000_000


def planned(
    rails: Rails,
    chosen: list[int],
    *,
    telemetry: bool = True,
    state: bool = True,
    inside: bool = True,
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
        luck=np.full(size, luck),
    )


def test_what_the_rails_allow_is_left_alone() -> None:
    found = planned(Rails(jitter=0.0), [GRID.index_of(7, 0.05)])
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
    found = planned(Rails(jitter=0.0), [24], telemetry=telemetry, state=state, inside=inside)
    assert (found.due[0], found.ratio[0]) == (NOW + DAY, 0.10)
    assert found.overrides.tolist() == [int(reason)]
    assert found.action.tolist() == [GRID.index_of(1, 0.10)]


def test_intervals_are_clipped_and_the_nearest_action_is_told_to_the_policy() -> None:
    rails = Rails(shortest=2, longest=6, jitter=0.0)
    found = planned(rails, [GRID.index_of(1, 0.2), GRID.index_of(5, 0.2), GRID.index_of(14, 0.2)])
    assert ((found.due - NOW) / DAY).tolist() == [2.0, 5.0, 6.0]
    assert found.overrides.tolist() == [int(Override.SHORTEST), 0, int(Override.LONGEST)]
    assert [GRID.action(a).interval for a in found.action] == [1, 5, 5]


rails = st.builds(
    lambda shortest, more, jitter, start, length: Rails(
        shortest=shortest,
        longest=shortest + more,
        jitter=jitter,
        quiet=(Window(start * HOUR, (start + length) % 24 * HOUR),) if length else (),
    ),
    shortest=st.integers(1, 10),
    more=st.integers(0, 10),
    jitter=st.floats(0, 0.9),
    start=st.integers(0, 23),
    length=st.integers(0, 23),
)


@given(rails, st.integers(0, GRID.size - 1), st.floats(0, 0.999), st.booleans())
def test_no_audit_leaves_the_bounds(
    rails: Rails, chosen: int, luck: float, telemetry: bool
) -> None:
    found = planned(rails, [chosen], luck=luck, telemetry=telemetry)
    wait = (int(found.due[0]) - NOW) / rails.unit
    assert rails.shortest - 1e-6 <= wait <= rails.longest + 1e-6
    quiet = [
        window for window in rails.quiet if (found.due[0] - window.start) % DAY < window.length
    ]
    if quiet:  # it fitted neither before nor behind
        (window,) = quiet
        into = int(found.due[0] - window.start) % DAY
        assert found.due[0] - into + window.length > NOW + rails.longest * rails.unit
        assert found.due[0] - into - 1 < NOW + rails.shortest * rails.unit


def test_an_audit_moves_out_of_a_quiet_window_that_passes_midnight() -> None:
    midnight = NOW - NOW % DAY + 3 * DAY
    rails = Rails(jitter=0.0, quiet=(Window.parse("22:00-06:00"),))
    wait = (midnight + HOUR - NOW) / DAY / 3
    found = plan(
        Rails(jitter=0.0, unit=int(wait * DAY), quiet=rails.quiet),
        NOW,
        np.array([GRID.index_of(3, 0.05)]),
        telemetry=np.ones(1, np.bool_),
        state=np.ones(1, np.bool_),
        inside=np.ones(1, np.bool_),
        luck=np.full(1, 0.5),
    )
    assert found.due.tolist() == [midnight + 6 * HOUR]
    assert found.overrides.tolist() == [int(Override.QUIET)]


def test_jitter_spreads_audits_over_its_share_of_the_interval() -> None:
    rails = Rails(jitter=0.2)
    chosen = [GRID.index_of(5, 0.05)]
    ends = [planned(rails, chosen, luck=luck).due[0] - NOW for luck in (0.0, 0.5, 1.0)]
    assert [end / DAY for end in ends] == pytest.approx([4.0, 5.0, 6.0])


def test_dear_gas_delays_an_audit_but_never_beyond_the_longest_interval() -> None:
    rails = Rails(gas_price_cap=100)
    audited = np.array([NOW - DAY, NOW - 14 * DAY + HOUR // 12, NOW - 14 * DAY, NOW - 20 * DAY])
    waiting, until = held(rails, NOW, 101, audited)
    assert waiting.tolist() == [True, True, False, False]
    assert until[:2].tolist() == [NOW + HOUR // 6, NOW + HOUR // 12]
    assert not held(rails, NOW, 100, audited)[0].any()
    assert not held(Rails(), NOW, 10**18, audited)[0].any()


def test_every_override_has_a_reason_and_a_name() -> None:
    assert set(REASONS) == set(Override)
    assert names(Override.TELEMETRY | Override.SAMPLE_CAP) == ["telemetry", "sample-cap"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("22-6", "write it as"), ("24:00-01:00", "24 hours"), ("07:00-07:00", "different times")],
)
def test_a_window_that_is_none_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Window.parse(text)


def test_windows_that_touch_are_refused() -> None:
    with pytest.raises(InputError, match="must not touch"):
        Rails(quiet=(Window.parse("20:00-23:00"), Window.parse("23:00-02:00")))
    with pytest.raises(InputError, match="must not touch"):
        Rails(quiet=(Window.parse("20:00-02:00"), Window.parse("01:00-03:00")))
    Rails(quiet=(Window.parse("20:00-23:00"), Window.parse("23:30-02:00")))
