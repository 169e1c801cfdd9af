"""`holdfast.toml` of the home: which ledger decides, and where the home's tables are."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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
    """`evm` is None where the local ledger serves, `database` where files do."""

    evm: EvmSettings | None = None
    database: str | None = field(default=None, repr=False)  # it may have a password


def read_settings(home: Path) -> Settings:
    """Return what the home's `holdfast.toml` says; without one, the defaults."""
    path = home / "holdfast.toml"
    if not path.exists():
        return Settings()
    try:
        document = tomllib.loads(atomic.read(path, at_most=MAX_SETTINGS_BYTES).decode())
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}") from error
    document.pop("control", None)  # which `holdfast.control.settings.models` reads
    table = document.pop("ledger", {})
    database = home_database(path, document.pop("home", {}))
    if document:
        raise InputError(f"{path}: unknown table or key {min(document)!r}")
    if not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
        raise InputError(f"{path}: [ledger] is a table of texts")
    kind = table.pop("kind", "local")
    if kind not in {"local", "evm"}:
        raise InputError(f"{path}: the ledger's kind is local or evm, not {kind!r}")
    settings = Settings(_evm(path, table) if kind == "evm" else None, database)
    if table:
        raise InputError(f"{path}: unknown key {min(table)!r} in [ledger]")
    if settings.database is not None and settings.evm is None:
        raise InputError(
            f"{path}: hosts that share a database must share the ledger, and a local one is a "
            "file: name a chain in [ledger], or no database in [home]"
        )
    return settings


def home_database(path: Path, table: Any) -> str | None:
    """Return the address that the table `[home]` has, checked without showing it."""
    if not isinstance(table, dict) or table.keys() - {"database"}:
        raise InputError(f"{path}: [home] is a table with the one key 'database'")
    address = table.get("database")
    if address is None:
        return None
    if not isinstance(address, str) or not address.startswith(("postgresql://", "postgres://")):
        raise InputError(f"{path}: database in [home] must be as in postgresql://host/name")
    parts = urlsplit(address)
    try:
        readable = parts.port is None or parts.port > 0
    except ValueError:
        readable = False
    # A password that is not encoded ends early, and what is left of it would be shown in errors.
    if not readable or "@" in parts.path + parts.query + parts.fragment:
        raise InputError(
            f"{path}: database in [home] can't be read: write special characters of user and "
            "password as a percent sign and their code"
        )
    return address


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
