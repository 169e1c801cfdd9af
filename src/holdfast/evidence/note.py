"""Signed notes as C2SP defines them (c2sp.org/signed-note), with Ed25519 keys.

A text of lines, an empty line, and signature lines with the signer's name and key hash.
"""

import base64
import binascii
import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from holdfast.errors import MalformedError

ED25519 = b"\1"
KEY_BYTES = 32
HASH_BYTES = 4
MAX_SIGNATURES = 100
_SECRET = "PRIVATE+KEY+"  # noqa: S105 - how the text of such a key begins
_DASH = "\N{EM DASH} "


@dataclass(frozen=True)
class Signature:
    name: str
    key_hash: bytes
    signature: bytes

    def encode(self) -> str:
        return f"{_DASH}{self.name} {to_base64(self.key_hash + self.signature)}\n"


@dataclass(frozen=True)
class Note:
    text: str
    signatures: tuple[Signature, ...]

    def encode(self) -> bytes:
        return (
            f"{self.text}\n{''.join(signature.encode() for signature in self.signatures)}".encode()
        )

    @classmethod
    def decode(cls, content: bytes, name: str = "note") -> Self:
        try:
            whole = content.decode()
        except UnicodeDecodeError as error:
            raise MalformedError(f"{name} is not UTF-8") from error
        if any(c < " " and c != "\n" for c in whole):
            raise MalformedError(f"{name} has a control character in it")
        text, gap, rest = whole.rpartition("\n\n")
        lines = rest.removesuffix("\n").split("\n")
        if not gap or not text or not rest.endswith("\n") or len(lines) > MAX_SIGNATURES:
            raise MalformedError(f"{name} is not a text, an empty line and signatures")
        return cls(text + "\n", tuple(_signature(line, name) for line in lines))


@dataclass(frozen=True)
class Verifier:
    """The public key of a signer, with its name; as text `name+hash+key`."""

    name: str
    key: bytes

    def __str__(self) -> str:
        return f"{self.name}+{self.hash.hex()}+{to_base64(ED25519 + self.key)}"

    @classmethod
    def decode(cls, text: str) -> Self:
        parts = text.split("+", 2)
        if len(parts) != 3:
            raise MalformedError("a verifier key is written name+hash+key, which this is not")
        key = from_base64(parts[2], "a verifier key")
        verifier = cls(_name(parts[0], "a verifier key"), key[1:])
        if len(key) != 1 + KEY_BYTES or str(verifier) != text:
            raise MalformedError("the verifier key is not an Ed25519 key, or has a wrong hash")
        return verifier

    @cached_property
    def hash(self) -> bytes:
        content = self.name.encode() + b"\n" + ED25519 + self.key
        return hashlib.sha256(content).digest()[:HASH_BYTES]

    def signed(self, note: Note) -> bool:
        """Return whether the note has a signature of this key, and no wrong one."""
        ours = [line for line in note.signatures if (line.name, line.key_hash) == self._id]
        return bool(ours) and all(self._verifies(note.text, line.signature) for line in ours)

    @property
    def _id(self) -> tuple[str, bytes]:
        return self.name, self.hash

    @cached_property
    def _public(self) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(self.key)

    def _verifies(self, text: str, signature: bytes) -> bool:
        try:
            self._public.verify(signature, text.encode())
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, repr=False)
class Signer:
    """The secret key of a signer. Its text form holds the secret: `PRIVATE+KEY+name+hash+seed`."""

    name: str
    seed: bytes

    @classmethod
    def generate(cls, name: str) -> Self:
        key = Ed25519PrivateKey.generate()
        return cls(_name(name, "a signer"), key.private_bytes_raw())

    def __repr__(self) -> str:
        return f"Signer({self.verifier})"

    def encode(self) -> str:
        hash_ = self.verifier.hash.hex()
        return f"{_SECRET}{self.name}+{hash_}+{to_base64(ED25519 + self.seed)}"

    @classmethod
    def decode(cls, text: str) -> Self:
        parts = text.removeprefix(_SECRET).split("+", 2)
        if not text.startswith(_SECRET) or len(parts) != 3:
            raise MalformedError("a signer's key is written PRIVATE+KEY+name+hash+seed")
        seed = from_base64(parts[2], "a signer's key")
        if len(seed) != 1 + KEY_BYTES:
            raise MalformedError("the signer's key is not an Ed25519 key")
        signer = cls(_name(parts[0], "a signer's key"), seed[1:])
        if signer.encode() != text:
            raise MalformedError("the signer's key has a wrong hash")
        return signer

    @cached_property
    def verifier(self) -> Verifier:
        return Verifier(self.name, self._secret.public_key().public_bytes_raw())

    @property
    def _secret(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)

    def sign(self, text: str) -> bytes:
        """Return the text as a signed note."""
        signature = Signature(self.name, self.verifier.hash, self._secret.sign(text.encode()))
        content = Note(text, (signature,)).encode()
        Note.decode(content)  # what a reader would refuse is never signed
        return content


def to_base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def from_base64(text: str, what: str) -> bytes:
    """Return the bytes, refusing a second text of the same bytes."""
    try:
        content = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise MalformedError(f"{what} is not in base64") from error
    if to_base64(content) != text:
        raise MalformedError(f"{what} is not in canonical base64")
    return content


def _signature(line: str, what: str) -> Signature:
    name, gap, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not gap:
        raise MalformedError(f"{what} has a line that is not a signature where one must be")
    content = from_base64(encoded, f"{what}: a signature")
    if len(content) <= HASH_BYTES:
        raise MalformedError(f"{what}: a signature is too short")
    return Signature(_name(name, what), content[:HASH_BYTES], content[HASH_BYTES:])


def _name(name: str, what: str) -> str:
    if not name or "+" in name or any(c.isspace() or not c.isprintable() for c in name):
        raise MalformedError(f"{what} has a name that is empty or has spaces or plus signs in it")
    return name
