"""The paper's Lagrangian multiplier (Eq. lambda): dual ascent on the miss rate, once an episode."""

from dataclasses import dataclass, replace

from holdfast.learn.settings import setting


@dataclass(frozen=True)
class Multiplier:
    """The price of a miss. With a step of zero it is fixed."""

    value: float = 10.0
    ceiling: float = 0.05  # rho, the miss rate above which the price rises
    step: float = 0.0  # eta
    max_value: float = setting("most", 200.0)

    def after(self, misses: int, detections: int) -> "Multiplier":
        """Return the multiplier after an episode; it stays if the episode had no encounter."""
        encounters = misses + detections
        if not encounters:
            return self
        excess = misses / encounters - self.ceiling
        return self.with_value(min(max(self.value + self.step * excess, 0.0), self.max_value))

    def with_value(self, value: float) -> "Multiplier":
        return replace(self, value=value)


def adaptive(rho: float = 0.05) -> Multiplier:
    """Return the paper's multiplier: from 10, with steps of 5, up to 200."""
    return Multiplier(ceiling=rho, step=5.0)
