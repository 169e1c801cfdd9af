"""Checks every proof again, from public values alone.

The audits of a key that passed are checked as one equation, weighted by 128 random bits each, so
that an audit costs one multiplication on the curve instead of S + 2; a wrong one hides with
probability 2^-128. If the equation does not hold, its audits are checked one by one.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.errors import InputError, MalformedError
from holdfast.evidence.leaf import Audit, Outcome, Registration, decode
from holdfast.evidence.log import Entry
from holdfast.ledger.keccak import keccak
from holdfast.ledger.signing import signer
from holdfast.pdp import Proof, PublicKey, curve, verify_in_public
from holdfast.pdp.field import SCALAR_BYTES, Q

WEIGHT_BITS = 128


@dataclass
class Equation:
    """sum r_i sigma_i G == sum r_i T_i + sum_j (sum r_i mu_ij) A_j over audits i of one key."""

    public: PublicKey
    mu: list[int]
    sigma: int = 0
    target: curve.Point = None

    def add(self, target: curve.Point, proof: Proof) -> None:
        weight = secrets.randbits(WEIGHT_BITS)
        self.sigma += weight * proof.sigma
        pairs = zip(self.mu, proof.mu, strict=True)
        self.mu = [total + weight * value for total, value in pairs]
        self.target = curve.total([self.target, curve.times(target, weight)])

    def holds(self) -> bool:
        pairs = zip(self.public.points, self.mu, strict=True)
        right = curve.total([self.target, *(curve.times(point, value) for point, value in pairs)])
        return curve.encode(right) == curve.encode(curve.times_base(self.sigma))


@dataclass
class Recheck:
    """The proofs of a log as they come by; `find_faults` says at once what is wrong with one."""

    keys: dict[bytes, PublicKey] = field(default_factory=dict)
    named: set[bytes] = field(default_factory=set)  # keys that audits named
    equations: dict[bytes, Equation] = field(default_factory=dict)
    checked: int = 0
    gone: int = 0  # not re-checkable, as the proof is no longer there

    def find_faults(self, audit: Audit, content: bytes | None) -> Iterator[str]:
        """Yield what is wrong, but for proofs that passed: those wait for their equation."""
        public = self.keys.get(audit.holding.key)
        self.named.add(audit.holding.key)
        try:
            if audit.opening.name != audit.name_on_ledger:
                yield "its challenge has another name on the ledger than its content gives"
            target = curve.decode(audit.target, "its target")
        except InputError as error:
            yield str(error)
            return
        yield from _contradictions(audit)
        if public is None:
            yield "no public key with the id that it names"
        elif content is None:
            self.gone += audit.proof is not None
        elif audit.proof != keccak(content):
            yield "the proof beside it is not the one it names"
        else:
            self.checked += 1
            yield from self._judge(audit, _proof(audit, content), public, target)

    def _judge(
        self, audit: Audit, proof: Proof, public: PublicKey, target: curve.Point
    ) -> Iterator[str]:
        if audit.outcome == Outcome.PASSED:
            if not _fits(proof, public):
                yield "it passed, but with a proof that can't pass"
            else:
                empty = Equation(public, [0] * public.sectors)
                self.equations.setdefault(public.id, empty).add(target, proof)
        elif audit.outcome == Outcome.FAILED and _passes(audit, proof, public):
            yield "it failed, but its proof passes"
        if audit.signature and _signer(audit, proof) != audit.holding.node:
            yield "its node did not sign the proof"

    def suspects(self) -> set[bytes]:
        """Return the keys of which some audit passed with a proof that does not."""
        return {key for key, equation in self.equations.items() if not equation.holds()}

    def is_refuted(self, entry: Entry, suspects: set[bytes]) -> bool:
        """Return whether this is an audit of a suspect that passed with a proof that does not."""
        if entry.proof is None:
            return False
        try:
            audit = decode(entry.leaf)
        except MalformedError:  # a finding already
            return False
        if not isinstance(audit, Audit) or audit.holding.key not in suspects:
            return False
        public, proof = self.keys[audit.holding.key], _proof(audit, entry.proof)
        fits = audit.proof == keccak(entry.proof) and _fits(proof, public)
        return audit.outcome == Outcome.PASSED and fits and not _passes(audit, proof, public)

    def check_registration(self, leaf: Registration) -> Iterator[str]:
        public = self.keys.get(leaf.holding.key)
        self.named.add(leaf.holding.key)
        if public is None:
            yield "no public key with the id that it names"
        elif public.sectors != leaf.sectors:
            yield "its public key has another number of sectors"


def _contradictions(audit: Audit) -> Iterator[str]:
    """Yield where an audit's outcome contradicts what else its leaf says."""
    if audit.outcome == Outcome.PASSED and audit.proof is None:
        yield "it passed without a proof"
    if audit.outcome == Outcome.FAILED and not (audit.signature or audit.reason):
        yield "it failed with neither the node's signature nor a reason"
    if audit.outcome == Outcome.ADMITTED and audit.proof is not None:
        yield "its node admitted a loss, and yet there is a proof"
    if audit.outcome == Outcome.ADMITTED and audit.sent_at is None:
        yield "its node admitted a loss without having been asked"
    if audit.signature and audit.proof is None:
        yield "it has a signature, but of no proof"


def _passes(audit: Audit, proof: Proof, public: PublicKey) -> bool:
    return verify_in_public(public, audit.public_target, audit.challenge, proof)


def _proof(audit: Audit, content: bytes) -> Proof:
    """Return the proof whose scalars these are; other lengths give one that fits no key."""
    starts = range(0, len(content), SCALAR_BYTES)
    scalars = [int.from_bytes(content[at : at + SCALAR_BYTES], "big") for at in starts]
    if len(content) % SCALAR_BYTES or len(scalars) < 2:
        return Proof(audit.challenge.id, 0, ())
    return Proof(audit.challenge.id, scalars[0], tuple(scalars[1:]))


def _fits(proof: Proof, public: PublicKey) -> bool:
    values = (proof.sigma, *proof.mu)
    return len(proof.mu) == public.sectors and all(value < Q for value in values)


def _signer(audit: Audit, proof: Proof) -> bytes | None:
    holding = audit.holding
    return signer(audit.signature, holding.domain, holding.id, audit.opening.name, proof)
