"""What each setting of the deciding policy's dial spends and misses in the simulated world.

The settings are tried one after the other, once, in a process of its own; results so far are shown.
"""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from holdfast.model.scenario import Scenario
from holdfast.policy.registry import dial_names
from holdfast.processes import start_child
from holdfast.sim.frontier import frontier
from holdfast.web.services.baselines import Costs, costs_of
from holdfast.web.services.champion import Decider


@dataclass(frozen=True)
class SweepProgress:
    settings: int  # that there are
    tried: tuple[Costs, ...]

    @property
    def ready(self) -> bool:
        return len(self.tried) == self.settings

    @property
    def frontier(self) -> list[Costs]:
        """The settings that no other beats in gas and misses, the cheapest first."""
        return frontier(self.tried, lambda costs: (costs.gas.value or 0.0, _misses(costs)))


def notch_of(frontier: Sequence[Costs], ceiling: float | None, budget: float | None) -> int:
    """Return the notch that keeps the limits: the safest within a budget, or else the cheapest.

    It is 0 if there is none. A setting keeps a limit if the worse end of its interval does.
    """
    able = [
        notch
        for notch, costs in enumerate(frontier, 1)
        if (ceiling is None or _worst(costs.miss_rate.high) <= ceiling)
        and (budget is None or _worst(costs.gas.high) <= budget)
    ]
    return 0 if not able else min(able) if budget is None else max(able)


class DialSweep:
    """Tries the settings when it is first asked to."""

    def __init__(self, policy: str, scenario: Scenario) -> None:
        self._policy, self._scenario = policy, scenario
        self._lock = threading.Lock()
        self._names: list[str] = []  # that are tried
        self._tried: tuple[Costs, ...] = ()

    def progress(self, decider: Decider) -> SweepProgress:
        """Return what is known so far; begin a sweep unless one of this decider has begun."""
        names = dial_names(decider.name, self._scenario)
        if len(names) == 1:  # the policy that decides has no dial
            names = dial_names(self._policy, self._scenario)
        with self._lock:
            if self._names != names:
                self._names, self._tried = names, ()
                threading.Thread(target=self._sweep, args=(names,), daemon=True).start()
            return SweepProgress(len(names), self._tried)

    def _sweep(self, names: list[str]) -> None:
        with start_child(try_settings, names, self._scenario) as child:
            for _ in names:
                try:
                    costs = child.pipe.recv()
                except EOFError:
                    costs = None
                with self._lock:
                    if self._names is not names:
                        return
                    if costs is None:
                        self._names = []  # so that the next request begins again
                        return
                    self._tried = (*self._tried, costs)


def try_settings(sender: Connection, names: list[str], scenario: Scenario) -> None:
    for name in names:
        sender.send(costs_of(name, scenario))


def _misses(costs: Costs) -> float:
    return math.inf if costs.miss_rate.value is None else costs.miss_rate.value


def _worst(end: float | None) -> float:
    return math.inf if end is None else end
