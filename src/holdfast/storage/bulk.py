"""One statement for many rows, in the driver's own words.

SQLAlchemy would prepare each row's values again, which takes as long as SQLite takes to write them;
ours are of the types that both drivers store as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Dialect, Insert, Update

OURS = "b_"  # begins the name of a parameter, where SQLAlchemy keeps the column's name for itself

Row = Mapping[str, Any]


def execute(connection: Connection, statement: Insert | Update, rows: Sequence[Row]) -> int:
    """Execute a statement for each row, its parameters by name; return how many rows it met."""
    text, values_of = _compiled(statement, connection.dialect, tuple(rows[0]))
    return connection.exec_driver_sql(text, [values_of(row) for row in rows]).rowcount


@lru_cache(maxsize=64)
def _compiled(
    statement: Insert | Update, dialect: Dialect, names: tuple[str, ...]
) -> tuple[str, Callable[[Row], tuple[Any, ...]]]:
    columns = names if isinstance(statement, Insert) else ()
    compiled: Any = statement.compile(dialect=dialect, column_keys=columns)
    return str(compiled), itemgetter(*(name.removeprefix(OURS) for name in compiled.positiontup))
