"""The check of a proof: in the scalar form with the key, in the lifted form with public values.

The scalar form must never run where others can see it: sigma, mu and tau of one audit together give
an equation for the alphas (for S = 1, their value). The lifted form multiplies it by the
generator: sigma G == T + sum_j mu_j A_j, with T = tau G and A_j = alpha_j G public.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from holdfast.errors import InputError
from holdfast.pdp import curve, encoding
from holdfast.pdp.challenge import Challenge
from holdfast.pdp.field import Q
from holdfast.pdp.inventory import HASH_BYTES, KEY_ID_BYTES, Inventory
from holdfast.pdp.keys import PublicKey, SecretKey
from holdfast.pdp.limbs import weighted_scalars
from holdfast.pdp.proof import Proof


@dataclass(frozen=True)
class Target:
    """T = tau G of one challenge: what the owner publishes so that anyone can check the answer."""

    key_id: bytes
    challenge_id: bytes
    point: bytes  # compressed

    def encode(self) -> bytes:
        fields = {
            "key_id": self.key_id.hex(),
            "challenge_id": self.challenge_id.hex(),
            "point": self.point.hex(),
        }
        return encoding.dump("target", fields)

    @classmethod
    def decode(cls, content: bytes, name: str = "target") -> Self:
        fields = encoding.load("target", content, name)
        target = cls(
            fields.hex("key_id", KEY_ID_BYTES),
            fields.hex("challenge_id", HASH_BYTES),
            fields.hex("point", curve.POINT_BYTES),
        )
        fields.end()
        curve.decode(target.point, f"{name}: 'point'")
        return target


@dataclass(frozen=True, repr=False)
class Expectation:
    """What only the owner knows of a challenge: its tau. The target and the check follow from it.

    It is as secret as the key: together with a proof it gives an equation for the alphas.
    """

    key: SecretKey
    challenge: Challenge
    tau: int

    def target(self) -> Target:
        point = curve.times_base(self.tau)
        return Target(self.key.public.id, self.challenge.id, curve.encode(point))

    def passes(self, proof: Proof) -> bool:
        """Return whether sigma == tau + sum_j alpha_j mu_j mod q. Shows nobody anything."""
        if not _fits(self.challenge, proof, self.key.sectors):
            return False
        products = sum(a * m for a, m in zip(self.key.alphas, proof.mu, strict=True))
        return (self.tau + products - proof.sigma) % Q == 0


def expect(key: SecretKey, inventory: Inventory, challenge: Challenge) -> Expectation:
    """Work out what a right answer to the challenge must satisfy."""
    return Expectation(key, challenge, _tau(key, inventory, challenge))


def target_of(key: SecretKey, inventory: Inventory, challenge: Challenge) -> Target:
    return expect(key, inventory, challenge).target()


def verify_with_key(
    key: SecretKey, inventory: Inventory, challenge: Challenge, proof: Proof
) -> bool:
    """Return whether the proof passes by the owner's own check in the field."""
    if not _fits(challenge, proof, key.sectors):
        return False
    return expect(key, inventory, challenge).passes(proof)


def verify_in_public(public: PublicKey, target: Target, challenge: Challenge, proof: Proof) -> bool:
    """Return whether sigma G == T + sum_j mu_j A_j, from public values alone."""
    if target.challenge_id != challenge.id:
        raise InputError("the target belongs to another challenge")
    if target.key_id != public.id:
        raise InputError("the target belongs to another public key")
    if not _fits(challenge, proof, public.sectors):
        return False
    terms = [curve.times(point, m) for point, m in zip(public.points, proof.mu, strict=True)]
    right = curve.total([curve.decode(target.point), *terms])
    return curve.encode(right) == curve.encode(curve.times_base(proof.sigma))


def _fits(challenge: Challenge, proof: Proof, sectors: int) -> bool:
    return (
        proof.challenge_id == challenge.id
        and len(proof.mu) == sectors
        and all(0 <= value < Q for value in (proof.sigma, *proof.mu))
    )


def _tau(key: SecretKey, inventory: Inventory, challenge: Challenge) -> int:
    """Return sum_i v_i PRF_K(i), which only the owner can."""
    if (inventory.key_id, inventory.sectors) != (key.public.id, key.sectors):
        raise InputError("the inventory belongs to another key")
    if (challenge.inventory_hash, challenge.blocks) != (inventory.hash, inventory.blocks):
        raise InputError("the challenge belongs to another inventory, or to an older state of it")
    sample = challenge.sample
    borders = np.searchsorted(sample.indices, inventory.starts)
    tau = 0
    for k, entry in enumerate(inventory.files):
        part = slice(int(borders[k]), int(borders[k + 1]))
        if part.start < part.stop:
            indices = sample.indices[part] - inventory.starts[k]
            prf = key.prf(entry.file_id, entry.version, entry.nonce)
            tau += weighted_scalars(sample.coefficients[part], prf.scattered(indices))
    return tau % Q
