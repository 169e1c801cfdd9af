"""A refusal for the clock: the one answer that changes how an owner signs.

The node signs it with its key, over its time and the signature of the refused request. So nobody
else can make it, and it says nothing about any other request.
"""

import hashlib
import struct

from coincurve import PrivateKey, PublicKey

from holdfast.ledger.keccak import address_of

_LABEL = b"holdfast/v1/clock\0"


def sign_clock(key: PrivateKey, request_signature: str, seconds: float) -> str:
    """Return the node's signature over its time, in hexadecimal, for one request."""
    message = _message(request_signature, seconds)
    return bytes(key.sign_recoverable(message, hasher=None)).hex()


def clock_signer(signature: str, request_signature: str, seconds: float) -> bytes | None:
    """Return the address that signed this time for this request."""
    message = _message(request_signature, seconds)
    try:
        key = PublicKey.from_signature_and_message(bytes.fromhex(signature), message, hasher=None)
    except ValueError:
        return None
    return address_of(key)


def _message(request_signature: str, seconds: float) -> bytes:
    request = hashlib.sha256(request_signature.encode()).digest()
    return hashlib.sha256(_LABEL + request + struct.pack(">d", seconds)).digest()
