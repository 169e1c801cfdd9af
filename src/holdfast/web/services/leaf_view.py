"""A leaf of the evidence as it is told: in words, and in full."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, select

from holdfast.evidence import leaf
from holdfast.evidence.explain import story
from holdfast.storage.schema import holdings, leaves


@dataclass(frozen=True)
class LeafTold:
    """A leaf: what happened, how it came about, and all that it records."""

    place: int | None  # in the tree; none until the sequencer has given it one
    kind: str
    at: int
    holding: int | None
    name: str | None  # of the holding
    title: str
    story: list[str]
    content: dict[str, Any]


def leaf_query() -> Select[Any]:
    """Return the query of leaves with the names of their holdings."""
    columns = (leaves.c.id, leaves.c.place, leaves.c.holding, leaves.c.body, holdings.c.name)
    return select(*columns).outerjoin(holdings, holdings.c.id == leaves.c.holding)


def told(row: Row[Any]) -> LeafTold:
    body = bytes(row.body)
    content = json.loads(body)
    decoded = leaf.decode(body)
    title, *rest = story(decoded)
    kind = content.pop("holdfast")
    content.pop("version")
    return LeafTold(row.place, kind, decoded.at, row.holding, row.name, title, rest, content)


def told_all(rows: Sequence[Row[Any]]) -> list[LeafTold]:
    return [told(row) for row in rows]
