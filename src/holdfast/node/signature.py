"""Requests signed by RFC 9421: what is covered, how an owner signs, and how a node checks it.

A node remembers nonces in memory only. It takes requests created after it started and not in its
future, so none that an earlier process took can come again.
"""

import hashlib
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import floor
from typing import Any
from urllib.parse import SplitResult, urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import (
    ContentDigest,
    HTTPMessageSignaturesException,
    HTTPMessageVerifier,
    HTTPSignatureKeyResolver,
    InvalidSignature,
    VerifyResult,
)
from http_message_signatures.algorithms import ED25519

from holdfast.node.identity import RequestKey
from holdfast.node.wire import NODE_HEADER, Code, NodeRefusedError

TAG = "holdfast"
WINDOW = 60  # seconds between creation and expiry, at most
VALID = 30  # what our own requests ask for
NONCE_BYTES = 16
MAX_NONCE = 64  # letters
MAX_NONCES = 100_000
COVERED = ("@method", "@authority", "@path", "@query", NODE_HEADER)
DIGEST = "content-digest"
_SHA256_DIGEST = re.compile(r"sha-256=:([A-Za-z0-9+/]{43}=):")

Clock = Callable[[], float]


@dataclass(frozen=True)
class Head:
    """A request without its body, as both sides see it."""

    method: str
    url: str
    headers: Any  # the library asks for a mapping that may name a field several times


@dataclass(frozen=True)
class Signer:
    """Signs requests to one node."""

    key: RequestKey
    node: bytes

    def sign(self, head: Head, body: bytes, now: float, *, sha256: bytes | None = None) -> None:
        """Add the signature's fields, and the digest if there is a body, to the headers.

        Written out, because what we sign always has the same form: the library, which checks
        every request, takes eight times as long to sign one. A body whose SHA-256 is given is not
        hashed again.
        """
        url, created, key_id = urlsplit(head.url), floor(now), self.key.owner.hex()
        components = {
            "@method": head.method,
            "@authority": _authority(url),
            "@path": url.path or "/",
            "@query": f"?{url.query}",
            NODE_HEADER: self.node.hex(),
        }
        head.headers[NODE_HEADER] = components[NODE_HEADER]
        if body or sha256 is not None:
            sha256 = hashlib.sha256(body).digest() if sha256 is None else sha256
            head.headers[DIGEST] = components[DIGEST] = content_digest(sha256)
        covered = " ".join(f'"{name}"' for name in components)
        parameters = (
            f'({covered});created={created};expires={created + VALID};keyid="{key_id}"'
            f';nonce="{secrets.token_hex(NONCE_BYTES)}";tag="{TAG}"'
        )
        lines = [f'"{name}": {value}' for name, value in components.items()]
        signed = "\n".join([*lines, f'"@signature-params": {parameters}'])
        signature = b64encode(self.key.private.sign(signed.encode("ascii"))).decode()
        head.headers["signature-input"] = f"{TAG}={parameters}"
        head.headers["signature"] = f"{TAG}=:{signature}:"


def _authority(url: SplitResult) -> str:
    """Return host and port as RFC 9421 has them: in small letters, and no usual port."""
    host = url.netloc.rpartition("@")[2].lower()
    return host.removesuffix({"http": ":80", "https": ":443"}.get(url.scheme, ""))


@dataclass(frozen=True)
class Checked:
    """A request whose signature holds: by whom, with which digest of its body, and when."""

    owner: bytes
    digest: str | None
    created: int


class Gate:
    """Tells who sent a request, or refuses it."""

    def __init__(self, node: bytes, owners: Mapping[str, bytes], clock: Clock) -> None:
        keys = {name: Ed25519PublicKey.from_public_bytes(key) for name, key in owners.items()}
        self._owners = owners
        self._node = node.hex()
        self._clock = clock
        self._verifier = _Verifier(signature_algorithm=ED25519, key_resolver=_Pinned(keys))
        self._nonces = {owner: Nonces() for owner in owners.values()}
        self.opens = floor(clock()) + 1  # no earlier process can have taken what is created then

    def check(self, head: Head, *, has_body: bool) -> Checked:
        """Return who signed it when, and the digest that the body must have."""
        required = (*COVERED, DIGEST) if has_body else COVERED
        try:
            (result,) = self._verifier.verify(
                head, max_age=None, expect_tag=TAG, require_components=required
            )
        except _UnknownOwnerError as error:
            raise NodeRefusedError(Code.UNKNOWN_OWNER, str(error)) from error
        except (HTTPMessageSignaturesException, ValueError) as error:
            raise NodeRefusedError(
                Code.SIGNATURE, f"the request's signature does not hold: {error}"
            ) from error
        if head.headers.get(NODE_HEADER) != self._node:
            raise NodeRefusedError(Code.SIGNATURE, "the request was signed for another node")
        owner = self._owners[str(result.parameters["keyid"])]
        created = self._check_fresh(result, self._nonces[owner])
        return Checked(owner, result.covered_components.get(f'"{DIGEST}"'), created)

    def _check_fresh(self, result: VerifyResult, nonces: "Nonces") -> int:
        """Return when it was created, if that is recent and it has not come before."""
        created, expires = result.parameters.get("created"), result.parameters.get("expires")
        nonce, now = result.nonce, self._clock()
        if not isinstance(created, int) or not isinstance(expires, int) or not nonce:
            raise NodeRefusedError(Code.SIGNATURE, "the signature lacks created, expires or nonce")
        if not 0 < expires - created <= WINDOW or len(nonce) > MAX_NONCE:
            raise NodeRefusedError(
                Code.SIGNATURE, f"a signature is for at most {WINDOW} s, with a short nonce"
            )
        if not self.opens <= created <= now < expires:
            raise NodeRefusedError(
                Code.CLOCK,
                "the request was signed before the node started, in its future, or too long ago: "
                "sign it again by the node's clock",
            )
        nonces.spend(nonce, expires, now)
        return created


class Nonces:
    """The nonces of one owner's requests that could still be repeated."""

    def __init__(self, most: int = MAX_NONCES) -> None:
        self._most = most
        self._expiry: dict[str, int] = {}

    def spend(self, nonce: str, expires: int, now: float) -> None:
        if self._expiry.get(nonce, 0) > now:
            raise NodeRefusedError(Code.SIGNATURE, "the request has been sent before")
        if len(self._expiry) >= self._most:
            self._expiry = {n: end for n, end in self._expiry.items() if end > now}
        if len(self._expiry) >= self._most:
            raise NodeRefusedError(Code.BUSY, "too many requests within their time of validity")
        self._expiry[nonce] = expires


def content_digest(sha256: bytes) -> str:
    """Return the field Content-Digest of a body with this SHA-256."""
    return f"sha-256=:{b64encode(sha256).decode()}:"


def sha256_in(digest: str) -> bytes:
    """Return the SHA-256 in a field Content-Digest, which must have nothing else."""
    match = _SHA256_DIGEST.fullmatch(digest)
    if match is None:
        raise NodeRefusedError(
            Code.SIGNATURE, f"the {DIGEST} of a segment is one SHA-256, as in sha-256=:…:"
        )
    return b64decode(match[1])


def check_digest(digest: str, body: bytes | bytearray) -> None:
    try:
        ContentDigest.verify(digest, bytes(body))
    except InvalidSignature as error:
        raise NodeRefusedError(Code.SIGNATURE, f"the request's body: {error}") from error


class _UnknownOwnerError(InvalidSignature):
    pass


class _Pinned(HTTPSignatureKeyResolver):
    def __init__(self, keys: Mapping[str, Ed25519PublicKey]) -> None:
        self._keys = keys

    def resolve_public_key(self, key_id: str) -> Ed25519PublicKey:
        key = self._keys.get(key_id)
        if key is None:
            raise _UnknownOwnerError("this node does not serve the owner who signed")
        return key


class _Verifier(HTTPMessageVerifier):
    def validate_created_and_expires(self, sig_input: Any, max_age: Any = None) -> None:
        """Leave times to the gate, whose rule is stricter and whose clock is passed in."""
