"""Which node a holding is on, as the home's catalogue has it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.owner.home import catalogue_in

FRESH = 30_000  # milliseconds for which what was read counts as true


@dataclass(frozen=True)
class Node:
    url: str
    address: str  # by which it signs


class Nodes:
    def __init__(self, folder: Path, clock: Callable[[], int]) -> None:
        self._folder, self._clock = folder, clock
        self._known: dict[str, Node] = {}
        self._until = 0
        self._lock = threading.Lock()

    def of(self, holding: str) -> Node | None:
        with self._lock:
            now = self._clock()
            if not now < self._until <= now + FRESH:
                self._known, self._until = self._read(), now + FRESH
        return self._known.get(holding)

    def _read(self) -> dict[str, Node]:
        try:
            with catalogue_in(self._folder) as catalogue:
                records = catalogue.holdings()
        except HoldfastError:  # the schedule is known all the same
            return {}
        return {each.name: Node(each.url, f"0x{each.node.hex()}") for each in records}
