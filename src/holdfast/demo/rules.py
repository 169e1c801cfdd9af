"""What fixed rules would have made of the same harm: computed, for nobody lived through it.

A rule audits every holding at its interval from the beginning, and nobody repairs before it finds
something. How likely each of its audits finds the blocks that would be bad by then is the exact
probability of `holdfast.model.detection`.
"""

from dataclasses import dataclass

from holdfast.control.scheduling.guardrails import DAY
from holdfast.demo.faults import Harm, Outage
from holdfast.model.action import GRID, Action
from holdfast.model.detection import detection_probability, gas, samples
from holdfast.policy.rules import Constant, fixed_high, fixed_low


@dataclass(frozen=True)
class Foreseen:
    """How a rule would have found a harm; day and bad blocks are means over when it does."""

    probability: float  # by the end
    day: float | None  # none where it can't be found at all
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

    def foresee(self, harm: Harm, span: int, blocks: int) -> Foreseen:
        found, days, bad = 0.0, 0.0, 0.0
        for number in range(1, self.audits(span) + 1):
            at = number * self.action.interval * DAY
            here = (1.0 - found) * self._notices(harm, at, blocks)
            found += here
            days += here * at / DAY
            bad += here * len(harm.damaged(at))
        if found == 0:
            return Foreseen(0.0, None, None)
        return Foreseen(found, days / found, bad / found)

    def _notices(self, harm: Harm, at: int, blocks: int) -> float:
        if isinstance(harm, Outage):
            return float(harm.begins <= at < harm.ends)
        bad = len(harm.damaged(at))
        return float(detection_probability(bad, self._sampled(blocks), blocks))

    def _sampled(self, blocks: int) -> int:
        return int(samples(self.action.ratio, blocks, blocks))


FIXED_HIGH = Rule.of("fixed-high", fixed_high())
FIXED_LOW = Rule.of("fixed-low", fixed_low())
