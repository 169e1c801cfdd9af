"""What each setting of the deciding policy's dial spends and misses in the simulated world.

They are tried one after the other, once, in a process of its own; what was found is told meanwhile.
"""

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

from holdfast.model.scenario import Scenario
from holdfast.policy.registry import settings_of
from holdfast.web.jobs import apart
from holdfast.web.services.baselines import Costs, costs_of
from holdfast.web.services.champion import Decider


@dataclass(frozen=True)
class Tried:
    settings: int  # that there are
    found: tuple[Costs, ...]

    @property
    def ready(self) -> bool:
        return len(self.found) == self.settings

    @property
    def frontier(self) -> list[Costs]:
        """The settings that no other beats in gas and misses, the cheapest first."""
        best: list[Costs] = []
        lowest = math.inf
        places = ((each.gas.value or 0.0, _misses(each), each) for each in self.found)
        for _, misses, each in sorted(places, key=lambda place: place[:2]):
            if misses < lowest:
                lowest = misses
                best.append(each)
        return best


def _misses(costs: Costs) -> float:
    return math.inf if costs.miss_rate.value is None else costs.miss_rate.value


class Frontier:
    """Tries the settings when someone first asks."""

    def __init__(self, decider: Callable[[], Decider], policy: str, scenario: Scenario) -> None:
        self._decider, self._policy, self._scenario = decider, policy, scenario
        self._lock = threading.Lock()
        self._names: list[str] = []  # that are tried
        self._found: tuple[Costs, ...] = ()

    def tried(self) -> Tried:
        names = settings_of(self._decider().name, self._scenario)
        if len(names) == 1:  # who decides has no dial
            names = settings_of(self._policy, self._scenario)
        with self._lock:
            if self._names != names:
                self._names, self._found = names, ()
                threading.Thread(target=self._try, args=(names,), daemon=True).start()
            return Tried(len(names), self._found)

    def _try(self, names: list[str]) -> None:
        with apart(try_each, names, self._scenario) as receiver:
            for _ in names:
                try:
                    costs = receiver.recv()
                except EOFError:
                    costs = None
                with self._lock:
                    if self._names is not names:
                        return
                    if costs is None:
                        self._names = []  # so that who asks next begins anew
                        return
                    self._found = (*self._found, costs)


def try_each(sender: Connection, names: list[str], scenario: Scenario) -> None:
    with suppress(BrokenPipeError):  # the server has stopped meanwhile
        for name in names:
            sender.send(costs_of(name, scenario))
