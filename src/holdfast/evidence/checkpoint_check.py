"""Compares the signed heads of a log with its tree, with one another and with known roots.

A known root, from an earlier checkpoint or an anchor on the ledger, shows what a log by itself
can't: that it was replaced or cut off as a whole.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import MalformedError
from holdfast.evidence.anchors import LedgerAnchor, OnChain, ledger_name
from holdfast.evidence.checkpoint import Anchor, Checkpoint, head_name, open_checkpoint
from holdfast.evidence.finding import Fault, Findings
from holdfast.evidence.note import Verifier
from holdfast.evidence.tree import Frontier

if TYPE_CHECKING:
    from holdfast.ledger.interface import Domain

Claim = tuple[str, Checkpoint]


@dataclass(frozen=True)
class KnownRoot:
    """A root that the verifier knows from elsewhere, and what it means if the log has another."""

    where: str
    size: int
    root: bytes
    fault: Fault


def root_in(content: bytes, pinned: Verifier, name: str) -> KnownRoot:
    """Return the root in an earlier checkpoint, which must be of this log."""
    checkpoint = open_checkpoint(content, pinned, name)
    return KnownRoot(name, checkpoint.size, checkpoint.root, Fault.FORK)


@dataclass(frozen=True)
class Misfit:
    """An anchor on a ledger that the log doesn't fit."""

    chain: OnChain
    anchor: LedgerAnchor
    what: str


class HeadCheck:
    """Compares the heads with the tree as it grows."""

    def __init__(
        self,
        checkpoints: Iterable[bytes],
        pinned: Verifier,
        known: Sequence[KnownRoot],
        chains: Sequence[OnChain],
        findings: Findings,
    ) -> None:
        self.signed = self.anchors = self.anchors_checked = self.anchors_before_restore = 0
        self.unchecked: Counter[Domain] = Counter()
        self._findings = findings
        self._known = defaultdict(list)
        for root in known:
            self._known[root.size].append(root)
        self._chains = {chain.ledger: chain for chain in chains}
        self._anchored = defaultdict(list)
        for chain in chains:
            for anchor in sorted(chain.anchors, key=lambda anchor: anchor.block):
                self._anchored[anchor.size].append((chain, anchor))
        self._misfits: list[Misfit] = []
        self._coming = self._verified(checkpoints, pinned)
        self._next: Claim | None = None
        self._names: set[bytes] = set()
        self._first: set[bytes] = set()  # those that say that none was before
        self._before: list[tuple[str, bytes]] = []  # what heads say was before them
        self._last: Checkpoint | None = None

    def start(self) -> None:
        self._advance()
        self.meet(Frontier())

    def meet(self, frontier: Frontier) -> None:
        """Compare every root that is claimed for the leaves so far."""
        for known in self._known.pop(frontier.size, ()):
            self._compare(known.where, known.root, frontier, known.fault)
        for chain, anchor in self._anchored.pop(frontier.size, ()):
            if anchor.root != frontier.root:
                what = f"the first {frontier.size} leaves have another root than it says"
                self._misfits.append(Misfit(chain, anchor, what))
        while self._next and self._next[1].size == frontier.size:
            self._compare(self._next[0], self._next[1].root, frontier, Fault.ROOT)
            self._advance()

    def end(self, frontier: Frontier, restored: int | None) -> None:
        """Add findings for heads beyond the leaves, and for leaves beyond the heads.

        Anchors made up to the time `restored` may be those of the log that this one replaces.
        """
        size = frontier.size
        self._end_anchors(size, restored)
        while self._next:
            where, checkpoint = self._next
            what = f"it is of {checkpoint.size} leaves, but there are only {size}"
            self._findings.add(Fault.MISSING, where, what)
            self._advance()
        for known in (root for roots in self._known.values() for root in roots):
            what = f"it is of {known.size} leaves, but the log has only {size}"
            self._findings.add(Fault.MISSING, known.where, what)
        for where, name in self._before:
            if name not in self._names:
                what = "the head that was signed before it has been left out"
                self._findings.add(Fault.MISSING, where, what)
        if len(self._first) > 1:
            what = "more than one head says that none was before it"
            self._findings.add(Fault.FORK, "the log", what)
        if self._last is None:
            self._findings.add(Fault.MISSING, "the log", "it has no signed checkpoint")
        elif self._last.size < size:
            what = f"its last checkpoint covers {self._last.size} of its {size} leaves"
            self._findings.add(Fault.MISSING, "the log", what)

    def _end_anchors(self, size: int, restored: int | None) -> None:
        for group in self._anchored.values():
            what = f"it is of {group[0][1].size} leaves, but the log has only {size}"
            self._misfits += [Misfit(chain, anchor, what) for chain, anchor in group]
        for misfit in self._misfits:
            if restored is not None and misfit.chain.time(misfit.anchor) <= restored:
                self.anchors_before_restore += 1
            else:
                where = f"the anchor in block {misfit.anchor.block} of {misfit.chain.name}"
                self._findings.add(Fault.ROOT, where, misfit.what)

    def _compare(self, where: str, root: bytes, frontier: Frontier, fault: Fault) -> None:
        if root != frontier.root:
            what = f"the first {frontier.size} leaves have another root than it says"
            self._findings.add(fault, where, what)

    def _advance(self) -> None:
        self._next = next(self._coming, None)

    def _check_anchor(self, where: str, checkpoint: Checkpoint, anchor: Anchor) -> None:
        """Compare a claimed anchor with its ledger, if that was given."""
        self.anchors += 1
        chain = self._chains.get(anchor.ledger)
        if chain is None:
            self.unchecked[anchor.ledger] += 1
            if self._chains:
                what = f"its anchor is not checked: it is on {ledger_name(anchor.ledger)}"
                self._findings.add(Fault.UNCHECKED, where, what)
        elif chain.has(checkpoint, anchor):
            self.anchors_checked += 1
        elif anchor.block < chain.since:
            self.unchecked[anchor.ledger] += 1
            what = f"its anchor is not checked: it is in block {anchor.block}, before --since"
            self._findings.add(Fault.UNCHECKED, where, what)
        else:
            self.anchors_checked += 1
            self._findings.add(Fault.MISSING, where, f"its anchor is not on {chain.name}")

    def _verified(self, checkpoints: Iterable[bytes], pinned: Verifier) -> Iterator[Claim]:
        """Yield the checkpoints that the pinned key signed, in order; the rest are findings."""
        for number, content in enumerate(checkpoints, 1):
            where = f"checkpoint {number}"
            try:
                checkpoint = open_checkpoint(content, pinned, "it")
                anchor, before = checkpoint.anchor, checkpoint.after
            except MalformedError as error:
                self._findings.add(Fault.MALFORMED, where, str(error))
                continue
            last = self._last
            if last and checkpoint.size < last.size:
                self._findings.add(Fault.ORDER, where, "it is smaller than the one before it")
                continue
            if last and checkpoint.size == last.size and checkpoint.root != last.root:
                what = f"two signed heads of {last.size} leaves have different roots"
                self._findings.add(Fault.FORK, where, what)
            if anchor:
                self._check_anchor(where, checkpoint, anchor)
            self._names.add(head_name(content))
            if before is None:
                self._first.add(head_name(content))
            else:
                self._before.append((where, before))
            self.signed += 1
            self._last = checkpoint
            yield where, checkpoint
