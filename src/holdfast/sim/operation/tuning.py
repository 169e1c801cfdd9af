"""The best policies of simple kinds in the operator's world, at a given exposure.

For each candidate one number is moved until the exposure is the wanted one; the cheapest candidate
is the best. All candidates are tried on the same nodes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holdfast.errors import InputError
from holdfast.model.operation import Operation
from holdfast.sim.operation.bayes import BayesIndex
from holdfast.sim.operation.evaluation import run
from holdfast.sim.operation.measures import OperationMeasures, measure
from holdfast.sim.operation.policies import Clairvoyant, Constant, OperationPolicy, TwoSpeed

SAMPLES = (10, 15, 22, 32, 46, 68, 100, 150, 220, 320, 460, 680, 1000)
CLAIRVOYANT_SAMPLES = (22, 46, 100, 220, 460)
ALARMED = (1.0, 3.0, 7.0)  # days to the next audit after a failure
STEPS = 9  # of bisection: the exposure is met within one per cent
LONGEST = 365.0
PRICES = (1e-1, 1e6)  # of exposure, that are searched

OnProgress = Callable[[str], None]  # is called with the name of what is tried next


@dataclass(frozen=True)
class Tuned:
    kind: str
    name: str  # as `evaluate` takes it
    measures: OperationMeasures


@dataclass(frozen=True)
class Candidate:
    """A family of policies with one free number; exposure falls as the number rises."""

    kind: str
    make: Callable[[float], tuple[str, OperationPolicy]]
    low: float
    high: float


def tune(
    scenario: Operation,
    exposure: float,
    *,
    nodes: int,
    seed: int,
    kinds: tuple[str, ...] = ("constant", "two-speed", "bayes", "clairvoyant"),
    on_progress: OnProgress = lambda _name: None,
) -> list[Tuned]:
    """Return the cheapest policy of each kind whose exposure is the wanted one."""
    if exposure <= 0:
        raise InputError(f"an exposure is above 0, not {exposure:g}")
    best: dict[str, Tuned] = {}
    for candidate in _candidates(scenario, kinds):
        on_progress(candidate.kind)
        tuned = _meet(candidate, scenario, exposure, nodes, seed)
        known = best.get(candidate.kind)
        if tuned and (known is None or _cost(tuned) < _cost(known)):
            best[candidate.kind] = tuned
    if not best:
        raise InputError(f"no policy that was tried has an exposure of {exposure:g} a year")
    return list(best.values())


def _candidates(scenario: Operation, kinds: tuple[str, ...]) -> Iterator[Candidate]:
    rates = 1 / LONGEST, 1.0  # audits a day
    for samples in SAMPLES if "constant" in kinds else ():
        yield Candidate("constant", _constant(samples), *rates)
    for samples in SAMPLES[2::2] if "two-speed" in kinds else ():
        for alarmed in ALARMED:
            yield Candidate("two-speed", _two_speed(samples, alarmed), *rates)
    if "bayes" in kinds:
        yield Candidate(
            "bayes", lambda price: (f"bayes:{price:.4g}", BayesIndex(scenario, price)), *PRICES
        )
    for samples in CLAIRVOYANT_SAMPLES if "clairvoyant" in kinds else ():
        yield Candidate("clairvoyant", _clairvoyant(samples), *PRICES)


def _constant(samples: int) -> Callable[[float], tuple[str, OperationPolicy]]:
    return lambda rate: (f"constant:{1 / rate:.4g},{samples}", Constant(1 / rate, samples))


def _two_speed(samples: int, alarmed: float) -> Callable[[float], tuple[str, OperationPolicy]]:
    def make(rate: float) -> tuple[str, OperationPolicy]:
        name = f"two-speed:{1 / rate:.4g},{samples},{alarmed:g},{samples}"
        return name, TwoSpeed(Constant(1 / rate, samples), Constant(alarmed, samples))

    return make


def _clairvoyant(samples: int) -> Callable[[float], tuple[str, OperationPolicy]]:
    return lambda price: (f"clairvoyant:{price:.4g},{samples}", Clairvoyant(price, samples))


def _meet(
    candidate: Candidate, scenario: Operation, exposure: float, nodes: int, seed: int
) -> Tuned | None:
    """Return the candidate at the wanted exposure, or None if it is out of its reach."""
    low, high = candidate.low, candidate.high
    tuned = None
    for _ in range(STEPS):
        middle = (low * high) ** 0.5
        name, policy = candidate.make(middle)
        measures = measure(run(policy, scenario, nodes=nodes, seed=seed))
        if measures.exposure_per_year.value <= exposure:
            high, tuned = middle, Tuned(candidate.kind, name, measures)
        else:
            low = middle
    return tuned


def _cost(tuned: Tuned) -> float:
    return tuned.measures.cost_per_year.value
