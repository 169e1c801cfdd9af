"""Statements on a home's database, as an administrator could run them."""

from typing import Any

from sqlalchemy import text

from holdfast.storage.database import open_engine, transaction


def run_sql(address: str, statement: str, **values: Any) -> list[tuple[Any, ...]]:
    """Run one statement in a transaction; return its rows."""
    with open_engine(address) as engine, transaction(engine) as connection:
        result = connection.execute(text(statement), values)
        return [tuple(row) for row in result] if result.returns_rows else []
