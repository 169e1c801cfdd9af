"""All secrets of an owner, derived from one that is stored encrypted.

Every holding has a salt of its own, so no two holdings share a secret.
"""

import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.ledger.keccak import keccak
from holdfast.node.identity import OWNER_BYTES, NodeKey, RequestKey
from holdfast.pdp import SecretKey, encoding, sealing
from holdfast.pdp.field import Q
from holdfast.pdp.keyfile import MAX_KEY_FILE_BYTES
from holdfast.pdp.sealing import DEFAULT_COST, SECRET_BYTES, ScryptCost

SALT_BYTES = 16
_KIND = "owner-secret"


@dataclass(frozen=True, repr=False)
class Keyring:
    """What only the owner knows. Its text form shows nothing of it."""

    root: bytes

    @classmethod
    def generate(cls) -> Self:
        return cls(secrets.token_bytes(SECRET_BYTES))

    def __repr__(self) -> str:
        return f"Keyring(owner={self.owner.hex()})"

    @cached_property
    def request_key(self) -> RequestKey:
        """The key that signs requests to nodes."""
        return RequestKey(self._expand(b"request"))

    @property
    def owner(self) -> bytes:
        """The public half of the request key, by which nodes know the owner."""
        return self.request_key.owner

    @property
    def sender(self) -> bytes:
        """The owner's address on a local ledger, which asks for no signature."""
        return keccak(self.owner)[12:]

    def audit_key(self, salt: bytes, sectors: int) -> SecretKey:
        return SecretKey(self._expand(b"audit", salt), sectors)

    def cipher_secret(self, salt: bytes) -> bytes:
        return self._expand(b"cipher", salt)

    def node_key(self, salt: bytes) -> NodeKey:
        """Return the key with which the node of a direct holding signs its answers."""
        number = int.from_bytes(self._expand(b"node", salt), "big") % (Q - 1) + 1
        return NodeKey(number.to_bytes(SECRET_BYTES, "big"))

    def settings_key(self) -> bytes:
        """Return the key under which the evidence has digests of secret settings."""
        return self._expand(b"settings")

    def evidence_seed(self, origin: bytes = b"") -> bytes:
        """Return the Ed25519 key that signs the heads of the evidence of that origin."""
        return self._expand(b"evidence", origin)

    def _expand(self, purpose: bytes, salt: bytes = b"") -> bytes:
        info = b"holdfast/v1/owner/%b\0%b" % (purpose, salt)
        return HKDFExpand(SHA256(), SECRET_BYTES, info).derive(self.root)


def write_keyring(
    path: Path, keyring: Keyring, passphrase: bytes, cost: ScryptCost = DEFAULT_COST
) -> None:
    """Write the sealed secret, which only its owner may read; an existing one is never replaced."""
    atomic.write(path, _seal(keyring, passphrase, cost), mode=0o600, overwrite=False)


def reseal(
    path: Path, passphrase: bytes, another: bytes, cost: ScryptCost = DEFAULT_COST
) -> Keyring:
    """Seal the same secret under another passphrase, and return it; the file is replaced whole."""
    keyring = read_keyring(path, passphrase)
    atomic.write(path, _seal(keyring, another, cost), mode=0o600)
    return keyring


def _seal(keyring: Keyring, passphrase: bytes, cost: ScryptCost) -> bytes:
    return sealing.seal(_KIND, keyring.root, {"owner": keyring.owner.hex()}, passphrase, cost)


def read_keyring(path: Path, passphrase: bytes) -> Keyring:
    content = atomic.read(path, at_most=MAX_KEY_FILE_BYTES)
    fields = encoding.load(_KIND, content, str(path))
    owner = fields.hex("owner", OWNER_BYTES)
    names = {"owner": owner.hex()}
    keyring = Keyring(sealing.unseal(_KIND, fields, names, passphrase, str(path)))
    if keyring.owner != owner:
        raise InputError(f"{path} names another owner than it holds")
    return keyring
