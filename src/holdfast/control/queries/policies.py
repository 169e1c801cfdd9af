"""Policies: the registered versions and their aliases."""

from dataclasses import dataclass

from sqlalchemy import Connection

from holdfast.control.policies.aliases import ALIASES, Named, read_aliases
from holdfast.control.policies.versions import list_versions


@dataclass(frozen=True)
class VersionRow:
    version: str
    name: str
    registered: int
    learned: bool
    aliases: list[str]


@dataclass(frozen=True)
class Policies:
    aliases: dict[str, Named]
    versions: list[VersionRow]  # the newest first


def list_policies(connection: Connection) -> Policies:
    aliases = read_aliases(connection)
    versions = [
        VersionRow(
            row.version, row.name, row.registered, row.learned, list(aliases.of(row.version))
        )
        for row in list_versions(connection)
    ]
    by_alias = {alias: row for row in versions for alias in row.aliases}
    named = {
        alias: Named(row.version, row.name)
        for alias in ALIASES
        if (row := by_alias.get(alias)) is not None
    }
    return Policies(named, versions)
