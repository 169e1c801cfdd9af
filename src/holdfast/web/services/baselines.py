"""What the simulated world would cost under other rules than the policy that decides.

All meet the same seeds, once, in a process of their own: it takes about ten seconds.
"""

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from holdfast.model.scenario import Scenario
from holdfast.policy.registry import policy_named
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import Estimate, measure
from holdfast.web.jobs import apart
from holdfast.web.services.champion import Decider

RULES = ("fixed-high", "fixed-low", "heuristic", "two-speed", "daily-5", "sample-460")
EPISODES, SEED, RESAMPLES = 256, 0, 200


@dataclass(frozen=True)
class Figure:
    """A figure with its 95 % interval; none where nothing could be measured."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Costs:
    """A policy in the simulated world."""

    policy: str
    gas: Figure  # a holding and day, where 1 is an audit of every block
    audits: Figure  # a holding and day
    miss_rate: Figure
    latency: Figure  # mean days until damage is found


class Rules:
    """Simulates the policy that decides and the rules, when someone first asks for it."""

    def __init__(self, decider: Callable[[], Decider], scenario: Scenario) -> None:
        self._decider, self._scenario = decider, scenario
        self._lock = threading.Lock()
        self._of: Decider | None = None  # who is compared with the rules
        self._found: list[Costs] | None = None

    def found(self) -> list[Costs] | None:
        decider = self._decider()
        with self._lock:
            if self._of != decider:
                self._of, self._found = decider, None
                threading.Thread(target=self._simulate, args=(decider,), daemon=True).start()
            return self._found

    def _simulate(self, decider: Decider) -> None:
        with apart(simulate, [decider.name, *RULES], self._scenario) as receiver:
            try:
                _, (own, *others) = receiver.recv()
                found = [replace(own, policy=decider.label), *others]
            except EOFError:
                found = None
        with self._lock:
            if self._of == decider:  # if nothing was found, who asks next begins anew
                self._of, self._found = decider if found else None, found


def simulate(sender: Connection, names: list[str], scenario: Scenario) -> None:
    found = [costs_of(name, scenario) for name in names]
    with suppress(BrokenPipeError):  # the server has stopped meanwhile
        sender.send(("costs", found))


def costs_of(name: str, scenario: Scenario) -> Costs:
    tally = evaluate(policy_named(name, scenario), scenario, episodes=EPISODES, seed=SEED)
    found, days = measure(tally, resamples=RESAMPLES), scenario.horizon
    return Costs(
        name,
        _figure(found.gas, days),
        _figure(found.audits, days),
        _figure(found.miss_rate),
        _figure(found.latency),
    )


def _figure(estimate: Estimate, over: float = 1.0) -> Figure:
    values = (estimate.value, estimate.low, estimate.high)
    return Figure(*(each / over if math.isfinite(each) else None for each in values))
