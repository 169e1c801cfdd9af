"""`holdfast.toml` of the home: which ledger decides."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from holdfast import atomic
from holdfast.errors import InputError

MAX_SETTINGS_BYTES = 1 << 16
ADDRESS_BYTES = 20


@dataclass(frozen=True)
class EvmSettings:
    """A contract on a chain, and the account that pays."""

    url: str
    contract: bytes
    keystore: Path
    passphrase_file: Path | None


@dataclass(frozen=True)
class Settings:
    """`evm` is None where the local ledger serves."""

    evm: EvmSettings | None = None


def read_settings(home: Path) -> Settings:
    """Return what the home's `holdfast.toml` says; without one, the defaults."""
    path = home / "holdfast.toml"
    if not path.exists():
        return Settings()
    try:
        document = tomllib.loads(atomic.read(path, at_most=MAX_SETTINGS_BYTES).decode())
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}") from error
    document.pop("control", None)  # which `holdfast.control.settings` reads
    table = document.pop("ledger", {})
    if document:
        raise InputError(f"{path}: unknown table or key {min(document)!r}")
    if not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
        raise InputError(f"{path}: [ledger] is a table of texts")
    kind = table.pop("kind", "local")
    if kind not in {"local", "evm"}:
        raise InputError(f"{path}: the ledger's kind is local or evm, not {kind!r}")
    settings = Settings(_evm(path, table) if kind == "evm" else None)
    if table:
        raise InputError(f"{path}: unknown key {min(table)!r} in [ledger]")
    return settings


def _evm(path: Path, table: dict[str, str]) -> EvmSettings:
    try:
        url, contract = table.pop("url"), bytes.fromhex(table.pop("contract").removeprefix("0x"))
        keystore = path.parent / table.pop("keystore")
    except KeyError as error:
        raise InputError(f"{path}: [ledger] needs the key {error}") from error
    except ValueError as error:
        raise InputError(f"{path}: the contract is not an address in hexadecimal") from error
    if len(contract) != ADDRESS_BYTES:
        raise InputError(f"{path}: the contract is not an address of {ADDRESS_BYTES} bytes")
    secret = table.pop("passphrase_file", None)
    return EvmSettings(url, contract, keystore, path.parent / secret if secret else None)
