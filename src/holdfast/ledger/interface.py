"""The interface of a ledger, and the values that go in and come out.

A ledger is one audit contract, or the local state machine that equals it: it serves holdings of one
number of sectors a block. A call either takes effect and returns its receipt, or is refused
with a reason and changes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import groupby, pairwise
from typing import Protocol, get_args

from holdfast.errors import InputError, LedgerError, RefusedError
from holdfast.ledger.keccak import Tree, keccak
from holdfast.pdp import Challenge, Proof, PublicKey

NUMBER_BITS = 32  # of a holding among those of its owner
MAX_BATCH = 1024
PART = 128
WORD_BYTES = 32
LEAF_LEVEL = 2
LEAF_BYTES = WORD_BYTES << LEAF_LEVEL  # four words
SERIAL_BYTES = 8  # at the beginning of a seed
MAX_SERIAL = (1 << 8 * SERIAL_BYTES) - 1


class Reason(StrEnum):
    """Why a ledger refuses, in the contract's own words."""

    UNKNOWN = "unknown"
    OPEN = "open"
    LATE = "late"
    EARLY = "early"
    MALFORMED = "malformed"
    WRONG = "wrong"
    USED = "used"


_SENTENCES = {
    Reason.UNKNOWN: "the ledger knows no such holding, or nothing is open under that name",
    Reason.OPEN: "it is open on the ledger already",
    Reason.LATE: "it comes after its deadline",
    Reason.EARLY: "its deadline has not passed yet",
    Reason.MALFORMED: "it has values that no key, challenge or proof can have",
    Reason.WRONG: "the proof does not pass, and its node did not sign it",
    Reason.USED: "its seed was used before, or a later one; draw another challenge",
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
class Anchored:
    owner: bytes
    root: bytes
    size: int


Event = Registered | Opened | OpenedMany | Passed | Failed | TimedOut | Anchored
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
    """A proof, with the node's signature if it has to count even when it fails.

    `passes` is what the owner's own check says, if it was made. A contract checks for itself; the
    local ledger, which convinces only its owner, takes the owner's word. A node in the owner's
    own process gives its `reason` in words, what it is about as `objects`, which are for the owner
    alone, and what it read. No ledger gets these.
    """

    proof: Proof
    signature: bytes | None = None  # r, s, and the parity: 65 bytes
    passes: bool | None = None
    reason: str = ""
    objects: tuple[str, ...] = ()
    read_bytes: int = 0
    requests: int = 0


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
    """Many challenges opened in one transaction; a tree over their words names them.

    The words are in ascending order, so that none of them is there twice.
    """

    owner: bytes
    seed: bytes
    deadline: int
    words: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.words) <= MAX_BATCH:
            raise InputError(f"a batch has 1 to {MAX_BATCH} challenges, not {len(self.words)}")

    @cached_property
    def head(self) -> bytes:
        """What the ledger knows the batch by: a hash of its owner, seed and deadline."""
        return keccak(bytes(12) + self.owner + self.seed + self.deadline.to_bytes(32, "big"))

    @cached_property
    def tree(self) -> Tree:
        """The tree over the words, four in a leaf: it hashes 160 bytes, an inner node 64."""
        whole = b"".join(self.words)
        leaves = (whole[at : at + LEAF_BYTES] for at in range(0, len(whole), LEAF_BYTES))
        return Tree([keccak(self.head + leaf.ljust(LEAF_BYTES, b"\0")) for leaf in leaves])

    @property
    def root(self) -> bytes:
        return self.tree.root

    def challenge_id(self, index: int) -> bytes:
        """Return the name of a challenge of this batch on the ledger."""
        return keccak(self.holding(index).to_bytes(32, "big") + self.head + self.words[index])

    def holding(self, index: int) -> int:
        return holding_id(self.owner, Entry.decode(self.words[index]).number)

    @staticmethod
    def neighbours(indices: Iterable[int], limit: int = PART) -> Iterator[list[int]]:
        """Yield challenges that can be settled at once, at most `limit` at a time."""
        for _, near in groupby(sorted(indices), lambda index: index // PART):
            some = list(near)
            yield from (some[at : at + limit] for at in range(0, len(some), limit))

    def part(self, indices: Sequence[int], limit: int = PART) -> Part:
        """Return the smallest subtree that has all these challenges, at most `limit`."""
        if not indices or not 0 <= min(indices) <= max(indices) < len(self.words):
            raise InputError(f"the batch has {len(self.words)} challenges: name some of these")
        if len(indices) > limit:
            raise InputError(f"at most {limit} challenges are settled at once, not {len(indices)}")
        level = max((min(indices) ^ max(indices)).bit_length(), LEAF_LEVEL)
        if 2**level > PART:
            raise InputError(f"challenges settled at once must share a subtree of {PART}")
        start = min(indices) >> level << level
        words = self.words[start : start + 2**level]
        # The last subtree may be shorter, and then a lower one that holds the same words.
        level = max((len(words) - 1).bit_length(), LEAF_LEVEL)
        return Part(start, words, self.tree.path(start >> level, level - LEAF_LEVEL))


def ascending(words: Iterable[bytes]) -> bool:
    """Return whether a batch may have these words, in which none may be zero or repeated."""
    return all(word < after for word, after in pairwise((bytes(WORD_BYTES), *words)))


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
    """Raise if the proof doesn't fit the contract's number of words."""
    values = (proof.sigma, *proof.mu)
    if len(proof.mu) != sectors or not all(0 <= value < 2**256 for value in values):
        raise LedgerRefusedError(Reason.MALFORMED)


def check_whole(challenge: Challenge) -> None:
    if (challenge.start, challenge.stop) != (0, challenge.blocks):
        raise InputError("a challenge on a ledger is for the whole holding")


def challenge_name(holding: int, challenge: Challenge, target: bytes, deadline: int) -> bytes:
    """Return the name of a challenge that is opened by itself, which a node signs for.

    It binds the holding, and so the owner, the target and the deadline, so that no event about it
    can be about anything else.
    """
    bound = holding.to_bytes(32, "big") + challenge.id
    return keccak(bound + bytes(12) + target + deadline.to_bytes(32, "big"))


def serial_of(seed: bytes) -> int:
    """Return the number that a seed begins with."""
    return int.from_bytes(seed[:SERIAL_BYTES], "big")


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
            return challenge_name(holding, challenge, self.target, self.deadline)
        if challenge.seed != batch_seed(self.batch, holding):
            raise InputError("the challenge was not drawn from the seed of its batch")
        if challenge.samples >= 2**32:
            raise InputError("a challenge in a batch has fewer than 2^32 samples")
        number = holding % 2**NUMBER_BITS
        entry = Entry(self.target, number, challenge.samples, challenge.inventory_hash[:4])
        alone = Batch(owner_of(holding), self.batch, self.deadline, (entry.encode(),))
        return alone.challenge_id(0)


def fresh_seed(ledger: "Ledger", number: int, milliseconds: int, random_bytes: bytes) -> bytes:
    """Return a seed of a serial and 24 of these 32 random bytes, which `open` will accept.

    The serial is the time, or one more than the newest where that is ahead of our clock.
    """
    try:
        newest = ledger.newest_serial(number)
    except LedgerError:  # it can't be asked now: the time alone will do unless a clock was wrong
        newest = 0
    serial = min(max(milliseconds, newest + 1), MAX_SERIAL)
    return serial.to_bytes(SERIAL_BYTES, "big") + random_bytes[SERIAL_BYTES:]


class Ledger(Protocol):
    """A ledger as seen by one sender; times are whole seconds since 1970."""

    @property
    def sender(self) -> bytes: ...
    @property
    def sectors(self) -> int: ...
    @property
    def domain(self) -> Domain: ...

    @property
    def quiet_seconds(self) -> float:
        """For how long answers wait for more to share a transaction; 0 where that saves nothing."""

    def together(self) -> AbstractContextManager[None]:
        """Make the calls inside durable in one step at the end, where that is quicker.

        Every call still takes effect or is refused on its own.
        """

    def gas_price(self) -> int:
        """Return what a unit of gas costs now, in wei; 0 where there is none."""

    def register(self, public: PublicKey, node: bytes) -> Receipt: ...
    def key(self, holding: int) -> PublicKey:
        """Return the key under which a holding is registered, for the node to compare."""

    def newest_serial(self, number: int) -> int:
        """Return the serial of the newest challenge that was opened by itself; 0 if none was."""

    def open(self, number: int, challenge: Challenge, target: bytes, deadline: int) -> Receipt:
        """Open a challenge whose seed begins with a higher serial than all before it.

        The ledger forgets a challenge with its verdict, but never the serial: so a name that was
        used is never open again.
        """

    def open_many(self, batch: Batch) -> Receipt: ...

    def submit(self, holding: int, challenge: bytes, answer: Answer) -> Receipt:
        """Submit a proof. It passes, or it fails with its node's signature, or is refused."""

    def settle(self, batch: Batch, answers: Mapping[int, Answer]) -> Receipt:
        """Submit the proofs of neighbours in a batch, by their index.

        What is settled already is left out. Any other reason to refuse one refuses all.
        """

    def expire(self, holding: int, challenge: bytes) -> Receipt: ...
    def expire_many(self, batch: Batch, indices: Sequence[int]) -> Receipt: ...

    def anchor(self, root: bytes, size: int) -> Receipt: ...

    def receipts(self, since: int = 0) -> list[Receipt]:
        """Return what happened from that block on, as far as it is final."""

    def height(self) -> int:
        """Return the number of the newest block."""

    def reorganisations(self) -> int:
        """Return how many transactions of ours a reorganisation has moved or dropped so far."""

    def reconcile(self) -> list[Receipt]:
        """Conclude what a crash left under way, and what a reorganisation has undone."""
