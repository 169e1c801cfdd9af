"""Forecasts how fixed rules would have handled the same faults, without running them.

A rule audits every holding at its interval from the beginning, and nothing is repaired before it
detects something. The chance that an audit finds the blocks that are bad by then is the exact
probability of `holdfast.model.detection`.
"""

from dataclasses import dataclass

from holdfast.demo.faults import Fault, Outage
from holdfast.durations import DAY
from holdfast.model.action import GRID, Action
from holdfast.model.detection import detection_probability, gas, samples
from holdfast.policy.rules import Constant, fixed_high, fixed_low


@dataclass(frozen=True)
class Forecast:
    """When a rule would detect a fault; day and bad blocks are means over its detections."""

    probability: float  # by the end
    day: float | None  # none where it can't be detected
    bad: float | None


@dataclass(frozen=True)
class Rule:
    name: str
    action: Action

    @classmethod
    def of(cls, name: str, policy: Constant) -> "Rule":
        return cls(name, GRID.action(policy.action))

    def audits(self, span: int) -> int:
        """Return how often it would have audited a holding by then."""
        return span // (self.action.interval * DAY)

    def model_gas(self, blocks: int) -> float:
        """Return the gas of one audit in the model's unit, an audit of every block."""
        return float(gas(self._sampled(blocks), blocks))

    def forecast(self, fault: Fault, span: int, blocks: int) -> Forecast:
        detected, days, bad = 0.0, 0.0, 0.0
        for number in range(1, self.audits(span) + 1):
            at = number * self.action.interval * DAY
            here = (1.0 - detected) * self._notices(fault, at, blocks)
            detected += here
            days += here * at / DAY
            bad += here * len(fault.damaged(at))
        if detected == 0:
            return Forecast(0.0, None, None)
        return Forecast(detected, days / detected, bad / detected)

    def _notices(self, fault: Fault, at: int, blocks: int) -> float:
        if isinstance(fault, Outage):
            return float(fault.begins <= at < fault.ends)
        bad = len(fault.damaged(at))
        return float(detection_probability(bad, self._sampled(blocks), blocks))

    def _sampled(self, blocks: int) -> int:
        return int(samples(self.action.ratio, blocks, blocks))


FIXED_HIGH = Rule.of("fixed-high", fixed_high())
FIXED_LOW = Rule.of("fixed-low", fixed_low())
