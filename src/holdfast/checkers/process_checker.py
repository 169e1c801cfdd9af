"""A checker whose checks run in a process of their own, which survives the service."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, final

from holdfast.checkers.interface import Extent, Place, Report, Running, Sample

Progress = Callable[[int, int], None]  # units done, of how many


class ProcessChecker(ABC):
    """Subclasses say what there is and check a sample; when and where it runs is decided here.

    A subclass that starts programs leaves them in the session of the job (a process group of their
    own is fine): the whole session is killed at the deadline, or when the check is cancelled.
    """

    kind: ClassVar[str]  # by which the registry opens it again, in the process of the job

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def extent(self) -> Extent: ...

    @abstractmethod
    def run(self, sample: Sample, on_progress: Progress) -> Report:
        """Check the sample, in the process of the job; a HoldfastError is reported as its end.

        UnreachableError becomes UNREACHABLE, any other error UNKNOWN. It may be killed at any
        moment and called anew.
        """

    @final
    def start(self, sample: Sample) -> bytes:
        raise NotImplementedError

    @final
    def poll(self, pending: bytes) -> Report | Running:
        raise NotImplementedError

    @final
    def cancel(self, pending: bytes) -> None:
        raise NotImplementedError
