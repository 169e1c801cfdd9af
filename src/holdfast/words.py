"""Counts, lengths of time and moments in words, as commands, pages and messages write them."""

from datetime import UTC, datetime, timedelta

from holdfast.durations import DAY, HOUR, MINUTE, SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_UNITS = (("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND))
EXACT_BELOW = 10 * SECOND  # a shorter time has a decimal


def plural(number: int, one: str, many: str | None = None) -> str:
    """Return a count and its noun, as in "1 alert" and "2,000 alerts"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def span(milliseconds: int, units: int = 2) -> str:
    """Return a length of time by its largest units, rounded; a negative one counts as none."""
    length = max(milliseconds, 0)
    if length < SECOND:
        return f"{length} ms"
    if length < EXACT_BELOW:
        tenths = round(length / 100)
        return f"{tenths / 10:g} s"
    largest = next(at for at, (_, size) in enumerate(_UNITS) if length >= size)
    smallest = _UNITS[min(largest + units, len(_UNITS)) - 1][1]
    length = (length + smallest // 2) // smallest * smallest
    parts: list[tuple[int, str]] = []
    for name, size in _UNITS:
        count, length = divmod(length, size)
        if count or parts:
            parts.append((count, name))
    return " ".join(f"{count} {name}" for count, name in parts[:units] if count)


def size(number: float) -> str:
    """Return a number of bytes in binary units."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    at = next((at for at in range(4) if number < 1024 ** (at + 1)), 4)
    figure = number / 1024**at
    return f"{figure:,.0f} {units[at]}" if figure >= 100 or not at else f"{figure:.3g} {units[at]}"


def amount(units: int, unit: str, length: int) -> str:
    """Return so many units and their bytes, if these are known."""
    return f"{plural(units, unit)} of {size(length)}" if length else plural(units, unit)


def money(figure: float) -> str:
    """Return a price with cents, or a small one with two figures."""
    return f"{figure:,.2f}" if figure >= 1 or not figure else f"{figure:.2g}"


def ago(moment: int, now: int, units: int = 2) -> str:
    """Return how long ago a moment was; one that a clock puts into the future is just now."""
    return "just now" if now - moment < SECOND else f"{span(now - moment, units)} ago"


def ahead(moment: int, now: int, units: int = 2) -> str:
    """Return how far ahead a moment is; one that has passed is now."""
    return "now" if moment <= now else f"in {span(moment - now, units)}"


def distance(moment: int, now: int) -> str:
    """Return how far away a moment is, in either direction, by its largest unit."""
    return ahead(moment, now, 1) if moment - now >= SECOND else ago(moment, now, 1)


def when(milliseconds: int) -> str:
    """Return a moment in UTC."""
    if milliseconds > _LAST:
        return f"{milliseconds} ms after 1970"
    time = _EPOCH + timedelta(milliseconds=milliseconds)
    return time.isoformat(" ", "milliseconds").removesuffix("+00:00").removesuffix(".000") + " UTC"
