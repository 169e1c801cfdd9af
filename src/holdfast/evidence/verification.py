"""Checks a whole log offline, from the log and its pinned verifier key alone.

Wrong evidence becomes a finding; only what can't be read raises.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.errors import MalformedError
from holdfast.evidence.anchors import OnChain
from holdfast.evidence.checkpoint_check import HeadCheck, KnownRoot
from holdfast.evidence.escaping import are_words
from holdfast.evidence.finding import Fault, Finding, Findings
from holdfast.evidence.leaf import (
    LOG_SETTING,
    Audit,
    ConfigurationChange,
    Leaf,
    Registration,
    StorageCheck,
    decode,
)
from holdfast.evidence.log import Entry, Log
from holdfast.evidence.note import Verifier
from holdfast.evidence.recheck import Recheck
from holdfast.evidence.sequence import SequenceCheck
from holdfast.evidence.tree import Frontier, leaf_hash


@dataclass(frozen=True)
class UncheckedAnchors:
    """Anchors that the log claims on a ledger that was not read."""

    chain: int  # 0 is a local ledger
    contract: str
    anchors: int


@dataclass(frozen=True)
class Report:
    """What was checked, and the findings. All are counted, the first thousand are listed."""

    leaves: int
    audits: int
    checks: int  # that rest on the owner's word: no proof can be checked again
    checkpoints: int
    anchors: int  # that the log claims
    anchors_checked: int  # of these, held against their ledger
    anchors_unchecked: tuple[UncheckedAnchors, ...]
    anchors_before_restore: int  # on the ledgers, of the log that this one replaces
    proofs: int
    proofs_gone: int  # deleted since, hence not re-checkable
    finding_count: int
    findings: tuple[Finding, ...]

    @property
    def fine(self) -> bool:
        return self.finding_count == 0

    def facts(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {"fine": self.fine, **asdict(self)}


def verify(
    log: Log,
    pinned: Verifier,
    *,
    known: Sequence[KnownRoot] = (),
    chains: Sequence[OnChain] = (),
    restored: bool = False,
    on_progress: Callable[[int], Any] = lambda _leaves: None,
) -> Report:
    """Check the whole log, and its anchors against the ledgers given.

    With `restored`, anchors from before the log was restored from a backup are no finding, if a
    leaf of it says when that was. `on_progress` gets the number of leaves done.
    """
    findings, frontier = Findings(), Frontier()
    if log.verifier != pinned:
        findings.add(Fault.KEY, "the log", f"it names the key {log.verifier}, not {pinned}")
    heads = HeadCheck(log.checkpoints(), pinned, known, chains, findings)
    leaves = _LeafCheck(findings, chains, str(pinned))
    try:
        leaves.recheck.keys.update((key.id, key) for key in log.public_keys())
        heads.start()
        for entry in log.entries():
            leaves.check(frontier.size, entry)
            frontier = frontier.append(leaf_hash(entry.leaf))
            heads.meet(frontier)
            on_progress(frontier.size)
        heads.end(frontier, leaves.restored_at if restored else None)
        if log.size != frontier.size:
            what = f"it says it has {log.size} leaves, but has {frontier.size}"
            findings.add(Fault.MISSING, "the log", what)
        leaves.end(log)
    except MalformedError as error:
        findings.add(Fault.MALFORMED, "the log", str(error))
    return Report(
        frontier.size,
        leaves.audits,
        leaves.checks,
        heads.signed,
        heads.anchors,
        heads.anchors_checked,
        tuple(
            UncheckedAnchors(ledger.chain, f"0x{ledger.contract.hex()}", count)
            for ledger, count in heads.unchecked.items()
        ),
        heads.anchors_before_restore,
        leaves.recheck.checked,
        leaves.recheck.gone,
        findings.count,
        tuple(findings.listed),
    )


class _LeafCheck:
    """Checks the leaves one after the other."""

    def __init__(self, findings: Findings, chains: Sequence[OnChain], log: str) -> None:
        self.audits = 0
        self.checks = 0
        self.recheck = Recheck()
        self.restored_at: int | None = None
        self._sequence = SequenceCheck()
        self._findings = findings
        self._chains = {chain.ledger: chain for chain in chains}
        self._log = log

    def check(self, index: int, entry: Entry) -> None:
        where = f"leaf {index}"
        try:
            leaf = decode(entry.leaf, "it")
        except MalformedError as error:
            self._findings.add(Fault.MALFORMED, where, str(error))
            return
        for what in self._sequence.find_faults(leaf):
            self._findings.add(Fault.ORDER, where, what)
        for what in self._wrong_proofs(leaf, entry.proof):
            self._findings.add(Fault.PROOF, where, what)
        if isinstance(leaf, Registration):
            self._check_registration(leaf, where)
        if isinstance(leaf, StorageCheck):
            self.checks += 1
            if not are_words(leaf.words, leaf.words_hash):
                what = "the tool's words don't have the hash that it names"
                self._findings.add(Fault.MALFORMED, where, what)
        if isinstance(leaf, ConfigurationChange) and self.restored_at is None:
            names = {setting.after for setting in leaf.settings if setting.name == LOG_SETTING}
            self.restored_at = leaf.at if self._log in names else None

    def _check_registration(self, leaf: Registration, where: str) -> None:
        """Compare a registration with its ledger, if that was given."""
        holding = leaf.holding
        chain = self._chains.get(holding.domain)
        if chain is None:
            return
        key = chain.key_id(holding.id)
        registered = chain.registration(holding.id)
        if key is None:
            self._findings.add(Fault.MISSING, where, f"the holding is not on {chain.name}")
        elif key != holding.key:
            self._findings.add(Fault.KEY, where, f"{chain.name} has another key for the holding")
        if registered is None:  # before the first block that was read
            return
        if registered.node != holding.node:
            self._findings.add(Fault.KEY, where, f"{chain.name} has another node for the holding")
        if leaf.transaction and registered.transaction != leaf.transaction.hash:
            what = f"{chain.name} has the registration in another transaction"
            self._findings.add(Fault.MISSING, where, what)

    def _wrong_proofs(self, leaf: Leaf, proof: bytes | None) -> list[str]:
        if isinstance(leaf, Audit):
            self.audits += 1
            return list(self.recheck.find_faults(leaf, proof))
        wrong = [] if proof is None else ["it has a proof beside it, but is no audit"]
        if isinstance(leaf, Registration):
            wrong += self.recheck.check_registration(leaf)
        return wrong

    def end(self, log: Log) -> None:
        for key in sorted(self.recheck.keys.keys() - self.recheck.named):
            self._findings.add(Fault.KEY, f"key {key.hex()}", "no leaf names it")
        if suspects := self.recheck.suspects():
            for index, entry in enumerate(log.entries()):
                if self.recheck.is_refuted(entry, suspects):
                    what = "it passed, but its proof does not"
                    self._findings.add(Fault.PROOF, f"leaf {index}", what)
