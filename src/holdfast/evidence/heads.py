"""The signed heads of a log, held against its tree, against each other and against what is known.

What a verifier knows from elsewhere, a checkpoint kept from earlier or anchors on the ledger, shows
what a log by itself can't: that it was replaced or cut off as a whole.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from holdfast.errors import MalformedError
from holdfast.evidence.checkpoint import Anchor, Checkpoint, head_name, open_checkpoint
from holdfast.evidence.finding import Fault, Findings
from holdfast.evidence.note import Verifier
from holdfast.evidence.tree import Frontier
from holdfast.ledger.interface import Anchored, Domain, Ledger

Claim = tuple[str, Checkpoint]


@dataclass(frozen=True)
class Known:
    """A root that the verifier knows from elsewhere, and what it means if the log has another."""

    where: str
    size: int
    root: bytes
    fault: Fault


@dataclass(frozen=True)
class OnChain:
    """What an owner has anchored, as the ledger itself tells it."""

    ledger: Domain
    anchors: frozenset[tuple[bytes, int, bytes]]  # transaction, size, root

    def lacks(self, checkpoint: Checkpoint, anchor: Anchor) -> bool:
        claimed = (anchor.transaction, checkpoint.size, checkpoint.root)
        return anchor.ledger == self.ledger and claimed not in self.anchors

    @property
    def known(self) -> list[Known]:
        where = "an anchor on the ledger"
        return [Known(where, size, root, Fault.ROOT) for _, size, root in sorted(self.anchors)]


def kept(content: bytes, pinned: Verifier, name: str) -> Known:
    """Return what a checkpoint from earlier tells; it must be of this log."""
    checkpoint = open_checkpoint(content, pinned, name)
    return Known(name, checkpoint.size, checkpoint.root, Fault.FORK)


def on_chain(ledger: Ledger, owner: bytes) -> OnChain:
    return OnChain(
        ledger.domain,
        frozenset(
            (receipt.transaction, event.size, event.root)
            for receipt in ledger.receipts()
            for event in receipt.events
            if isinstance(event, Anchored) and event.owner == owner
        ),
    )


class Heads:
    """The heads as the tree grows to meet them."""

    def __init__(
        self,
        checkpoints: Iterable[bytes],
        pinned: Verifier,
        known: Sequence[Known],
        chain: OnChain | None,
        findings: Findings,
    ) -> None:
        self.signed = self.anchors = 0
        self._findings = findings
        self._known = defaultdict(list)
        for each in (*known, *(chain.known if chain else ())):
            self._known[each.size].append(each)
        self._coming = self._opened(checkpoints, pinned, chain)
        self._next: Claim | None = None
        self._names: set[bytes] = set()
        self._first: set[bytes] = set()  # those that say that none was before
        self._before: list[tuple[str, bytes]] = []  # which head each says was before it
        self._last: Checkpoint | None = None

    def start(self) -> None:
        self._advance()
        self.meet(Frontier())

    def meet(self, frontier: Frontier) -> None:
        """Compare every root that is claimed for the leaves so far."""
        for each in self._known.pop(frontier.size, ()):
            self._compare(each.where, each.root, frontier, each.fault)
        while self._next and self._next[1].size == frontier.size:
            self._compare(self._next[0], self._next[1].root, frontier, Fault.ROOT)
            self._advance()

    def end(self, frontier: Frontier) -> None:
        """Say which heads the leaves do not reach, and which leaves no head."""
        size = frontier.size
        while self._next:
            where, checkpoint = self._next
            what = f"it is of {checkpoint.size} leaves, but there are only {size}"
            self._findings.add(Fault.MISSING, where, what)
            self._advance()
        for each in (known for group in self._known.values() for known in group):
            what = f"it is of {each.size} leaves, but the log has only {size}"
            self._findings.add(Fault.MISSING, each.where, what)
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

    def _compare(self, where: str, root: bytes, frontier: Frontier, fault: Fault) -> None:
        if root != frontier.root:
            what = f"the first {frontier.size} leaves have another root than it says"
            self._findings.add(fault, where, what)

    def _advance(self) -> None:
        self._next = next(self._coming, None)

    def _opened(
        self, checkpoints: Iterable[bytes], pinned: Verifier, chain: OnChain | None
    ) -> Iterator[Claim]:
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
            if anchor and chain and chain.lacks(checkpoint, anchor):
                self._findings.add(Fault.MISSING, where, "its anchor is not on the ledger")
            self._names.add(head_name(content))
            if before is None:
                self._first.add(head_name(content))
            else:
                self._before.append((where, before))
            self.signed += 1
            self.anchors += anchor is not None
            self._last = checkpoint
            yield where, checkpoint
