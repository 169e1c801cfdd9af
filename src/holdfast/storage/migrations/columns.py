"""Columns and indices that migrations share."""

import sqlalchemy as sa
from alembic import op


def partial_index(
    name: str, table: str, columns: list[str], where: str, *, unique: bool = False
) -> None:
    condition = sa.text(where)
    op.create_index(
        name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition
    )


def id_column(*, autoincrement: bool = True) -> sa.Column[int]:
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column("id", number, autoincrement=autoincrement, primary_key=True)


def name_type() -> sa.types.TypeEngine[str]:
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def version_columns() -> list[sa.Column[bytes] | sa.Column[int]]:
    return [
        sa.Column("source", sa.LargeBinary(), nullable=False),
        sa.Column("file_id", sa.LargeBinary(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("tags_sha256", sa.LargeBinary(), nullable=False),
    ]
