"""Policies: the registered versions, their aliases, and the sums of what they decided in shadow."""

from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, func, literal_column, select

from holdfast.control.policies.aliases import ALIASES, Named, read_aliases
from holdfast.control.policies.versions import list_versions
from holdfast.model.arrays import FloatArray
from holdfast.storage.home_schema import checked_holdings
from holdfast.storage.schema import holdings, shadow_sums

# A fleet that is larger is dealt into this many groups, which are resampled instead: the spread of
# a sum stays the same, and resampling 10,000 holdings takes 17 ms instead of 150.
MAX_GROUPS = 1000
TERMS = ("interval", "ratio", "gas", "rails", "outside", "spent")


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


def are_all_checked(connection: Connection) -> bool:
    """Return whether tools check all holdings: none has proofs, by whose gas policies compare."""
    checked = select(checked_holdings.c.scheduled)
    proved = holdings.c.id.not_in(checked.where(checked_holdings.c.scheduled.is_not(None)))
    some = connection.execute(checked.limit(1)).first()
    return (
        some is not None and connection.execute(select(holdings.c.id).where(proved)).first() is None
    )


def read_shadow_sums(connection: Connection, version: str, champion: str) -> FloatArray:
    """Return one row per group of holdings.

    Its columns: the first and the last decision, holdings, decisions, agreements, time, and the
    terms, the champion's first.
    """
    table = shadow_sums.c
    terms = (table[side + name] for side in ("champion_", "") for name in TERMS)
    # Written out, so that PostgreSQL sees one expression where it is selected and grouped by.
    group = table.holding % literal_column(str(MAX_GROUPS))
    sums = (func.sum(column) for column in (table.decisions, table.agreed, table.time, *terms))
    query = (
        select(func.min(table.first), func.max(table.last), func.count(), *sums)
        .where(table.version == version, table.champion == champion)
        .group_by(group)
        .order_by(group)
    )
    return np.array([tuple(row) for row in connection.execute(query)], np.float64)
