"""The leaf of a check: what a tool says about storage where no node gives proofs.

Nobody can check it again. It is the owner's word on what a tool said: what was sampled, by which
tool and version, its own words, and what is damaged.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Self

from holdfast.errors import InputError
from holdfast.evidence.codecs import plain, text
from holdfast.evidence.decision import Decision
from holdfast.evidence.escaping import MAX_WORDS, escape_name
from holdfast.evidence.outcome import Outcome, Step

MAX_DAMAGED = 64  # units that a leaf names
MAX_ADDRESS = 2048

_PASSWORD = re.compile(r"//[^/@]*:[^/@]*@|[,?&;]\w*(pass|secret|token)\w*=", re.IGNORECASE)
_OUTCOMES = (Outcome.PASSED, Outcome.FAILED, Outcome.OFFLINE, Outcome.UNKNOWN)


@dataclass(frozen=True)
class CheckedHolding:
    """Storage that is checked: its id on the owner's schedule, its name then, and where it is."""

    id: int
    name: str
    kind: str
    address: Annotated[str, text(MAX_ADDRESS)]

    def __post_init__(self) -> None:
        if not (self.name and self.kind and self.address):
            raise InputError("storage that is checked has a name, a kind and an address")
        if _PASSWORD.search(self.address):
            raise InputError(
                "the address contains a password, and everybody can read the evidence: give it in "
                "a file or a variable of the environment"
            )


class Defect(StrEnum):
    MISSING = "missing"
    TRUNCATED = "truncated"
    CHANGED = "changed"  # its bytes are not those that were stored
    UNREADABLE = "unreadable"  # the storage itself says that it can't read it


@dataclass(frozen=True)
class DamagedUnit:
    """A damaged pack, object or file, by its name."""

    name: str
    defect: Defect
    detail: str

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("a damaged unit has a name")

    @classmethod
    def from_tool(cls, name: str, defect: str, detail: str) -> Self:
        """Return a unit that a tool names, whatever the name and the detail contain."""
        return cls(escape_name(name), Defect(defect), plain(detail))


@dataclass(frozen=True)
class StorageCheck:
    """One check of a holding, numbered from 1.

    There were `units` packs, objects or files (`unit` says which), `drawn` of them were in the
    sample, and `checked` were really read, damaged ones included. `sample` is the SHA-256 of the
    names of the groups drawn. `damaged_units` are damaged, of which up to 64 are named. `words` are
    the tool's own, escaped; `words_hash` is the SHA-256 of them, unescaped, as far as they were
    kept.
    """

    at: int
    holding: CheckedHolding
    number: int
    decision: Decision
    due_at: int
    seed: bytes
    unit: str
    tool: str
    units: int
    drawn: int
    sample: bytes
    checked: int
    damaged: tuple[DamagedUnit, ...]
    damaged_units: int
    read_bytes: int
    requests: int
    began_at: int
    ended_at: int
    outcome: Outcome
    reason: str
    words: Annotated[str, text(MAX_WORDS)]
    words_hash: bytes

    def __post_init__(self) -> None:
        for contradiction in (*self._contradictions(), *self._contradictions_of_outcome()):
            raise InputError(contradiction)

    def _contradictions(self) -> Iterator[str]:
        if self.number < 1:
            yield "checks are numbered from 1"
        if not self.unit:
            yield "a check names its unit"
        if self.drawn > self.units:
            yield f"{self.drawn} units can't be drawn from {self.units}"
        if len(self.damaged) > min(self.damaged_units, MAX_DAMAGED):
            yield f"a check names at most {MAX_DAMAGED} damaged units, and no more than there are"
        if self.began_at > self.ended_at:
            yield "a check ends after it began"

    def _contradictions_of_outcome(self) -> Iterator[str]:
        if self.outcome not in _OUTCOMES:
            yield f"a check never ends as {self.outcome}"
        if self.outcome is Outcome.PASSED and not 0 < self.checked <= self.units:
            yield f"a check that read {self.checked} of {self.units} units did not pass"
        if self.outcome is Outcome.PASSED and self.damaged_units:
            yield "a check that found damage did not pass"
        if self.outcome is Outcome.FAILED and not self.damaged:
            yield "a check that failed names a damaged unit"
        if self.outcome in {Outcome.PASSED, Outcome.FAILED} and not self.tool:
            yield "a check that says something about the data names its tool"
        if self.outcome is not Outcome.PASSED and not self.reason:
            yield "a check that did not pass has a reason"


@dataclass(frozen=True)
class CheckResponse:
    """One step in response to a check, with the names of up to 64 units that it concerns."""

    at: int
    holding: CheckedHolding
    check: int
    step: Step
    units: tuple[str, ...]
    detail: str

    def __post_init__(self) -> None:
        if len(self.units) > MAX_DAMAGED or not all(self.units):
            raise InputError(f"a response names at most {MAX_DAMAGED} units, by their names")
