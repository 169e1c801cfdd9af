"""The owner's tables: holdings and their files, what is under way, and transactions on a chain.

Holdings are of two families: those on nodes, which give proofs, and those that tools check.

`holdfast.storage.schema` has the other tables of the same database.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
)

metadata = MetaData(naming_convention={"ix": "%(table_name)s_by_%(column_0_N_name)s"})

# SQLite numbers rows by itself only where the key is declared as INTEGER.
RowId = BigInteger().with_variant(Integer, "sqlite")
# Texts are ordered byte by byte, in PostgreSQL as in SQLite.
Name = Text().with_variant(Text(collation="C"), "postgresql")


def _holding(*, key: bool = True) -> Column[str]:
    holding = ForeignKey("catalogue.name", onupdate="CASCADE")  # it may be renamed
    return Column("holding", Name, holding, primary_key=key, nullable=False)


def _version() -> list[Column[bytes] | Column[int]]:
    """Return the columns of one version of a file; length and SHA-256 are of the owner's copy."""
    return [
        Column("source", LargeBinary, nullable=False),  # a path or an address
        Column("file_id", LargeBinary, nullable=False),
        Column("version", BigInteger, nullable=False),
        Column("nonce", LargeBinary, nullable=False),
        Column("length", BigInteger, nullable=False),
        Column("sha256", LargeBinary, nullable=False),
        Column("tags_sha256", LargeBinary, nullable=False),
    ]


# One row a holding: the node that stores it, and what its keys are derived from.
catalogue = Table(
    "catalogue",
    metadata,
    Column("name", Name, primary_key=True),
    Column("url", Text, nullable=False),
    Column("node", LargeBinary, nullable=False),  # the address that signs its answers
    Column("ca", Text),
    Column("salt", LargeBinary, nullable=False),
    Column("sectors", Integer, nullable=False),
    Column("encrypted", Boolean, nullable=False),
    Column("number", BigInteger),  # on the ledger, once it is registered
    Column("revision", BigInteger, nullable=False, server_default="0"),  # of its files
    Column("scheduled", BigInteger, ForeignKey("holdings.id")),  # its row, once it is audited
    Index(None, "scheduled", unique=True),
    Index(
        "catalogue_unscheduled",
        "name",
        sqlite_where=Column("scheduled").is_(None),
        postgresql_where=Column("scheduled").is_(None),
    ),
)

# One row a holding that no node stores: which checker checks it, and where its data lie. Options
# name where a secret is, and never have one.
checked_holdings = Table(
    "checked_holdings",
    metadata,
    Column("name", Name, primary_key=True),
    Column("kind", Text, nullable=False),  # of its checker
    Column("address", Text, nullable=False),
    Column("options", Text, nullable=False),  # a JSON object of texts
    Column("folder", Text, nullable=False),  # of its checker, in the home; it outlasts the name
    Column("unit", Text, nullable=False),  # what one unit is called: pack, object
    Column("units", BigInteger, nullable=False),  # at the last look
    Column("bytes", BigInteger, nullable=False),
    Column("verify_within", BigInteger),  # milliseconds, if the owner wants that
    Column("carries", BigInteger),  # units that a check can carry, after one took too long
    Column("busy", BigInteger, nullable=False, server_default="0"),  # a check runs until then
    Column("stalled", BigInteger, nullable=False, server_default="0"),  # it gets no further
    Column("waits", BigInteger, nullable=False, server_default="0"),  # for other checks, since then
    Column("scheduled", BigInteger, ForeignKey("holdings.id")),  # its row, once it is audited
    Index(None, "scheduled", unique=True),
    Index(
        "checked_holdings_unscheduled",
        "name",
        sqlite_where=Column("scheduled").is_(None),
        postgresql_where=Column("scheduled").is_(None),
    ),
)

# The transactions that registered holdings on the ledger.
registrations = Table(
    "registrations",
    metadata,
    _holding(),
    Column("hash", LargeBinary, nullable=False),
    Column("block", BigInteger, nullable=False),
    Column("gas", BigInteger, nullable=False),
)

files = Table(
    "files",
    metadata,
    Column("id", RowId, primary_key=True),  # their order in the inventory
    _holding(key=False),
    Column("name", LargeBinary, nullable=False),
    *_version(),
    UniqueConstraint("holding", "name"),
)

# Files on their way to a node, or out of it; written before the node is asked.
file_changes = Table(
    "file_changes",
    metadata,
    _holding(),
    Column("name", LargeBinary, primary_key=True),
    *_version(),
    Column("removes", Boolean, nullable=False),
    Column("upload", LargeBinary),
)

# Removed holdings whose files are still to be deleted on their nodes.
removals = Table(
    "removals",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("name", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("node", LargeBinary, nullable=False),
    Column("ca", Text),
    Column("salt", LargeBinary, nullable=False),
    Column("sectors", Integer, nullable=False),
)

# Transactions on a chain, each bound to its nonce before it is broadcast. In PostgreSQL they are in
# a schema that all owners of the database share: two of them may send from one account.
transactions = Table(
    "transactions",
    metadata,
    Column("chain", BigInteger, primary_key=True, autoincrement=False),
    Column("sender", LargeBinary, primary_key=True),
    Column("nonce", BigInteger, primary_key=True, autoincrement=False),
    Column("contract", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("gas", BigInteger, nullable=False),
    Column("block", LargeBinary),  # the hash of the one that has it
    Column("done", Boolean, nullable=False, server_default=false()),
    Column("reorganised", BigInteger, nullable=False, server_default="0"),  # how many times
)

# What was signed for a transaction: one attempt for each fee.
transaction_attempts = Table(
    "transaction_attempts",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("chain", BigInteger, nullable=False),
    Column("sender", LargeBinary, nullable=False),
    Column("nonce", BigInteger, nullable=False),
    Column("fee", BigInteger, nullable=False),
    Column("tip", BigInteger, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Index(None, "chain", "sender", "nonce"),
)


def refers_to_catalogue(table: Table) -> bool:
    """Return whether the rows of a table belong to holdings of the catalogue."""
    return any(key.target_fullname == "catalogue.name" for key in table.foreign_keys)


SHARED_TABLES = (transactions, transaction_attempts)
