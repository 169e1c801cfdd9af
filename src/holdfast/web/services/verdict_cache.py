"""Verdicts that were found lately: who looked at one may promote by it."""

import threading
from dataclasses import dataclass, field

from holdfast.control.policies.aliases import Verdict
from holdfast.control.scheduling.guardrails import HOUR

FRESH = HOUR


@dataclass(frozen=True)
class Case:
    """What was judged: a version against the champion of that time."""

    version: str
    champion: str


@dataclass
class Verdicts:
    _found: dict[Case, tuple[int, Verdict]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, case: Case, verdict: Verdict, now: int) -> None:
        with self._lock:
            self._found = {
                known: told for known, told in self._found.items() if told[0] > now - FRESH
            } | {case: (now, verdict)}

    def of(self, case: Case, now: int) -> Verdict | None:
        at, verdict = self._found.get(case, (now - FRESH, None))
        return verdict if now - FRESH < at <= now else None
