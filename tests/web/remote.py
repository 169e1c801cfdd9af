"""Requests that seem to come from far away."""

import asyncio
from typing import Any

import httpx
from sqlalchemy import select

from holdfast.control.policies.aliases import Author
from holdfast.storage.database import transaction
from holdfast.storage.schema import alerts, holdings, leaves
from holdfast.web import tokens
from holdfast.web.app import build_app
from holdfast.web.context import Context
from holdfast.web.tokens import Role

NEAR, FAR = "127.0.0.1", "203.0.113.5"


class Door:
    """The real application, to which anyone may come from anywhere."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.app = build_app(context)

    def ask(
        self,
        method: str,
        path: str,
        origin: str = NEAR,
        host: str = "localhost:9471",
        **options: Any,
    ) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, client=(origin, 50_000))
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
                return await client.request(method, f"/api/v1{path}", **options)

        return asyncio.run(asked())

    def status(self, method: str, path: str, **options: Any) -> int:
        return self.ask(method, path, **options).status_code

    def order(self, path: str, **options: Any) -> int:
        return self.status("POST", path, **({"json": {}} | options))

    def token(self, role: Role) -> str:
        return tokens.create(self.context.writer, f"a-{role}", role, Author("a test", 1))

    def written(self) -> tuple[Any, ...]:
        """Return all that a change would change."""
        with transaction(self.context.reader) as connection:
            return tuple(
                tuple(connection.execute(select(table).order_by(table.c.id)).all())
                for table in (holdings, alerts, leaves)
            )
