"""What the policy that decides, and simple rules beside it, cost in the simulated world.

All get the same seeds, once, in a process of their own: it takes about ten seconds.
"""

import threading
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from holdfast.model.estimate import Figure
from holdfast.model.scenario import Scenario
from holdfast.policy.registry import policy_named
from holdfast.processes import start_child
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import measure
from holdfast.web.services.champion import Decider

RULES = ("fixed-high", "fixed-low", "heuristic", "two-speed", "daily-5", "sample-460")
EPISODES, SEED, RESAMPLES = 256, 0, 200


@dataclass(frozen=True)
class Costs:
    """A policy in the simulated world."""

    policy: str
    gas: Figure  # per holding and day, where 1 is an audit of every block
    audits: Figure  # per holding and day
    miss_rate: Figure
    latency: Figure  # mean days until damage is found


@dataclass(frozen=True)
class Comparison:
    ready: bool  # ask again in some seconds, if not
    scenario: str
    episodes: int
    policies: list[Costs]  # the one that decides first


class Baselines:
    """Simulates the policy that decides and the rules, when it is first asked to."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._lock = threading.Lock()
        self._decider: Decider | None = None  # who is compared with the rules
        self._costs: list[Costs] | None = None

    def compare(self, decider: Decider) -> Comparison:
        """Return what is known so far; begin a simulation unless one of this decider has begun."""
        with self._lock:
            if self._decider != decider:
                self._decider, self._costs = decider, None
                threading.Thread(target=self._simulate, args=(decider,), daemon=True).start()
            costs = self._costs
        return Comparison(costs is not None, self._scenario.name, EPISODES, costs or [])

    def _simulate(self, decider: Decider) -> None:
        with start_child(simulate, [decider.name, *RULES], self._scenario) as child:
            try:
                own, *others = child.pipe.recv()
                costs = [replace(own, policy=decider.label), *others]
            except EOFError:
                costs = None
        with self._lock:
            if self._decider == decider:  # after a failure the next request begins again
                self._decider, self._costs = decider if costs else None, costs


def simulate(sender: Connection, names: list[str], scenario: Scenario) -> None:
    costs = [costs_of(name, scenario) for name in names]
    sender.send(costs)


def costs_of(name: str, scenario: Scenario) -> Costs:
    tally = evaluate(policy_named(name, scenario), scenario, episodes=EPISODES, seed=SEED)
    measures, days = measure(tally, resamples=RESAMPLES), scenario.horizon
    return Costs(
        name,
        Figure.of(measures.gas, days),
        Figure.of(measures.audits, days),
        Figure.of(measures.miss_rate),
        Figure.of(measures.latency),
    )
