"""The owner's key at rest: the master secret, encrypted under a passphrase."""

from pathlib import Path

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.pdp import encoding, sealing
from holdfast.pdp.field import MAX_SECTORS
from holdfast.pdp.inventory import KEY_ID_BYTES
from holdfast.pdp.keys import SecretKey
from holdfast.pdp.sealing import DEFAULT_COST, ScryptCost

MAX_KEY_FILE_BYTES = 1 << 16
_KIND = "secret-key"


def seal(key: SecretKey, passphrase: bytes, cost: ScryptCost = DEFAULT_COST) -> bytes:
    """Return the content of a key file."""
    return sealing.seal(_KIND, key.master, _names(key), passphrase, cost)


def unseal(content: bytes, passphrase: bytes, name: str = "key file") -> SecretKey:
    """Return the key, or say whether the file or the passphrase is wrong."""
    fields = encoding.load(_KIND, content, name)
    sectors = fields.integer("sectors", 1, MAX_SECTORS)
    key_id = fields.hex("key_id", KEY_ID_BYTES)
    names: dict[str, encoding.Value] = {"sectors": sectors, "key_id": key_id.hex()}
    key = SecretKey(sealing.unseal(_KIND, fields, names, passphrase, name), sectors)
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


def _names(key: SecretKey) -> dict[str, encoding.Value]:
    return {"sectors": key.sectors, "key_id": key.public.id.hex()}
