"""A node's signature is plain EIP-712: any wallet makes and reads the same."""

from coincurve import PrivateKey
from eth_account import Account

from holdfast.ledger import check, signing
from holdfast.ledger.interface import Domain
from holdfast.ledger.keccak import address_of
from holdfast.pdp import Proof

KEY = b"\x07" * 32
DOMAIN = Domain(1, b"c" * 20)
PROOF = Proof(bytes(32), 5, (7, 8))


def test_a_wallet_signs_the_same_message() -> None:
    signed = Account.sign_typed_data(
        KEY,
        {
            "name": "Holdfast",
            "version": "1",
            "chainId": DOMAIN.chain,
            "verifyingContract": "0x" + DOMAIN.contract.hex(),
        },
        {
            "Answer": [
                {"name": "holding", "type": "uint256"},
                {"name": "challenge", "type": "bytes32"},
                {"name": "proof", "type": "bytes"},
            ]
        },
        {"holding": 9, "challenge": b"h" * 32, "proof": check.encode(PROOF)},
    )
    ours = signing.sign(PrivateKey(KEY), DOMAIN, 9, b"h" * 32, PROOF)
    assert ours[:64] + bytes([ours[64] + 27]) == bytes(signed.signature)


def test_only_its_own_signature_names_the_node() -> None:
    key = PrivateKey(KEY)
    signature = signing.sign(key, DOMAIN, 9, b"h" * 32, PROOF)
    assert signing.signer(signature, DOMAIN, 9, b"h" * 32, PROOF) == address_of(key.public_key)
    for broken in (None, b"", signature[:-1], signature[:-1] + b"\x09", bytes(65)):
        assert signing.signer(broken, DOMAIN, 9, b"h" * 32, PROOF) is None
