"""An inferred figure with its 95 % interval."""

from dataclasses import dataclass

NORMAL_95 = 1.959964  # standard deviations on either side


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float
    high: float
