"""Tokens that identify callers from other machines, and their roles.

Only the SHA-256 of a token is stored. A token names its row, so it is compared with one digest
only, in constant time.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Engine, insert, select, update

from holdfast.control.operator_commands import record_instruction
from holdfast.control.policies.aliases import Author
from holdfast.errors import InputError
from holdfast.evidence.leaf import Order
from holdfast.storage.database import transaction
from holdfast.storage.schema import NEVER, tokens

PREFIX = "holdfast"
NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_TOKEN = re.compile(rf"{PREFIX}_([1-9][0-9]{{0,17}})_([A-Za-z0-9_-]{{43}})")


class Role(StrEnum):
    """What a caller may do; a role may do all that the roles before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def covers(self, other: "Role") -> bool:
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(other)


@dataclass(frozen=True)
class Token:
    id: int
    name: str
    role: Role
    created: int
    revoked: int | None


def create(engine: Engine, name: str, role: Role, author: Author) -> str:
    """Return a new token; it can't be shown again."""
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name!r} can't be the name of a token: letters, digits, '.', '_', '@' and '-', at "
            "most 64"
        )
    secret = secrets.token_urlsafe(32)
    with transaction(engine) as connection:
        valid = (tokens.c.name == name, tokens.c.revoked == NEVER)
        if connection.execute(select(tokens.c.id).where(*valid)).first():
            raise InputError(f"there is a token {name!r} already: revoke it, or choose another")
        row = {"name": name, "role": role, "digest": _digest(secret), "created": author.at}
        id_ = connection.execute(insert(tokens).returning(tokens.c.id), row).scalar_one()
        record_instruction(connection, Order.CREATE_TOKEN, f"{name}, {role}", author)
    return f"{PREFIX}_{id_}_{secret}"


def revoke(engine: Engine, name: str, author: Author) -> None:
    """Revoke a token, from the next request on."""
    valid = (tokens.c.name == name, tokens.c.revoked == NEVER)
    with transaction(engine) as connection:
        gone = update(tokens).where(*valid).values(revoked=author.at)
        if not connection.execute(gone).rowcount:
            raise InputError(f"there is no token {name!r}: `holdfast token list` shows them")
        record_instruction(connection, Order.REVOKE_TOKEN, name, author)


def listing(engine: Engine) -> list[Token]:
    with transaction(engine) as connection:
        rows = connection.execute(select(tokens).order_by(tokens.c.id)).all()
    return [_token(row) for row in rows]


def find(engine: Engine, text: str) -> Token | None:
    """Return the token, if the text is a valid one."""
    parts = _TOKEN.fullmatch(text)
    if parts is None:
        return None
    with transaction(engine) as connection:
        row = connection.execute(select(tokens).where(tokens.c.id == int(parts[1]))).first()
    if row is None or not hmac.compare_digest(bytes(row.digest), _digest(parts[2])):
        return None
    return _token(row) if row.revoked == NEVER else None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _token(row: object) -> Token:
    values = {name: getattr(row, name) for name in Token.__dataclass_fields__}
    revoked = None if values["revoked"] == NEVER else values["revoked"]
    return Token(**values | {"role": Role(values["role"]), "revoked": revoked})
