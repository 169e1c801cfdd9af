"""The key pair of a holding: one master secret, from which all else is derived.

Derived are the PRF key of each file version and the scalars alpha_1..alpha_S; public are the points
A_j = alpha_j G. Every A_j has an even y (alpha_j is negated where it has not), so that x suffices.

A version's nonce enters its PRF key. It is drawn whenever a file is tagged, so that no two contents
share their pseudorandom numbers, whatever the owner has forgotten.
"""

import hashlib
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from coincurve import PublicKey as CurvePoint
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from holdfast.errors import InputError
from holdfast.pdp import curve, encoding
from holdfast.pdp.field import DEFAULT_SECTORS, MAX_SECTORS, SCALAR_BYTES, Q
from holdfast.pdp.limbs import Floats, Layout
from holdfast.pdp.prf import BlockPrf

MASTER_BYTES = 32
FILE_ID_BYTES = 16
NONCE_BYTES = 32
MAX_VERSION = 2**63 - 1


def draw_nonce() -> bytes:
    """Return fresh randomness for one tagging of one file."""
    return secrets.token_bytes(NONCE_BYTES)


def check_sectors(sectors: int) -> int:
    if not 1 <= sectors <= MAX_SECTORS:
        raise InputError(f"sectors per block must be between 1 and {MAX_SECTORS}, not {sectors}")
    return sectors


@dataclass(frozen=True)
class PublicKey:
    """What the world knows of a key: the x of each A_j."""

    abscissas: tuple[bytes, ...]

    @property
    def sectors(self) -> int:
        return len(self.abscissas)

    @property
    def layout(self) -> Layout:
        return Layout(self.sectors)

    @cached_property
    def points(self) -> tuple[CurvePoint, ...]:
        return tuple(
            curve.lift(x, f"public key point {j}") for j, x in enumerate(self.abscissas, start=1)
        )

    @cached_property
    def id(self) -> bytes:
        """The name of the key, which enters the inventory hash and so every challenge."""
        return hashlib.sha256(b"holdfast/v1/key\0" + b"".join(self.abscissas)).digest()

    def encode(self) -> bytes:
        return encoding.dump("public-key", {"points": [x.hex() for x in self.abscissas]})

    @classmethod
    def decode(cls, content: bytes, name: str = "public key") -> Self:
        fields = encoding.load("public-key", content, name)
        points = fields.items("points", at_least=1, at_most=MAX_SECTORS)
        fields.end()
        key = cls(tuple(encoding.unhex(x, SCALAR_BYTES, f"{name}: a point") for x in points))
        _ = key.points  # raises unless they are on the curve
        return key


@dataclass(frozen=True, repr=False)
class SecretKey:
    """What only the owner knows. Its text form shows nothing of it."""

    master: bytes
    sectors: int

    @classmethod
    def generate(cls, sectors: int = DEFAULT_SECTORS) -> Self:
        return cls(secrets.token_bytes(MASTER_BYTES), check_sectors(sectors))

    def __repr__(self) -> str:
        return f"SecretKey(sectors={self.sectors}, id={self.public.id.hex()[:16]})"

    @property
    def layout(self) -> Layout:
        return Layout(self.sectors)

    @cached_property
    def _scalars(self) -> tuple[tuple[int, bytes], ...]:
        """Each alpha_j with the x of alpha_j G, of whichever sign makes the y even."""
        derived = []
        for j in range(self.sectors):
            alpha = int.from_bytes(self._expand(b"alpha", j.to_bytes(4, "big"), 48), "big")
            alpha = alpha % (Q - 1) + 1
            point = curve.encode(curve.times_base(alpha))
            derived.append((alpha if point[0] == 2 else Q - alpha, point[1:]))
        return tuple(derived)

    @property
    def alphas(self) -> tuple[int, ...]:
        return tuple(alpha for alpha, _ in self._scalars)

    @cached_property
    def constants(self) -> Floats:
        """The matrix that maps a block's limbs to sum_j alpha_j m_j, which taggers share."""
        return self.layout.constants(self.alphas)

    @cached_property
    def public(self) -> PublicKey:
        return PublicKey(tuple(x for _, x in self._scalars))

    def prf(self, file_id: bytes, version: int, nonce: bytes) -> BlockPrf:
        return BlockPrf(self._expand(b"prf", file_id + version.to_bytes(8, "big") + nonce, 32))

    def _expand(self, purpose: bytes, detail: bytes, length: int) -> bytes:
        # S enters: the same pseudorandom numbers under two values of S would reveal the alphas.
        info = b"holdfast/v1/%b\0%b%b" % (purpose, self.sectors.to_bytes(4, "big"), detail)
        return HKDFExpand(SHA256(), length, info).derive(self.master)
