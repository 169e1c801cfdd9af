"""What a checker remembers from one check to the next, in a file of its folder."""

from pathlib import Path
from typing import Generic, TypeVar

from holdfast import atomic
from holdfast.checkers import codec
from holdfast.errors import MalformedError

T = TypeVar("T")


class Memory(Generic[T]):
    def __init__(self, path: Path, nothing: T) -> None:
        """Make a memory of the kind of `nothing`, which is what it holds at first."""
        self._path, self._nothing = path, nothing

    def read(self) -> T:
        """Return what was written last; what the disk has damaged is forgotten."""
        try:
            return codec.load(type(self._nothing), self._path.read_bytes(), str(self._path))
        except (FileNotFoundError, MalformedError):
            return self._nothing

    def write(self, known: T) -> None:
        atomic.write(self._path, codec.dump(known), mode=atomic.PRIVATE)
