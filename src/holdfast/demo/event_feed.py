"""What has happened, as the evidence tells it: every new leaf of a holding in a few words."""

from dataclasses import dataclass

from sqlalchemy import Engine

from holdfast.evidence import leaf
from holdfast.storage.database import transaction
from holdfast.storage.schema import leaves
from holdfast.web.services.leaf_view import leaf_query


@dataclass(frozen=True)
class News:
    at: int
    node: str
    what: str  # the outcome of an audit, or the step of a response
    words: str
    blocks: tuple[int, ...] = ()  # that a step is about
    sampled: int = 0  # blocks, by an audit


class Newspaper:
    def __init__(self, engine: Engine) -> None:
        self._engine, self._read = engine, 0

    def fresh(self) -> list[News]:
        """Return what came in since this was last asked."""
        query = leaf_query().where(leaves.c.id > self._read).order_by(leaves.c.id)
        with transaction(self._engine) as connection:
            rows = connection.execute(query).all()
        self._read = rows[-1].id if rows else self._read
        told = ((leaf.decode(bytes(row.body)), row.name) for row in rows)
        return [news for each, node in told if (news := _news(each, node)) is not None]


def _news(told: leaf.Leaf, node: str) -> News | None:
    match told:
        case leaf.Audit():
            return _of_audit(told, node)
        case leaf.Response():
            return _of_response(told, node)
    return None


def _of_audit(audit: leaf.Audit, node: str) -> News:
    action, sampled = audit.decision.action, audit.challenge.samples
    rails = {override.rail for override in audit.decision.overrides}
    after = f"after {days(action.interval)}"
    after = "by surprise" if "surprise" in rails else after
    after = "to follow up" if "follow-up" in rails else after
    words = f"audit {audit.number} {audit.outcome}: {sampled:,} blocks asked for, {after}"
    return News(audit.at, node, audit.outcome, words, sampled=sampled)


def _of_response(response: leaf.Response, node: str) -> News:
    blocks = tuple(block for span in response.blocks for block in range(span.start, span.stop))
    words = f"{response.step}: {response.detail}"
    return News(response.at, node, response.step, words, blocks)


def days(count: int) -> str:
    return f"{count} day{'' if count == 1 else 's'}"
