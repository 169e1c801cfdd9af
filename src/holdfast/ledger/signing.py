"""A node's EIP-712 signature over its answer, without which a failing proof does not count."""

from coincurve import PrivateKey, PublicKey

from holdfast.ledger.check import digest
from holdfast.ledger.interface import Domain
from holdfast.ledger.keccak import address_of, keccak
from holdfast.pdp import Proof

SIGNATURE_BYTES = 65
_ANSWER = keccak(b"Answer(uint256 holding,bytes32 challenge,bytes proof)")
_DOMAIN = keccak(
    b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
_NAME, _VERSION = keccak(b"Holdfast"), keccak(b"1")


def sign(key: PrivateKey, domain: Domain, holding: int, challenge: bytes, proof: Proof) -> bytes:
    message = _message(domain, holding, challenge, proof)
    return bytes(key.sign_recoverable(message, hasher=None))


def signer(
    signature: bytes | None, domain: Domain, holding: int, challenge: bytes, proof: Proof
) -> bytes | None:
    """Return the address that signed the answer for this ledger."""
    if signature is None:
        return None
    message = _message(domain, holding, challenge, proof)
    try:
        return address_of(PublicKey.from_signature_and_message(signature, message, hasher=None))
    except ValueError:
        return None


def _message(domain: Domain, holding: int, challenge: bytes, proof: Proof) -> bytes:
    where = domain.chain.to_bytes(32, "big") + bytes(12) + domain.contract
    separator = keccak(_DOMAIN + _NAME + _VERSION + where)
    answer = keccak(_ANSWER + holding.to_bytes(32, "big") + challenge + digest(proof))
    return keccak(b"\x19\x01" + separator + answer)
