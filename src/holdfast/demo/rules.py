"""What fixed rules would have made of the same harm: computed, for nobody lived through it.

A rule audits every holding at its interval from the beginning, and nobody repairs before it finds
something. How likely each of its audits finds the blocks that would be bad by then is the exact
probability of `holdfast.model.detection`.
"""

from dataclasses import dataclass

from holdfast.control.rails import DAY
from holdfast.demo.harm import Decay, Harm
from holdfast.ledger.price import gas_of_an_audit
from holdfast.model.action import GRID, Action
from holdfast.model.detection import detection_probability, gas, samples
from holdfast.policy.rules import Constant, fixed_high, fixed_low


@dataclass(frozen=True)
class Foreseen:
    """How a rule would have found a harm: how likely by the end, and on which day if so."""

    probability: float
    day: float | None  # the mean; none where it can't be found at all


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

    def gas(self, span: int, holdings: int, sectors: int) -> int:
        """Return its gas at the lowest price there is, that of audits settled in full batches."""
        return self.audits(span) * holdings * gas_of_an_audit(sectors, batched=True)

    def model_gas(self, span: int, holdings: int, blocks: int) -> float:
        """Return its gas in the model's unit, an audit of every block."""
        return self.audits(span) * holdings * float(gas(self._sampled(blocks), blocks))

    def foresee(self, harm: Harm, span: int, blocks: int) -> Foreseen:
        unfound, mean = 1.0, 0.0
        for number in range(1, self.audits(span) + 1):
            at = number * self.action.interval * DAY
            found = unfound * self._notices(harm, at, blocks)
            unfound -= found
            mean += found * at / DAY
        probability = 1.0 - unfound
        return Foreseen(probability, mean / probability if probability > 0 else None)

    def _notices(self, harm: Harm, at: int, blocks: int) -> float:
        if isinstance(harm, Decay):
            bad = len(harm.damaged(at))
            return float(detection_probability(bad, self._sampled(blocks), blocks))
        return float(harm.begins <= at < harm.ends)

    def _sampled(self, blocks: int) -> int:
        return int(samples(self.action.ratio, blocks, blocks))


FIXED_HIGH = Rule.of("fixed-high", fixed_high())
FIXED_LOW = Rule.of("fixed-low", fixed_low())
