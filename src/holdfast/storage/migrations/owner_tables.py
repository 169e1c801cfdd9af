"""The owner's tables in the first schema: the catalogue, files and transactions on a chain."""

import sqlalchemy as sa
from alembic import op

from holdfast.storage.migrations.columns import id_column, name_type, partial_index, version_columns

# The schema of PostgreSQL that all owners of a database share.
SHARED = "holdfast_transactions"


def create_catalogue() -> None:
    op.create_table(
        "catalogue",
        sa.Column("name", name_type(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("node", sa.LargeBinary(), nullable=False),
        sa.Column("ca", sa.Text(), nullable=True),
        sa.Column("salt", sa.LargeBinary(), nullable=False),
        sa.Column("sectors", sa.Integer(), nullable=False),
        sa.Column("encrypted", sa.Boolean(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("scheduled", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["scheduled"], ["holdings.id"]),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_index("catalogue_by_scheduled", "catalogue", ["scheduled"], unique=True)
    partial_index("catalogue_unscheduled", "catalogue", ["name"], "scheduled IS NULL")
    op.create_table(
        "checked_holdings",
        sa.Column("name", name_type(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("units", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("verify_within", sa.BigInteger(), nullable=True),
        sa.Column("carries", sa.BigInteger(), nullable=True),
        sa.Column("busy", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("stalled", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("waits", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("scheduled", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["scheduled"], ["holdings.id"]),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_index("checked_holdings_by_scheduled", "checked_holdings", ["scheduled"], unique=True)
    partial_index("checked_holdings_unscheduled", "checked_holdings", ["name"], "scheduled IS NULL")
    op.create_table(
        "registrations",
        sa.Column("holding", name_type(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("block", sa.BigInteger(), nullable=False),
        sa.Column("gas", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["holding"], ["catalogue.name"], onupdate="CASCADE"),
        sa.PrimaryKeyConstraint("holding"),
    )
    op.create_table(
        "files",
        id_column(),
        sa.Column("holding", name_type(), nullable=False),
        sa.Column("name", sa.LargeBinary(), nullable=False),
        *version_columns(),
        sa.ForeignKeyConstraint(["holding"], ["catalogue.name"], onupdate="CASCADE"),
        sa.UniqueConstraint("holding", "name"),
    )
    op.create_table(
        "file_changes",
        sa.Column("holding", name_type(), nullable=False),
        sa.Column("name", sa.LargeBinary(), nullable=False),
        *version_columns(),
        sa.Column("removes", sa.Boolean(), nullable=False),
        sa.Column("upload", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["holding"], ["catalogue.name"], onupdate="CASCADE"),
        sa.PrimaryKeyConstraint("holding", "name"),
    )
    op.create_table(
        "removals",
        id_column(),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("node", sa.LargeBinary(), nullable=False),
        sa.Column("ca", sa.Text(), nullable=True),
        sa.Column("salt", sa.LargeBinary(), nullable=False),
        sa.Column("sectors", sa.Integer(), nullable=False),
    )


def create_transactions() -> None:
    """Create what another owner may have created already."""
    shared = SHARED if op.get_bind().dialect.name == "postgresql" else None
    op.create_table(
        "transactions",
        sa.Column("chain", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("sender", sa.LargeBinary(), nullable=False),
        sa.Column("nonce", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("contract", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("gas", sa.BigInteger(), nullable=False),
        sa.Column("block", sa.LargeBinary(), nullable=True),
        sa.Column("done", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("reorganised", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("chain", "sender", "nonce"),
        schema=shared,
        if_not_exists=True,
    )
    op.create_table(
        "transaction_attempts",
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("chain", sa.BigInteger(), nullable=False),
        sa.Column("sender", sa.LargeBinary(), nullable=False),
        sa.Column("nonce", sa.BigInteger(), nullable=False),
        sa.Column("fee", sa.BigInteger(), nullable=False),
        sa.Column("tip", sa.BigInteger(), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("hash"),
        schema=shared,
        if_not_exists=True,
    )
    op.create_index(
        "transaction_attempts_by_chain_sender_nonce",
        "transaction_attempts",
        ["chain", "sender", "nonce"],
        schema=shared,
        if_not_exists=True,
    )
