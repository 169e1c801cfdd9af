"""The dial of a learned policy: one network, trained over many prices of misses and latency.

Each setting was validated in simulation, so that ceilings choose the cheapest that keeps them.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from holdfast.errors import InputError
from holdfast.model.arrays import Float32Array, FloatArray
from holdfast.policy.lagrangian import Ceilings

# Where training draws each setting from, in the order of the fields of `Dial`.
RANGES = ((0.3, 300.0), (0.001, 1.0), (0.01, 0.3), (3.0, 20.0))
SIGNALS = len(RANGES)
_LOW, _HIGH = np.log(np.array(RANGES)).T


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


def choose(dials: Sequence[Validated], ceilings: Ceilings) -> Dial:
    """Return the cheapest dial that kept the ceilings in validation."""
    most = np.inf if ceilings.latency is None else ceilings.latency
    swift = [each for each in dials if each.latency <= most]
    kept = [each for each in swift if each.miss_rate <= ceilings.miss_rate]
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
