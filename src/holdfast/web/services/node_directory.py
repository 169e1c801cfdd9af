"""Which node a holding is on, as the home's catalogue has it."""

import threading
from collections.abc import Callable
from pathlib import Path

from holdfast.control.queries.holdings import Node
from holdfast.errors import HoldfastError
from holdfast.owner.home import catalogue_in

FRESH_MILLISECONDS = 30_000  # for which the catalogue is not read again


class NodeDirectory:
    def __init__(self, folder: Path, clock: Callable[[], int]) -> None:
        self._folder, self._clock = folder, clock
        self._known: dict[str, Node] = {}
        self._until = 0
        self._lock = threading.Lock()

    def find(self, holding: str) -> Node | None:
        with self._lock:
            now = self._clock()
            if not now < self._until <= now + FRESH_MILLISECONDS:
                self._known, self._until = self._read(), now + FRESH_MILLISECONDS
        return self._known.get(holding)

    def _read(self) -> dict[str, Node]:
        try:
            with catalogue_in(self._folder) as catalogue:
                records = catalogue.holdings()
        except HoldfastError:  # the schedule is known all the same
            return {}
        return {record.name: Node(record.url, f"0x{record.node.hex()}") for record in records}
