"""A measured or inferred figure with its 95 % interval, and its form in JSON."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Self

NORMAL_95 = 1.959964  # standard deviations on either side


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval; not a number where nothing could be measured."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Figure:
    """An estimate as JSON holds it: null for what is not a finite number."""

    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, estimate: Estimate, per: float = 1.0) -> Self:
        scaled = {name: number / per for name, number in asdict(estimate).items()}
        return cls(**finite(scaled))


def finite(data: Any) -> Any:
    """Return numbers, alone or in a mapping, with None for each that is not finite: JSON has none.

    Keys become text.
    """
    if isinstance(data, dict):
        return {str(key): finite(value) for key, value in data.items()}
    return data if math.isfinite(data) else None
