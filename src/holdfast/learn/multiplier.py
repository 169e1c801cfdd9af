"""The price of a miss, which adapts to the miss rate once an episode.

The paper's multiplier (Eq. lambda) is dual ascent. `PidMultiplier` is a PID controller.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

from holdfast.learn.settings import setting


@dataclass(frozen=True)
class Multiplier:
    """The price of a miss. With a step of zero it is fixed."""

    value: float = 10.0
    ceiling: float = 0.05  # rho, the miss rate above which the price rises
    step: float = 0.0  # eta
    max_value: float = setting("most", 200.0)

    def after(self, misses: int, detections: int) -> Self:
        """Return the multiplier after an episode; it stays if the episode had no encounter."""
        encounters = misses + detections
        if not encounters:
            return self
        excess = misses / encounters - self.ceiling
        return self.with_value(min(max(self.value + self.step * excess, 0.0), self.max_value))

    def with_value(self, value: float) -> Self:
        return replace(self, value=value)

    def state(self) -> Any:
        """Return what `restore` needs, as JSON holds it."""
        return self.value

    def restore(self, state: Any) -> Self:
        return self.with_value(state)


@dataclass(frozen=True)
class PidMultiplier(Multiplier):
    """The PID controller of Stooke, Achiam and Abbeel (2020), "Responsive Safety in RL".

    The integral part is the paper's multiplier. The other two parts see a moving average of the
    miss rate, because that of a single episode is a matter of luck. Their gains have OmniSafe's
    ratios to that of the integral.
    """

    proportional_gain: float = 50.0
    derivative_gain: float = 5.0
    smoothing: float = 0.95  # weight of the past in the moving average
    delay: int = 10  # episodes over which the derivative is taken
    integral: float | None = None  # at first the value
    averages: tuple[float, ...] = ()  # of the last episodes with an encounter, newest last

    def after(self, misses: int, detections: int) -> Self:
        encounters = misses + detections
        if not encounters:
            return self
        rate = misses / encounters
        past = self.averages[-1] if self.averages else rate
        average = self.smoothing * past + (1 - self.smoothing) * rate
        averages = (*self.averages, average)[-self.delay - 1 :]
        integral = self.value if self.integral is None else self.integral
        integral += self.step * (rate - self.ceiling)
        integral = min(max(integral, 0.0), self.max_value)
        value = (
            integral
            + self.proportional_gain * (average - self.ceiling)
            + self.derivative_gain * max(average - averages[0], 0.0)
        )
        return replace(
            self,
            value=min(max(value, 0.0), self.max_value),
            integral=integral,
            averages=averages,
        )

    def state(self) -> Any:
        return {"value": self.value, "integral": self.integral, "averages": list(self.averages)}

    def restore(self, state: Any) -> Self:
        return replace(self, **state | {"averages": tuple(state["averages"])})


def adaptive(rho: float = 0.05) -> Multiplier:
    """Return the paper's multiplier: from 10, with steps of 5, up to 200."""
    return Multiplier(ceiling=rho, step=5.0)
