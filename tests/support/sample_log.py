"""A small log of two holdings with real challenges, proofs and signatures, and ways to grow it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

from coincurve import PrivateKey
from tests.support.memory_holding import Holding as Store

from holdfast.evidence.checkpoint import Anchor, Checkpoint, with_anchor
from holdfast.evidence.leaf import (
    Audit,
    Change,
    Choice,
    ConfigurationChange,
    Decision,
    Freshness,
    Holding,
    Leaf,
    Opening,
    Outcome,
    Override,
    Policy,
    PolicyChange,
    Registration,
    Response,
    Setting,
    Span,
    Step,
    Telemetry,
    Transaction,
    encode,
)
from holdfast.evidence.log import Entry
from holdfast.evidence.note import Signer, Verifier
from holdfast.evidence.tree import leaf_hash, root_of
from holdfast.ledger import check, signing
from holdfast.ledger.interface import Domain, batch_seed, holding_id
from holdfast.ledger.keccak import address_of
from holdfast.model.action import Action
from holdfast.model.observation import Observation
from holdfast.pdp import Proof, PublicKey, draw_challenge, target_of

SIGNER = Signer("example.org/evidence", b"\x01" * 32)
NODE = PrivateKey(b"\x07" * 32)
LEDGER = Domain(5, b"\xcc" * 20)
OWNER = b"\xaa" * 20
POLICY = Policy("drqn-cmdp-plus", b"\x11" * 32)
SHADOW = Policy("belief", b"\x22" * 32)
MINUTE = 60_000
START = 1_900_000_000_000
SEEN = Telemetry(Freshness.FRESH, Observation(0.5, 0.25, 0.125, 0.0, 1.0), START)
CHOSEN = Choice(POLICY, Action(7, 0.05))
DECISION = Decision(START, SEEN, CHOSEN, Choice(SHADOW, Action(14, 0.05)), ())
STALE = Decision(
    START,
    replace(SEEN, freshness=Freshness.STALE, at=START - 90 * MINUTE),
    CHOSEN,
    None,
    (Override("stale-telemetry", "the telemetry is stale", Action(1, 0.10)),),
)


def transaction(number: int) -> Transaction:
    return Transaction(number.to_bytes(32, "big"), number, 31_553)


@dataclass(frozen=True)
class Kept:
    """A holding on a node: what it stores, and its name in the evidence."""

    store: Store
    number: int

    @property
    def name(self) -> Holding:
        key = self.store.key.public.id
        node = address_of(NODE.public_key)
        holding = holding_id(OWNER, self.number)
        return Holding(LEDGER.chain, LEDGER.contract, holding, key, node)

    def audit(
        self,
        number: int,
        *,
        outcome: Outcome = Outcome.PASSED,
        decision: Decision = DECISION,
        batch: bytes | None = None,
        signed: bool = False,
        reason: str = "",
    ) -> tuple[Audit, Proof | None]:
        """Return an audit an hour after the one before, as an honest control plane records it."""
        name, at = self.name, START + number * 60 * MINUTE
        seed = batch_seed(batch, name.id) if batch else bytes([self.number, number] * 16)
        challenge = draw_challenge(self.store.inventory, 3, seed=seed)
        target = target_of(self.store.key, self.store.inventory, challenge)
        answered = outcome in {Outcome.PASSED, Outcome.FAILED}
        proof = self.store.prove(challenge) if answered else None
        if proof and outcome == Outcome.FAILED:
            proof = replace(proof, sigma=proof.sigma ^ 1)
        opening = Opening(challenge.id, at + 10 * MINUTE, batch)
        audit = Audit(
            at=at + MINUTE,
            holding=name,
            number=number,
            decision=replace(
                decision,
                at=at - 30 * MINUTE,
                telemetry=moved(decision.telemetry, number),
            ),
            due_at=at - MINUTE,
            challenge=challenge,
            target=target.point,
            opening=opening,
            sent_at=at,
            answered_at=at + 40 if answered else None,
            outcome=outcome,
            reason=reason,
            proof=check.digest(proof) if proof else None,
            signature=None,
            verdict=transaction(number),
        )
        audit = replace(audit, opening=replace(opening, name=audit.name_on_ledger))
        if signed and proof:
            signature = signing.sign(NODE, LEDGER, name.id, audit.opening.name, proof)
            audit = replace(audit, signature=signature)
        return audit, proof


def moved(telemetry: Telemetry, number: int) -> Telemetry:
    shift = (number - 1) * 60 * MINUTE
    return replace(telemetry, at=None if telemetry.at is None else telemetry.at + shift)


@dataclass
class Record:
    """A log in memory, which an operator can do with as it likes."""

    entries_: list[Entry] = field(default_factory=list)
    notes: list[bytes] = field(default_factory=list)
    keys: dict[bytes, PublicKey] = field(default_factory=dict)
    signer: Signer = SIGNER
    claimed: int | None = None

    @property
    def verifier(self) -> Verifier:
        return self.signer.verifier

    @property
    def size(self) -> int:
        return len(self.entries_) if self.claimed is None else self.claimed

    def public_keys(self) -> Iterator[PublicKey]:
        return (self.keys[key] for key in sorted(self.keys))

    def checkpoints(self) -> Iterator[bytes]:
        return iter(self.notes)

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        return iter(self.entries_[start:stop])

    def add(self, leaf: Leaf, proof: Proof | None = None) -> None:
        beside = check.encode(proof) if proof else None
        self.entries_.append(Entry(encode(leaf), beside))

    def head(self) -> Checkpoint:
        root = root_of([leaf_hash(entry.leaf) for entry in self.entries_])
        return Checkpoint(self.signer.name, len(self.entries_), root)

    def sign(self, anchor: Anchor | None = None) -> None:
        head = with_anchor(self.head(), anchor) if anchor else self.head()
        self.notes.append(head.following(self.notes[-1] if self.notes else None).sign(self.signer))

    def copy(self) -> "Record":
        return replace(self, entries_=[*self.entries_], notes=[*self.notes], keys={**self.keys})


@cache
def holdings() -> tuple[Kept, Kept]:
    first, second = (Store.of(31 * 2 * 5 - 1, sectors=2, seed=seed) for seed in (1, 2))
    return Kept(first, 1), Kept(second, 2)


def sample() -> Record:
    """Return a log about proofs, with every kind of leaf and of outcome, and an anchor."""
    return _sample().copy()


@cache
def _sample() -> Record:
    record = Record()
    first, second = holdings()
    for kept in (first, second):
        public = kept.store.key.public
        record.keys[public.id] = public
        record.add(Registration(START, kept.name, public.sectors, transaction(kept.number)))
    record.add(PolicyChange(START, Change.PROMOTED, POLICY, SHADOW, "operator", "it misses less"))
    record.add(*first.audit(1))
    record.sign()
    record.add(*second.audit(1, batch=b"b" * 32, decision=STALE))
    record.add(*first.audit(2, outcome=Outcome.FAILED, signed=True))
    blocks = (Span(2, 3),)
    at = START + 122 * MINUTE
    record.add(Response(at, first.name, 2, Step.LOCALISED, blocks, "1 block of 5"))
    setting = Setting("rails.max_interval", "14", "7")
    record.add(ConfigurationChange(at, b"\x33" * 32, (setting,), "operator"))
    record.sign()
    record.sign(Anchor(LEDGER, b"\x44" * 32, 17))
    record.add(*second.audit(2, outcome=Outcome.TIMED_OUT))
    record.add(*second.audit(3, outcome=Outcome.FAILED, reason="the answer was no proof"))
    record.add(*first.audit(3))
    record.sign()
    return record
