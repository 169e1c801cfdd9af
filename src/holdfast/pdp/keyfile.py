"""The owner's key at rest: the master secret, encrypted under a passphrase.

scrypt makes the passphrase expensive to guess, AES-256-GCM keeps the secret and binds it to what
the file says in the clear. Passphrases are never arguments: they come from a prompt, a file or the
environment.
"""

import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from holdfast import atomic
from holdfast.errors import InputError, PassphraseError
from holdfast.pdp import encoding
from holdfast.pdp.field import MAX_SECTORS
from holdfast.pdp.inventory import KEY_ID_BYTES
from holdfast.pdp.keys import MASTER_BYTES, SecretKey

MAX_KEY_FILE_BYTES = 1 << 16
SALT_BYTES = 16
NONCE_BYTES = 12
TAG_BYTES = 16
_KIND = "secret-key"


@dataclass(frozen=True)
class ScryptCost:
    """Memory is 128 n r bytes: 128 MiB by default, a third of a second."""

    n: int = 2**17
    r: int = 8
    p: int = 1


DEFAULT_COST = ScryptCost()
# A key file from elsewhere must not make us spend more than this: 1 GiB, a few seconds.
MAX_COST = ScryptCost(n=2**20, r=8, p=4)


def seal(key: SecretKey, passphrase: bytes, cost: ScryptCost = DEFAULT_COST) -> bytes:
    """Return the content of a key file."""
    if not passphrase:
        raise PassphraseError("the passphrase is empty: choose one")
    clear: dict[str, encoding.Value] = {
        "sectors": key.sectors,
        "key_id": key.public.id.hex(),
        "kdf": "scrypt",
        "kdf_n": cost.n,
        "kdf_r": cost.r,
        "kdf_p": cost.p,
        "kdf_salt": secrets.token_hex(SALT_BYTES),
        "cipher": "aes-256-gcm",
        "nonce": secrets.token_hex(NONCE_BYTES),
    }
    salt, nonce = bytes.fromhex(str(clear["kdf_salt"])), bytes.fromhex(str(clear["nonce"]))
    sealed = _cipher(passphrase, salt, cost).encrypt(nonce, key.master, _bound(clear))
    return encoding.dump(_KIND, {**clear, "ciphertext": sealed.hex()})


def unseal(content: bytes, passphrase: bytes, name: str = "key file") -> SecretKey:
    """Return the key, or say whether the file or the passphrase is wrong."""
    fields = encoding.load(_KIND, content, name)
    clear: dict[str, encoding.Value] = {
        "sectors": (sectors := fields.integer("sectors", 1, MAX_SECTORS)),
        "key_id": (key_id := fields.hex("key_id", KEY_ID_BYTES)).hex(),
        "kdf": fields.text("kdf", "scrypt"),
        "kdf_n": (n := fields.integer("kdf_n", 2, MAX_COST.n)),
        "kdf_r": (r := fields.integer("kdf_r", 1, MAX_COST.r)),
        "kdf_p": (p := fields.integer("kdf_p", 1, MAX_COST.p)),
        "kdf_salt": (salt := fields.hex("kdf_salt", SALT_BYTES)).hex(),
        "cipher": fields.text("cipher", "aes-256-gcm"),
        "nonce": (nonce := fields.hex("nonce", NONCE_BYTES)).hex(),
    }
    sealed = fields.hex("ciphertext", MASTER_BYTES + TAG_BYTES)
    fields.end()
    if n & (n - 1):
        raise InputError(f"{name}: 'kdf_n' is not a power of two")
    try:
        master = _cipher(passphrase, salt, ScryptCost(n, r, p)).decrypt(
            nonce, sealed, _bound(clear)
        )
    except InvalidTag as error:
        raise PassphraseError(f"the passphrase does not open {name}") from error
    key = SecretKey(master, sectors)
    if key.public.id != key_id:
        raise InputError(f"{name} names another key than it holds")
    return key


def write_key(
    path: Path, key: SecretKey, passphrase: bytes, cost: ScryptCost = DEFAULT_COST
) -> None:
    """Write a new key file that only its owner may read; an existing one is never replaced."""
    atomic.write(path, seal(key, passphrase, cost), mode=0o600, overwrite=False)


def read_key(path: Path, passphrase: bytes) -> SecretKey:
    return unseal(atomic.read(path, at_most=MAX_KEY_FILE_BYTES), passphrase, str(path))


def _bound(clear: dict[str, encoding.Value]) -> bytes:
    return encoding.dump(_KIND, clear)


def _cipher(passphrase: bytes, salt: bytes, cost: ScryptCost) -> AESGCM:
    kdf = Scrypt(salt=salt, length=32, n=cost.n, r=cost.r, p=cost.p)
    return AESGCM(kdf.derive(passphrase))
