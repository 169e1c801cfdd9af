"""What every ledger offers, and the values that go in and come out.

A ledger is one audit contract, or the local state machine that equals it: it serves holdings of one
number of sectors a block. A call either takes effect and returns its receipt, or is refused
with a reason and changes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import groupby
from typing import Protocol, get_args

from holdfast.errors import InputError, RefusedError
from holdfast.ledger.keccak import Tree, keccak
from holdfast.pdp import Challenge, Proof, PublicKey

NUMBER_BITS = 32  # of a holding among those of its owner
MOST_AT_ONCE = 1024
PART = 128
WORD_BYTES = 32


class Reason(StrEnum):
    """Why a ledger refuses, in the contract's own words."""

    UNKNOWN = "unknown"
    OPEN = "open"
    LATE = "late"
    EARLY = "early"
    MALFORMED = "malformed"
    WRONG = "wrong"
    UPHELD = "upheld"


_SENTENCES = {
    Reason.UNKNOWN: "the ledger knows no such holding, or nothing is open under that name",
    Reason.OPEN: "it is open on the ledger already",
    Reason.LATE: "it comes after its deadline",
    Reason.EARLY: "its deadline has not passed yet",
    Reason.MALFORMED: "it has values that no key, challenge or proof can have",
    Reason.WRONG: "the proof does not pass, and its node did not sign it",
    Reason.UPHELD: "the check confirms the verdict that was contested",
}


class LedgerRefusedError(RefusedError):
    """The ledger refused a call, which therefore changed nothing."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(f"the ledger refused the call ({reason}): {_SENTENCES[reason]}")
        self.reason = reason


@dataclass(frozen=True)
class Registered:
    holding: int
    node: bytes


@dataclass(frozen=True)
class Opened:
    holding: int
    challenge: bytes
    seed: bytes
    inventory: bytes
    blocks: int
    samples: int
    target: bytes
    deadline: int


@dataclass(frozen=True)
class OpenedMany:
    root: bytes
    owner: bytes
    seed: bytes
    deadline: int
    words: tuple[bytes, ...]


@dataclass(frozen=True)
class Passed:
    holding: int
    challenge: bytes


@dataclass(frozen=True)
class Failed:
    holding: int
    challenge: bytes
    digest: bytes


@dataclass(frozen=True)
class TimedOut:
    holding: int
    challenge: bytes


@dataclass(frozen=True)
class Posted:
    holding: int
    challenge: bytes
    digest: bytes
    passed: bool
    until: int


@dataclass(frozen=True)
class PostedMany:
    owner: bytes
    root: bytes
    until: int


@dataclass(frozen=True)
class Contested:
    """A verdict was overturned: `passed` is what the check found."""

    holding: int
    challenge: bytes
    passed: bool


@dataclass(frozen=True)
class Anchored:
    owner: bytes
    root: bytes
    size: int


Event = (
    Registered
    | Opened
    | OpenedMany
    | Passed
    | Failed
    | TimedOut
    | Posted
    | PostedMany
    | Contested
    | Anchored
)
EVENTS: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}


@dataclass(frozen=True)
class Receipt:
    transaction: bytes
    block: int
    gas: int
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Domain:
    """Which ledger a node's signature is meant for."""

    chain: int
    contract: bytes


@dataclass(frozen=True)
class Answer:
    """A proof, with the node's signature if it has to count even when it fails."""

    proof: Proof
    signature: bytes | None = None  # r, s, and the parity: 65 bytes


@dataclass(frozen=True)
class Entry:
    """A challenge in a batch, as one word. The target binds the whole hash of the inventory."""

    target: bytes
    number: int
    samples: int
    inventory: bytes  # the hash's first 4 bytes, to show a disagreement before any proof

    def encode(self) -> bytes:
        numbers = self.number.to_bytes(4, "big") + self.samples.to_bytes(4, "big")
        return self.target + numbers + self.inventory

    @classmethod
    def decode(cls, word: bytes) -> "Entry":
        number, samples = (int.from_bytes(word[at : at + 4], "big") for at in (20, 24))
        return cls(word[:20], number, samples, word[28:])


@dataclass(frozen=True)
class Part:
    """Neighbours in a batch and the way from their subtree's root to the root of all."""

    start: int
    words: tuple[bytes, ...]
    path: tuple[bytes, ...]


@dataclass(frozen=True)
class Batch:
    """Many challenges opened at once; each leaf of their tree binds all that concerns one."""

    owner: bytes
    seed: bytes
    deadline: int
    words: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.words) <= MOST_AT_ONCE:
            raise InputError(f"a batch has 1 to {MOST_AT_ONCE} challenges, not {len(self.words)}")

    @cached_property
    def tree(self) -> Tree:
        head = keccak(bytes(12) + self.owner + self.seed + self.deadline.to_bytes(32, "big"))
        return Tree([keccak(head + word) for word in self.words])

    @property
    def root(self) -> bytes:
        return self.tree.root

    def challenge_id(self, index: int) -> bytes:
        """Return the name of a challenge of this batch on the ledger."""
        return self.tree.levels[0][index]

    def holding(self, index: int) -> int:
        return holding_id(self.owner, Entry.decode(self.words[index]).number)

    @staticmethod
    def neighbours(indices: Iterable[int], most: int = PART) -> Iterator[list[int]]:
        """Yield challenges that can be settled at once, `most` of them at most, until all are."""
        for _, near in groupby(sorted(indices), lambda index: index // PART):
            some = list(near)
            yield from (some[at : at + most] for at in range(0, len(some), most))

    def part(self, indices: Sequence[int], most: int = PART) -> Part:
        """Return the smallest subtree that has all these challenges, `most` of them at most."""
        if not indices or not 0 <= min(indices) <= max(indices) < len(self.words):
            raise InputError(f"the batch has {len(self.words)} challenges: name some of these")
        if len(indices) > most:
            raise InputError(f"at most {most} challenges are settled at once, not {len(indices)}")
        level = (min(indices) ^ max(indices)).bit_length()
        if 2**level > PART:
            raise InputError(f"challenges settled at once must share a subtree of {PART}")
        start = min(indices) >> level << level
        words = self.words[start : start + 2**level]
        # The last subtree may be shorter, and then a lower one that holds the same words.
        level = (len(words) - 1).bit_length()
        return Part(start, words, self.tree.path(start >> level, level))


@dataclass(frozen=True)
class Verdict:
    """What an owner says about a challenge: it stands unless it is contested in time."""

    holding: int
    challenge: bytes
    target: bytes
    digest: bytes
    passed: bool

    def encode(self) -> bytes:
        holding, passed = self.holding.to_bytes(32, "big"), self.passed.to_bytes(32, "big")
        return holding + self.challenge + bytes(12) + self.target + self.digest + passed

    @property
    def leaf(self) -> bytes:
        return keccak(self.encode())


def holding_id(owner: bytes, number: int) -> int:
    return int.from_bytes(owner, "big") << NUMBER_BITS | number


def owner_of(holding: int) -> bytes:
    return (holding >> NUMBER_BITS).to_bytes(20, "big")


def max_answers(sectors: int) -> int:
    """Return how many proofs the contract takes in one transaction."""
    return max(PART // sectors, 1)


def check_owner(batch: Batch, sender: bytes) -> None:
    if batch.owner != sender:
        raise InputError("the batch belongs to another owner: only its owner can open it")


def check_words(proof: Proof, sectors: int) -> None:
    """Raise if the proof can't even be told to the contract, which takes so many words."""
    values = (proof.sigma, *proof.mu)
    if len(proof.mu) != sectors or not all(0 <= value < 2**256 for value in values):
        raise LedgerRefusedError(Reason.MALFORMED)


def check_whole(challenge: Challenge) -> None:
    if (challenge.start, challenge.stop) != (0, challenge.blocks):
        raise InputError("a challenge on a ledger is for the whole holding")


def challenge_name(challenge: Challenge, target: bytes, deadline: int) -> bytes:
    """Return the name of a challenge on the ledger, which a node signs for.

    It binds the target and the deadline: else an owner could open an old challenge again and
    bring what the node signed then.
    """
    return keccak(challenge.id + bytes(12) + target + deadline.to_bytes(32, "big"))


def batch_seed(seed: bytes, holding: int) -> bytes:
    """Return the seed of one holding's challenge in a batch."""
    return keccak(b"holdfast/v1/batch-seed\0" + seed + holding.to_bytes(32, "big"))


@dataclass(frozen=True)
class Opening:
    """How a challenge was opened on a ledger, by itself or in a batch with a seed."""

    target: bytes
    deadline: int
    batch: bytes | None = None

    def name(self, holding: int, challenge: Challenge) -> bytes:
        """Return the name that the challenge has on the ledger; raise if it can't be the one."""
        check_whole(challenge)
        if self.batch is None:
            return challenge_name(challenge, self.target, self.deadline)
        if challenge.seed != batch_seed(self.batch, holding):
            raise InputError("the challenge was not drawn from the seed of its batch")
        if challenge.samples >= 2**32:
            raise InputError("no batch has a challenge of so many samples")
        number = holding % 2**NUMBER_BITS
        entry = Entry(self.target, number, challenge.samples, challenge.inventory_hash[:4])
        alone = Batch(owner_of(holding), self.batch, self.deadline, (entry.encode(),))
        return alone.challenge_id(0)


class Ledger(Protocol):
    """A ledger as seen by one sender; times are whole seconds since 1970."""

    @property
    def sender(self) -> bytes: ...
    @property
    def sectors(self) -> int: ...
    @property
    def domain(self) -> Domain: ...

    def gas_price(self) -> int:
        """Return what a unit of gas costs now, in wei; 0 where there is none."""

    def register(self, public: PublicKey, node: bytes) -> Receipt: ...
    def key(self, holding: int) -> PublicKey:
        """Return the key under which a holding is registered, for the node to compare."""

    def open(self, number: int, challenge: Challenge, target: bytes, deadline: int) -> Receipt: ...
    def open_many(self, batch: Batch) -> Receipt: ...

    def submit(self, holding: int, challenge: bytes, answer: Answer) -> Receipt:
        """Bring a proof. It passes, or it fails with its node's signature, or is refused."""

    def settle(self, batch: Batch, answers: Mapping[int, Answer]) -> Receipt:
        """Bring the proofs of neighbours in a batch, by their index; all of them or none."""

    def expire(self, holding: int, challenge: bytes) -> Receipt: ...
    def expire_many(self, batch: Batch, indices: Sequence[int]) -> Receipt: ...

    def post(self, number: int, challenge: bytes, digest: bytes, *, passed: bool) -> Receipt:
        """Post the owner's verdict on an open challenge, to be contested within the window."""

    def post_many(self, root: bytes) -> Receipt:
        """Post verdicts on challenges that were never opened, by the root of their tree."""

    def contest(self, verdict: Verdict, until: int, proof: Proof) -> Receipt:
        """Overturn a verdict: one of failure by a proof that passes, one of success by its own."""

    def contest_many(
        self, verdict: Verdict, index: int, path: Sequence[bytes], proof: Proof
    ) -> Receipt: ...
    def anchor(self, root: bytes, size: int) -> Receipt: ...

    def receipts(self, since: int = 0) -> list[Receipt]:
        """Return what happened from that block on, as far as it is final."""

    def height(self) -> int:
        """Return the number of the newest block."""

    def reorganisations(self) -> int:
        """Return how many transactions of ours a reorganisation has moved or dropped so far."""

    def reconcile(self) -> list[Receipt]:
        """Conclude what a crash left under way, and what a reorganisation has undone."""
