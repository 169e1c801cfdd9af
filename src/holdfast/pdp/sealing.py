"""A secret at rest, encrypted under a passphrase.

scrypt makes the passphrase expensive to guess, AES-256-GCM keeps the secret and binds it to what
the document says in the clear. Passphrases are never arguments: they come from a prompt, a file or
the environment.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from holdfast.errors import InputError, PassphraseError
from holdfast.pdp import encoding

SECRET_BYTES = 32
SALT_BYTES = 16
NONCE_BYTES = 12
TAG_BYTES = 16


@dataclass(frozen=True)
class ScryptCost:
    """Memory is 128 n r bytes: 128 MiB by default, a third of a second."""

    n: int = 2**17
    r: int = 8
    p: int = 1


DEFAULT_COST = ScryptCost()
# A key file from elsewhere must not make us spend more than this: 1 GiB, a few seconds.
MAX_COST = ScryptCost(n=2**20, r=8, p=4)


def seal(
    kind: str,
    secret: bytes,
    names: Mapping[str, encoding.Value],
    passphrase: bytes,
    cost: ScryptCost = DEFAULT_COST,
) -> bytes:
    """Return a document of that kind, with `names` in the clear and the secret encrypted."""
    if not passphrase:
        raise PassphraseError("the passphrase is empty: choose one")
    salt, nonce = secrets.token_bytes(SALT_BYTES), secrets.token_bytes(NONCE_BYTES)
    clear: dict[str, encoding.Value] = {
        **names,
        "kdf": "scrypt",
        "kdf_n": cost.n,
        "kdf_r": cost.r,
        "kdf_p": cost.p,
        "kdf_salt": salt.hex(),
        "cipher": "aes-256-gcm",
        "nonce": nonce.hex(),
    }
    sealed = _cipher(passphrase, salt, cost).encrypt(nonce, secret, encoding.dump(kind, clear))
    return encoding.dump(kind, {**clear, "ciphertext": sealed.hex()})


def unseal(
    kind: str,
    fields: encoding.Fields,
    names: Mapping[str, encoding.Value],
    passphrase: bytes,
    name: str,
) -> bytes:
    """Return the secret, or say whether the document or the passphrase is wrong.

    `names` are what the caller has taken out of the fields already.
    """
    clear: dict[str, encoding.Value] = {
        **names,
        "kdf": fields.text("kdf", "scrypt"),
        "kdf_n": (n := fields.integer("kdf_n", 2, MAX_COST.n)),
        "kdf_r": (r := fields.integer("kdf_r", 1, MAX_COST.r)),
        "kdf_p": (p := fields.integer("kdf_p", 1, MAX_COST.p)),
        "kdf_salt": (salt := fields.hex("kdf_salt", SALT_BYTES)).hex(),
        "cipher": fields.text("cipher", "aes-256-gcm"),
        "nonce": (nonce := fields.hex("nonce", NONCE_BYTES)).hex(),
    }
    sealed = fields.hex("ciphertext", SECRET_BYTES + TAG_BYTES)
    fields.end()
    if n & (n - 1):
        raise InputError(f"{name}: 'kdf_n' is not a power of two")
    cipher = _cipher(passphrase, salt, ScryptCost(n, r, p))
    try:
        return cipher.decrypt(nonce, sealed, encoding.dump(kind, clear))
    except InvalidTag as error:
        raise PassphraseError(f"the passphrase does not open {name}") from error


def _cipher(passphrase: bytes, salt: bytes, cost: ScryptCost) -> AESGCM:
    kdf = Scrypt(salt=salt, length=32, n=cost.n, r=cost.r, p=cost.p)
    return AESGCM(kdf.derive(passphrase))
