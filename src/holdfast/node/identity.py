"""The keys of nodes, which sign answers, and of owners, which sign requests.

A node signs with secp256k1, because a ledger knows it by its address. An owner signs with Ed25519,
as RFC 9421 does. A node's key file is encrypted as the owner's master secret is.
"""

import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from coincurve import PrivateKey
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.ledger.keccak import address_of
from holdfast.pdp import encoding, sealing
from holdfast.pdp.field import Q
from holdfast.pdp.keyfile import MAX_KEY_FILE_BYTES
from holdfast.pdp.sealing import DEFAULT_COST, SECRET_BYTES, ScryptCost

ADDRESS_BYTES = 20
OWNER_BYTES = 32
_NODE, _OWNER = "node-key", "owner"


@dataclass(frozen=True, repr=False)
class NodeKey:
    """What a node signs its answers with."""

    secret: bytes

    @classmethod
    def generate(cls) -> Self:
        return cls((1 + secrets.randbelow(Q - 1)).to_bytes(SECRET_BYTES, "big"))

    @cached_property
    def private(self) -> PrivateKey:
        return PrivateKey(self.secret)

    @cached_property
    def address(self) -> bytes:
        return address_of(self.private.public_key)

    def __repr__(self) -> str:
        return f"NodeKey(address={self.address.hex()})"


@dataclass(frozen=True, repr=False)
class RequestKey:
    """What an owner signs requests with. `owner` is its public form, by which nodes know it."""

    secret: bytes

    @classmethod
    def generate(cls) -> Self:
        return cls(secrets.token_bytes(SECRET_BYTES))

    @cached_property
    def private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)

    @cached_property
    def owner(self) -> bytes:
        return self.private.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return f"RequestKey(owner={self.owner.hex()})"


def write_node_key(
    path: Path, key: NodeKey, passphrase: bytes, cost: ScryptCost = DEFAULT_COST
) -> None:
    """Write a new key file that only the node may read; an existing one is never replaced."""
    content = sealing.seal(_NODE, key.secret, {"address": key.address.hex()}, passphrase, cost)
    atomic.write(path, content, mode=0o600, overwrite=False)


def read_node_key(path: Path, passphrase: bytes) -> NodeKey:
    fields = encoding.load(_NODE, atomic.read(path, at_most=MAX_KEY_FILE_BYTES), str(path))
    address = fields.hex("address", ADDRESS_BYTES)
    names: dict[str, encoding.Value] = {"address": address.hex()}
    key = NodeKey(sealing.unseal(_NODE, fields, names, passphrase, str(path)))
    if not 0 < int.from_bytes(key.secret, "big") < Q or key.address != address:
        raise InputError(f"{path} names another key than it holds")
    return key


def encode_owner(owner: bytes) -> bytes:
    """Return the document by which an owner makes itself known to nodes."""
    return encoding.dump(_OWNER, {"key": owner.hex()})


def decode_owner(content: bytes, name: str = "owner") -> bytes:
    fields = encoding.load(_OWNER, content, name)
    owner = fields.hex("key", OWNER_BYTES)
    fields.end()
    return check_owner(owner, name)


def check_owner(owner: bytes, name: str) -> bytes:
    try:
        Ed25519PublicKey.from_public_bytes(owner)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{name} is not an Ed25519 public key") from error
    return owner


def read_owner(name: str) -> bytes:
    """Return the owner given in hexadecimal, or whose document lies at that path."""
    try:
        owner = bytes.fromhex(name)
    except ValueError:
        return decode_owner(atomic.read(Path(name), at_most=MAX_KEY_FILE_BYTES), name)
    if len(owner) != OWNER_BYTES:
        raise InputError(f"an owner's key has {OWNER_BYTES} bytes in hexadecimal, not {len(owner)}")
    return check_owner(owner, name)
