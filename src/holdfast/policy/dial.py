"""The dial of a learned policy: one network, trained over many prices of misses and latency.

Every setting was validated in simulation, so given ceilings select the cheapest that keeps them.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from holdfast.errors import InputError
from holdfast.model.arrays import Float32Array, FloatArray
from holdfast.policy.lagrangian import Ceilings

# The range of each of a dial's fields, in their order.
RANGES = ((0.01, 100.0), (0.0001, 1.0), (0.01, 1.0), (1.0, 100.0))
SIGNALS = len(RANGES)
_LOW, _HIGH = np.log(np.array(RANGES)).T

# A dial is chosen only if it stayed this far below the ceilings in validation. The miss rate of
# 4,000 episodes of `paper` has a relative standard deviation of 0.9 %, the latency 0.2 %.
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
    scaled: Float32Array = xp.astype(2.0 * share - 1.0, xp.float32)
    return scaled


@dataclass(frozen=True)
class ValidatedDial:
    """A dial and what it achieved in its validation episodes."""

    dial: Dial
    gas: float
    miss_rate: float
    latency: float
    episodes: int

    def __post_init__(self) -> None:
        if not (0 <= self.miss_rate <= 1 and 0 <= self.gas < np.inf and 0 <= self.latency < np.inf):
            raise InputError(
                "a dial was validated with impossible figures: a miss rate of "
                f"{self.miss_rate:g}, {self.gas:g} gas, a latency of {self.latency:g}"
            )


def with_margins(ceilings: Ceilings) -> Ceilings:
    """Return what a dial must achieve in validation to keep these ceilings."""
    return ceilings.scale(1 - MISS_MARGIN, 1 - LATENCY_MARGIN)


def choose_dial(dials: Sequence[ValidatedDial], ceilings: Ceilings) -> Dial:
    """Return the cheapest dial that kept the ceilings in validation, with a margin."""
    aim = with_margins(ceilings)
    max_latency = np.inf if aim.latency is None else aim.latency
    fast_enough = [dial for dial in dials if dial.latency <= max_latency]
    valid = [dial for dial in fast_enough if dial.miss_rate <= aim.miss_rate]
    if valid:
        return min(valid, key=lambda dial: dial.gas).dial
    if fast_enough:
        lowest = min(dial.miss_rate for dial in fast_enough)
        reached = f"the lowest miss rate {'' if max_latency == np.inf else 'at that latency '}is"
        reason = f"{reached} {lowest:.3g}"
    elif dials:
        reason = f"the lowest latency is {min(dial.latency for dial in dials):.3g}"
    else:
        reason = "none was validated"
    raise InputError(f"no dial stayed below {ceilings} in validation: {reason}")


def dial_by_number(dials: Sequence[ValidatedDial], number: int) -> Dial:
    """Return the dial with this number, counted from 1."""
    if not 1 <= number <= len(dials):
        raise InputError(f"there is no dial {number}: they are numbered 1 to {len(dials)}")
    return dials[number - 1].dial
