"""How pages write figures, moments and names. The templates escape them."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from holdfast.control.queries.coverage_words import (
    describe_bound,
    describe_promise,
    percent_down,
    percent_up,
)
from holdfast.control.scheduling import guardrails
from holdfast.durations import format_duration
from holdfast.words import distance, plural, size, span, when

LONGEST_NAME = 80
SMALLEST_SHARE = 1e-4  # that is written with figures
TIED = "\N{NO-BREAK SPACE}"
_REASONS = {guardrails.override_names(kind)[0]: text for kind, text in guardrails.REASONS.items()}


def name(text: str) -> str:
    """Return a name of bounded length in which every character can be seen."""
    # The rest shows nothing, or turns the direction of what follows.
    seen = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in text[: LONGEST_NAME + 1]
    )
    return seen if len(seen) <= LONGEST_NAME else f"{seen[: LONGEST_NAME - 1]}…"


def iso(moment: int) -> str:
    """Return a moment as HTML's `time` wants it."""
    return when(moment).removesuffix(" UTC").replace(" ", "T") + "Z"


def minute(moment: int) -> str:
    return when(moment)[:16]


def day(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment / 1000, UTC):%-d %b}"


def count(number: float) -> str:
    return f"{number:,.0f}"


def hours(number: float) -> str:
    return f"{number:,.1f}".removesuffix(".0")


def amount(number: float) -> str:
    """Return a number with as many figures as help."""
    size = abs(number)
    if size >= 1e6:
        return f"{number / 1e6:,.2f}{TIED}M"
    if size >= 100 or number == round(number):
        return f"{number:,.0f}"
    return f"{number:.3g}"


def percent(share: float) -> str:
    """Return a share in per cent, with two figures below one per cent."""
    if 0 < share < SMALLEST_SHARE:
        return f"<{TIED}{100 * SMALLEST_SHARE:.2g}{TIED}%"
    if 0 < share < 0.01:
        return f"{100 * share:.2g}{TIED}%"
    return f"{100 * share:.3g}{TIED}%"


def bound(share: float) -> str:
    """Return an upper bound in per cent; a tiny one is rounded up."""
    return percent(max(share, SMALLEST_SHARE) if share else share)


def sentence(words: str) -> str:
    """Return words as a sentence of their own."""
    return f"{words[:1].upper()}{words[1:]}."


def short(hash_: str) -> str:
    return hash_.removeprefix("0x")[:12]


def reason(override: str) -> str:
    return _REASONS.get(override, override)


def queried(values: Mapping[str, object]) -> str:
    """Return what a link asks for, without what is empty."""
    return urlencode({key: value for key, value in values.items() if value})


FILTERS: Mapping[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(name, iso, minute, day, distance, count, amount, percent, bound),
        *(hours, short, reason, sentence, queried),
    )
} | {
    "things": plural,
    "lasted": span,
    "size": size,
    "bound_words": describe_bound,
    "promise_words": describe_promise,
    "percent_down": percent_down,
    "percent_up": percent_up,
    "duration": format_duration,
}
