"""The dial of a learned policy: one network, trained over many prices of misses and latency.

Each setting was validated in simulation, so that ceilings choose the cheapest that keeps them.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from holdfast.errors import InputError
from holdfast.model.arrays import Float32Array, FloatArray
from holdfast.policy.lagrangian import Ceilings

# What the signals of a dial span, in the order of its fields.
RANGES = ((0.01, 100.0), (0.0001, 1.0), (0.01, 1.0), (1.0, 100.0))
SIGNALS = len(RANGES)
_LOW, _HIGH = np.log(np.array(RANGES)).T

# A dial is chosen only if validation found it so far below the ceilings. The miss rate of 4,000
# episodes of `paper` has a standard deviation of 0.9 % of itself, the latency one of 0.2 %.
MISS_MARGIN = 0.04
LATENCY_MARGIN = 0.01


@dataclass(frozen=True)
class Dial:
    """Prices an audit as gas + nu (P(miss) - rho) [c > 0] + kappa (dt [c > 0] - latency detected).

    Here nu is `miss_price`, kappa is `latency_price`, and `rho` and `latency` are the ceilings.
    """

    miss_price: float
    latency_price: float
    rho: float
    latency: float

    def __post_init__(self) -> None:
        if not all(0 < value < np.inf for value in astuple(self)):
            raise InputError(
                f"the prices and ceilings of a dial must be positive, not as in {self}"
            )

    def signals(self) -> Float32Array:
        return signals(np.array(astuple(self)))


def signals(dials: FloatArray) -> Float32Array:
    """Return what the network sees of dials (..., 4): from -1 to 1 over `RANGES`, by logarithm.

    Training calls it on arrays of JAX, hence the array's own namespace.
    """
    xp = dials.__array_namespace__()
    share = (xp.log(dials) - _LOW) / (_HIGH - _LOW)
    seen: Float32Array = xp.astype(2.0 * share - 1.0, xp.float32)
    return seen


@dataclass(frozen=True)
class Validated:
    """What a dial achieved over so many episodes of validation."""

    dial: Dial
    gas: float
    miss_rate: float
    latency: float
    episodes: int

    def __post_init__(self) -> None:
        if not (0 <= self.miss_rate <= 1 and 0 <= self.gas < np.inf and 0 <= self.latency < np.inf):
            raise InputError(
                "a dial was validated with figures that can't be: a miss rate of "
                f"{self.miss_rate:g}, {self.gas:g} gas, a latency of {self.latency:g}"
            )


def choose(dials: Sequence[Validated], ceilings: Ceilings) -> Dial:
    """Return the cheapest dial that kept the ceilings in validation, with a margin."""
    aim = ceilings.scaled(1 - MISS_MARGIN, 1 - LATENCY_MARGIN)
    most = np.inf if aim.latency is None else aim.latency
    swift = [each for each in dials if each.latency <= most]
    kept = [each for each in swift if each.miss_rate <= aim.miss_rate]
    if kept:
        return min(kept, key=lambda each: each.gas).dial
    if swift:
        lowest = min(each.miss_rate for each in swift)
        reached = f"the lowest miss rate {'' if most == np.inf else 'at that latency '}is"
        reason = f"{reached} {lowest:.3g}"
    elif dials:
        reason = f"the lowest latency is {min(each.latency for each in dials):.3g}"
    else:
        reason = "none was validated at all"
    raise InputError(f"no dial stayed below {ceilings} in validation: {reason}")


def numbered(dials: Sequence[Validated], number: int) -> Dial:
    """Return the dial of that number, counted from 1."""
    if not 1 <= number <= len(dials):
        raise InputError(f"there is no dial {number}: they are numbered 1 to {len(dials)}")
    return dials[number - 1].dial
