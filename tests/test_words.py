"""Counts, lengths of time and moments in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.durations import DAY, HOUR, MINUTE, SECOND
from holdfast.words import ago, ahead, amount, distance, money, plural, size, span, when

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (0, "0 ms"),
        (-228, "0 ms"),
        (40, "40 ms"),
        (SECOND, "1 s"),
        (4_230, "4.2 s"),
        (9_960, "10 s"),
        (44_898, "45 s"),
        (59_900, "1 min"),
        (90 * SECOND, "1 min 30 s"),
        (2 * HOUR, "2 h"),
        (2 * HOUR + 29 * SECOND, "2 h"),
        (2 * HOUR + 31 * SECOND, "2 h 1 min"),
        (DAY - 20 * SECOND, "1 d"),
        (14 * DAY + 3 * HOUR + 5 * MINUTE, "14 d 3 h"),
    ],
)
def test_a_length_of_time_is_rounded_to_its_two_largest_units(milliseconds: int, said: str) -> None:
    assert span(milliseconds) == said


@given(st.integers(-10 * DAY, 1000 * DAY), st.sampled_from([1, 2]))
def test_no_length_of_time_is_negative_or_has_milliseconds_beside_seconds(
    milliseconds: int, units: int
) -> None:
    parts = span(milliseconds, units).split()
    assert 2 <= len(parts) <= 2 * units
    assert all(float(number) >= 0 for number in parts[::2])
    assert parts[1] != "s" or "ms" not in parts


def test_what_a_clock_puts_into_the_future_was_just_now() -> None:
    assert ago(NOW + 228, NOW) == "just now"
    assert ago(NOW - 999, NOW) == "just now"
    assert ago(NOW - 90 * SECOND, NOW) == "1 min 30 s ago"
    assert ahead(NOW - 1, NOW) == ahead(NOW, NOW) == "now"
    assert ahead(NOW + 44_898, NOW) == "in 45 s"


def test_a_distance_has_one_unit_in_either_direction() -> None:
    assert distance(NOW, NOW) == distance(NOW + 500, NOW) == "just now"
    assert distance(NOW - 3 * HOUR - MINUTE, NOW) == "3 h ago"
    assert distance(NOW + 2 * DAY, NOW) == "in 2 d"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        *((0, "0 bytes"), (1023, "1,023 bytes"), (1024, "1 KiB"), (2 << 30, "2 GiB")),
        *(
            (1.25 * (1 << 20), "1.25 MiB"),
            (1023.4 * (1 << 20), "1,023 MiB"),
            (3 << 40, "3 TiB"),
            (5 << 50, "5,120 TiB"),
        ),
    ],
)
def test_a_number_of_bytes_has_a_binary_unit(number: float, said: str) -> None:
    assert size(number) == said


def test_one_thing_has_the_singular() -> None:
    assert plural(1, "alert") == "1 alert"
    assert plural(0, "alert") == "0 alerts"
    assert plural(2000, "leaf", "leaves") == "2,000 leaves"


def test_moments_are_in_utc_as_far_as_the_calendar_goes() -> None:
    assert when(0) == "1970-01-01 00:00:00 UTC"
    assert when(1234) == "1970-01-01 00:00:01.234 UTC"
    assert when(2**53 - 1) == "9007199254740991 ms after 1970"


@pytest.mark.parametrize(
    ("figure", "words"), [(0, "0.00"), (0.00042, "0.00042"), (0.5, "0.5"), (1234.5, "1,234.50")]
)
def test_a_small_price_is_not_rounded_to_nothing(figure: float, words: str) -> None:
    assert money(figure) == words


def test_bytes_that_nobody_knows_are_left_out() -> None:
    assert amount(299, "paper", 0) == "299 papers"
    assert amount(1, "pack", 2048) == "1 pack of 2 KiB"
