"""What verification finds wrong, and where. A finding is a result, not an error."""

from dataclasses import dataclass, field
from enum import StrEnum


class Fault(StrEnum):
    """Which promise of the evidence is broken."""

    MALFORMED = "malformed"  # not in the one form that this has
    KEY = "key"  # another key than the one that was expected
    FORK = "fork"  # two signed histories
    ROOT = "root"  # a signed or anchored root that the leaves don't have
    MISSING = "missing"  # something that must be there is not
    ORDER = "order"  # numbers or times of a holding that don't follow one another
    PROOF = "proof"  # a proof that says something else than the verdict
    UNCHECKED = "unchecked"  # a claim that none of the ledgers given can confirm


@dataclass(frozen=True)
class Finding:
    fault: Fault
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass
class Findings:
    """The findings so far. Few enough are listed that any log fits in memory."""

    max_listed: int = 1000
    listed: list[Finding] = field(default_factory=list)
    count: int = 0

    def add(self, fault: Fault, where: str, what: str) -> None:
        self.count += 1
        if len(self.listed) < self.max_listed:
            self.listed.append(Finding(fault, where, what))
