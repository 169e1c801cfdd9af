"""Names of objects that are kept in the home from one audit to the next. They only save reading."""

import json
from collections.abc import Iterable
from pathlib import Path

from holdfast import atomic

MAX_BYTES = 256 << 20


class NameList:
    """A set of names in a file. A file that can't be read is empty."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> set[str]:
        if not self._path.exists():
            return set()
        try:
            return set(json.loads(atomic.read(self._path, at_most=MAX_BYTES)))
        except (ValueError, TypeError):
            return set()

    def add(self, names: Iterable[str]) -> None:
        self._write(self.read() | set(names))

    def remove(self, names: Iterable[str]) -> None:
        known = self.read()
        if known & set(names):
            self._write(known - set(names))

    def _write(self, names: set[str]) -> None:
        atomic.write(self._path, json.dumps(sorted(names)).encode(), mode=atomic.PRIVATE)
