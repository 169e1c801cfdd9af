"""Coverage and confidence of a checked holding in words, as commands and pages write them."""

import math
from collections.abc import Callable

from holdfast.control.queries.coverage import Coverage
from holdfast.durations import DAY, format_duration
from holdfast.words import ago, plural, span

CAVEAT = "This is about the data as they were read: damage since then is not in it."


def describe_bound(coverage: Coverage, now: int) -> str:
    """Say how much may be damaged, in the holding's own unit, and as of when."""
    bound, unit = coverage.bound, coverage.unit
    window = format_duration(bound.within)
    known = ""
    if bound.damaged:
        verb = "is" if bound.damaged == 1 else "are"
        known = f"{plural(bound.damaged, unit)} {verb} damaged, and "
    if bound.share is None or bound.at_most is None:
        last = _describe_last(coverage, now)
        return f"{known}no bound: {coverage.kind} chooses what it reads; {last}"
    if not bound.read:
        return f"no bound: no {unit} was read within {window}"
    since = "" if bound.since is None else f", the first {ago(bound.since, now)}"
    all_ = plural(coverage.units, unit)
    if bound.read == coverage.units:
        damaged = f"{bound.damaged:,}" if bound.damaged else "none"
        verb = "is" if bound.damaged < 2 else "are"
        return f"{damaged} of {all_} {verb} damaged: all were read within {window}{since}"
    read = f"{bound.read:,} of {coverage.units:,} were read within {window}{since}"
    return f"{known}at most {percent_up(bound.share)} of the {unit}s are damaged, at 95 %: {read}"


def describe_coverage(coverage: Coverage) -> str:
    """Say which share was verified within some days, and how old the oldest unit is."""
    shares = ", ".join(
        f"{percent_down(share)} within {plural(days, 'day')}"
        for days, share in coverage.verified.items()
    )
    if coverage.oldest is None:
        return f"verified: {shares}"
    age = span(coverage.oldest)
    oldest = f"the oldest {coverage.unit} {age} ago"
    if coverage.never:
        oldest = f"{coverage.never:,} never, the oldest {coverage.unit} waits {age}"
    return f"verified: {shares}; {oldest}"


def describe_promise(coverage: Coverage) -> str | None:
    """Say whether every unit is read as often as the owner asked for."""
    if coverage.verify_within is None:
        return None
    promise = f"every {coverage.unit} within {format_duration(coverage.verify_within)}"
    if not coverage.behind or coverage.oldest is None:
        return f"{promise}: kept"
    return f"{promise}: NOT kept, late by {span(coverage.oldest - coverage.verify_within)}"


def percent_up(share: float) -> str:
    """Return an upper bound in per cent, rounded up to two figures."""
    return _percent(share, math.ceil)


def percent_down(share: float) -> str:
    """Return a share in per cent, rounded down to two figures: less than all is never 100 %."""
    return _percent(share, math.floor)


def _percent(share: float, round_: Callable[[float], int]) -> str:
    percent = 100 * share
    if not 0 < percent < 100:
        return f"{percent:.0f} %"
    decimals = max(1 - math.floor(math.log10(percent)), 0)
    scaled = round_(round(percent * 10**decimals, 6))  # 1.9 / 100 * 100 is 1.9000000000000001
    return f"{scaled / 10**decimals:g} %"


def _describe_last(coverage: Coverage, now: int) -> str:
    last = coverage.last
    if last is None:
        return "no check has read anything yet"
    of = f"{last.read:,} of {plural(coverage.units, coverage.unit)}"
    return f"the last check read {of}, {ago(last.ended, now, 1 if now - last.ended > DAY else 2)}"
