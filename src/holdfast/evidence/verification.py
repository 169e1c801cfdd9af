"""All of a log checked offline, from the log and its pinned verifier key alone.

Wrong evidence is found, never raised; only what can't be read raises.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import MalformedError
from holdfast.evidence.finding import Fault, Finding, Findings
from holdfast.evidence.heads import Heads, Known, OnChain
from holdfast.evidence.leaf import Audit, Leaf, Registration, decode
from holdfast.evidence.log import Entry, Log
from holdfast.evidence.note import Verifier
from holdfast.evidence.order import Order
from holdfast.evidence.recheck import Recheck
from holdfast.evidence.tree import Frontier, leaf_hash


@dataclass(frozen=True)
class Report:
    """What was checked, and what was found. A thousand findings are told, all are counted."""

    leaves: int
    audits: int
    checkpoints: int
    anchors: int
    proofs: int
    proofs_gone: int  # deleted since, hence not re-checkable
    finding_count: int
    findings: tuple[Finding, ...]

    @property
    def fine(self) -> bool:
        return self.finding_count == 0


def verify(
    log: Log,
    pinned: Verifier,
    *,
    known: Sequence[Known] = (),
    chain: OnChain | None = None,
    progress: Callable[[int], Any] = lambda _leaves: None,
) -> Report:
    """Check the whole log; `progress` is told how many leaves are done."""
    findings, frontier = Findings(), Frontier()
    if log.verifier != pinned:
        findings.add(Fault.KEY, "the log", f"it names the key {log.verifier}, not {pinned}")
    heads = Heads(log.checkpoints(), pinned, known, chain, findings)
    content = _Content(findings)
    try:
        content.recheck.keys.update((key.id, key) for key in log.public_keys())
        heads.start()
        for entry in log.entries():
            content.look(frontier.size, entry)
            frontier = frontier.append(leaf_hash(entry.leaf))
            heads.meet(frontier)
            progress(frontier.size)
        heads.end(frontier)
        if log.size != frontier.size:
            what = f"it says it has {log.size} leaves, but has {frontier.size}"
            findings.add(Fault.MISSING, "the log", what)
        content.end(log)
    except MalformedError as error:
        findings.add(Fault.MALFORMED, "the log", str(error))
    return Report(
        frontier.size,
        content.audits,
        heads.signed,
        heads.anchors,
        content.recheck.checked,
        content.recheck.gone,
        findings.count,
        tuple(findings.kept),
    )


class _Content:
    """What the leaves say, one after the other."""

    def __init__(self, findings: Findings) -> None:
        self.audits = 0
        self.recheck = Recheck()
        self._order = Order()
        self._findings = findings

    def look(self, index: int, entry: Entry) -> None:
        where = f"leaf {index}"
        try:
            leaf = decode(entry.leaf, "it")
        except MalformedError as error:
            self._findings.add(Fault.MALFORMED, where, str(error))
            return
        for what in self._order.wrong(leaf):
            self._findings.add(Fault.ORDER, where, what)
        for what in self._disproved(leaf, entry.proof):
            self._findings.add(Fault.PROOF, where, what)

    def _disproved(self, leaf: Leaf, proof: bytes | None) -> list[str]:
        if isinstance(leaf, Audit):
            self.audits += 1
            return list(self.recheck.wrong(leaf, proof))
        wrong = [] if proof is None else ["it has a proof beside it, but is no audit"]
        if isinstance(leaf, Registration):
            wrong += self.recheck.unregistered(leaf)
        return wrong

    def end(self, log: Log) -> None:
        for key in sorted(self.recheck.keys.keys() - self.recheck.named):
            self._findings.add(Fault.KEY, f"key {key.hex()}", "no leaf names it")
        if suspects := self.recheck.suspects():
            for index, entry in enumerate(log.entries()):
                if self.recheck.refuted(entry, suspects):
                    what = "it passed, but its proof does not"
                    self._findings.add(Fault.PROOF, f"leaf {index}", what)
