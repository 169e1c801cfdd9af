"""Settings of the home: the ledger it uses, and where its database is."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import PlainSerializer

from holdfast.errors import InputError
from holdfast.settings_file import (
    Address,
    SettingsFile,
    Table,
    parse_text,
    parsed_by,
    public_address,
    split_address,
)

ADDRESS_BYTES = 20
DATABASE = "holdfast.db"  # the file in the home, by default
TABLES = ("home", "ledger", "control")  # `holdfast.control.settings.models` reads the last


def _parse_contract(value: Any) -> bytes:
    try:
        contract = bytes.fromhex(value.removeprefix("0x"))
    except (ValueError, AttributeError):
        raise InputError("must be an address in hexadecimal") from None
    if len(contract) != ADDRESS_BYTES:
        raise InputError(f"must be an address of {ADDRESS_BYTES} bytes")
    return contract


def _parse_database(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InputError("must be a file or an address as in postgresql://host/name")
    if "://" not in value:
        if "=" in value:  # a driver's own form, which may have a password
            raise InputError("must be a file or an address as in postgresql://host/name")
        return value
    if not value.startswith(("postgresql://", "postgres://")):
        raise InputError("must be a file or an address as in postgresql://host/name")
    parts = split_address(value)
    try:
        readable = parts.port is None or parts.port > 0
    except ValueError:
        readable = False
    # A password that is not encoded ends early, and errors would show the rest of it.
    if not readable or "@" in parts.path + parts.query + parts.fragment:
        raise InputError(
            "can't be read: write special characters of user and password as a percent sign and "
            "their code"
        )
    return value


Contract = Annotated[bytes, parsed_by(_parse_contract), PlainSerializer(lambda c: f"0x{c.hex()}")]
FilePath = Annotated[Path, parsed_by(lambda value: Path(parse_text(value)))]
Database = Annotated[str, parsed_by(_parse_database), PlainSerializer(public_address)]


@dataclass(frozen=True)
class HomeSettings(Table):
    """`database` is a file in the home, or an address of PostgreSQL that several hosts share."""

    database: Database = field(default=DATABASE, repr=False)  # it may have a password


@dataclass(frozen=True)
class EvmSettings(Table):
    """A contract on a chain, and the account that pays."""

    url: Address = field(repr=False)
    contract: Contract
    keystore: FilePath
    passphrase_file: FilePath | None = None


@dataclass(frozen=True)
class LocalLedger(Table):
    """The ledger is a file of the home, and nothing about it can be set."""


@dataclass(frozen=True)
class Settings:
    """`evm` is None where the local ledger serves."""

    evm: EvmSettings | None = None
    database: str = field(default=DATABASE, repr=False)  # it may have a password


def read_settings(home: Path) -> Settings:
    """Return what the home's `holdfast.toml` says; without one, the defaults."""
    file = SettingsFile.read(home)
    file.refuse_unknown(TABLES)
    settings = Settings(_ledger(file), read_database(file))
    if "://" in settings.database and settings.evm is None:
        raise InputError(
            f"{file.path}: hosts that share a database must share the ledger, and a local one is a "
            "file: name a chain in [ledger], or no database in [home]"
        )
    return settings


def read_database(file: SettingsFile) -> str:
    """Return the home's database; `[control] database` is another name for `[home] database`."""
    home, control = file.table("home", HomeSettings), file.document.get("control", {})
    if not isinstance(control, dict) or "database" not in control:
        return home.database
    alias = file.check("control", HomeSettings, {"database": control["database"]})
    if "database" in file.document.get("home", {}) and home != alias:
        raise InputError(f"{file.path}: [home] and [control] name two databases; a home has one")
    return alias.database


def _ledger(file: SettingsFile) -> EvmSettings | None:
    table = file.document.get("ledger", {})
    if not isinstance(table, dict):
        raise InputError(f"{file.path}: ledger is not a table")
    rest = dict(table)
    kind = rest.pop("kind", "local")
    if kind == "local":
        file.check("ledger", LocalLedger, rest)
        return None
    if kind != "evm":
        raise InputError(f"{file.path}: kind in [ledger] must be local or evm, not {kind!r}")
    evm = file.check("ledger", EvmSettings, rest)
    secret, folder = evm.passphrase_file, file.path.parent
    return replace(
        evm, keystore=folder / evm.keystore, passphrase_file=folder / secret if secret else None
    )
