"""Recent verdicts on versions: an operator who has seen one may promote by it."""

import threading
from dataclasses import dataclass, field

from holdfast.control.policies.aliases import Verdict
from holdfast.durations import HOUR

VALID_FOR = HOUR


@dataclass(frozen=True)
class Contest:
    """What was judged: a version against the champion of that time."""

    version: str
    champion: str


@dataclass
class VerdictCache:
    _verdicts: dict[Contest, tuple[int, Verdict]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def save(self, contest: Contest, verdict: Verdict, now: int) -> None:
        with self._lock:
            valid = {
                known: (at, saved)
                for known, (at, saved) in self._verdicts.items()
                if at > now - VALID_FOR
            }
            self._verdicts = valid | {contest: (now, verdict)}

    def find(self, contest: Contest, now: int) -> Verdict | None:
        at, verdict = self._verdicts.get(contest, (now - VALID_FOR, None))
        return verdict if now - VALID_FOR < at <= now else None
