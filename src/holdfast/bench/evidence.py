"""How fast a bundle of audits verifies, against checking each of its proofs by itself.

Every proof is made to pass: sigma and mu are drawn, and the target is what they need.
"""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.bench.clock import best_times
from holdfast.evidence.bundle import Bundle, write_bundle
from holdfast.evidence.checkpoint import Checkpoint
from holdfast.evidence.leaf import (
    Audit,
    Choice,
    Decision,
    Freshness,
    Holding,
    Opening,
    Outcome,
    Policy,
    Telemetry,
    Transaction,
    encode,
)
from holdfast.evidence.log import Entry
from holdfast.evidence.note import Signer, Verifier
from holdfast.evidence.tree import leaf_hash, root_of
from holdfast.evidence.verification import verify
from holdfast.ledger import check
from holdfast.model.action import Action
from holdfast.model.observation import Observation
from holdfast.pdp import Challenge, Proof, PublicKey, SecretKey, curve, verify_in_public
from holdfast.pdp.field import Q

SECTORS = (1, 16, 128)
SIGNER = Signer("bench", bytes(32))

Audited = tuple[Audit, Proof]


def measure(
    rounds: int, say: Callable[[str], None], audits: int = 1000, sectors: tuple[int, ...] = SECTORS
) -> dict[str, dict[str, float]]:
    """Return the ratios, and leaves per second and bytes per audit of each S."""
    ratio, speed, size = {}, {}, {}
    for count in sectors:
        say(f"{audits} audits of {count} sectors a block: as a log, and proof by proof")
        name = f"S{count}"
        public = SecretKey.generate(count).public
        audited = [_audit(public, number) for number in range(1, audits + 1)]
        with TemporaryDirectory() as folder:
            path = Path(folder) / "audits.bundle"
            write_bundle(_Log(public, tuple(audited)), path)
            times = best_times(_contenders(path, public, audited), rounds)
            size[name] = path.stat().st_size / audits
        ratio[name] = times["single"] / times["log"]
        speed[name] = audits / times["log"]
    return {"proofs_over_log": ratio, "leaves_per_second": speed, "bytes_per_audit": size}


def _contenders(
    path: Path, public: PublicKey, audited: list[Audited]
) -> dict[str, Callable[[], object]]:
    bundle = Bundle.open(path)
    return {
        "log": lambda: verify(bundle, bundle.verifier),
        "single": lambda: [
            verify_in_public(public, audit.public_target, audit.challenge, proof)
            for audit, proof in audited
        ],
    }


@dataclass(frozen=True)
class _Log:
    public: PublicKey
    audited: tuple[Audited, ...]

    @property
    def verifier(self) -> Verifier:
        return SIGNER.verifier

    @property
    def size(self) -> int:
        return len(self.audited)

    def public_keys(self) -> Iterator[PublicKey]:
        yield self.public

    def checkpoints(self) -> Iterator[bytes]:
        root = root_of([leaf_hash(entry.leaf) for entry in self.entries()])
        yield Checkpoint(SIGNER.name, self.size, root).sign(SIGNER)

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        for audit, proof in self.audited[start:stop]:
            yield Entry(encode(audit), check.encode(proof))


def _audit(public: PublicKey, number: int) -> Audited:
    challenge = Challenge(secrets.token_bytes(32), bytes(32), 10**6, 460, 0, 10**6)
    sigma, *mu = (secrets.randbelow(Q) for _ in range(public.sectors + 1))
    proof = Proof(challenge.id, sigma, tuple(mu))
    terms = [curve.times(A, Q - m) for A, m in zip(public.points, mu, strict=True)]
    target = curve.total([curve.times_base(sigma), *terms])
    seen = Telemetry(Freshness.FRESH, Observation(0.5, 0.5, 0.5, 0.0, 1.0), 0)
    choice = Choice(Policy("bench", bytes(32)), Action(7, 0.05))
    audit = Audit(
        at=number,
        holding=Holding(0, bytes(20), 1, public.id, bytes(20)),
        number=number,
        decision=Decision(0, seen, choice, None, ()),
        due_at=0,
        challenge=challenge,
        target=curve.encode(target),
        opening=Opening(challenge.id, number, None),
        sent_at=0,
        answered_at=0,
        outcome=Outcome.PASSED,
        reason="",
        proof=check.digest(proof),
        signature=None,
        verdict=Transaction(bytes(32), number, 31_553),
    )
    opening = replace(audit.opening, name=audit.name_on_ledger)
    return replace(audit, opening=opening), proof
