"""How a database finds what the views ask for: by indices, or by reading whole tables."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
from sqlalchemy import Connection, Engine, event, text

from holdfast.errors import StorageError
from holdfast.web.app import build_app
from holdfast.web.context import Context

LARGE = ("audits", "leaves")
Statement = tuple[str, Any]


def scans(context: Context, paths: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the views of which a query reads all audits or leaves, with that step of its plan."""
    app, by_view = build_app(context), {}

    async def asked(path: str) -> httpx.Response:
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(path)

    for name, path in paths.items():
        with record_statements(context.reader) as statements:
            answer = asyncio.run(asked(path))
        if answer.status_code != httpx.codes.OK:
            raise StorageError(f"{path} was answered with {answer.status_code}: {answer.text}")
        with context.reader.begin() as connection:
            steps = [step for statement in statements for step in scanned(connection, statement)]
        if steps:
            by_view[name] = steps
    return by_view


@contextmanager
def record_statements(engine: Engine) -> Iterator[list[Statement]]:
    """Yield the statements that are sent to a database meanwhile."""
    statements: list[Statement] = []

    def on_statement(_1: object, _2: object, statement: str, parameters: Any, *_3: object) -> None:
        if statement.startswith("SELECT"):
            statements.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", on_statement)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", on_statement)


def scanned(connection: Connection, query: Statement, *, small: bool = False) -> list[str]:
    """Return the steps by which a query reads a large table as a whole, or sorts it.

    If the tables are small, PostgreSQL is kept from reading them as a whole for that reason.
    """
    statement, parameters = query
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        steps = [row.detail for row in rows]
        whole = [step for step in steps if re.match(rf"SCAN ({'|'.join(LARGE)})\b", step)]
        # An index that has all that is asked for, in the order that is asked for, is no scan.
        whole = [step for step in whole if "USING" not in step or "LIMIT" not in statement]
        return [*whole, *(step for step in steps if _sorts(step) and _of_large(steps))]
    if small:
        connection.execute(text("SET LOCAL enable_seqscan = off"))
    rows = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
    steps = [row[0] for row in rows]
    return [step for step in steps if re.search(rf"Seq Scan on ({'|'.join(LARGE)})\b", step)]


def _sorts(step: str) -> bool:
    return step == "USE TEMP B-TREE FOR ORDER BY"


def _of_large(steps: list[str]) -> bool:
    """Return whether rows of a large table are what a query begins with."""
    return any(re.match(rf"(SCAN|SEARCH) ({'|'.join(LARGE)})\b", step) for step in steps[:1])
