"""What has happened, as the evidence tells it: every new leaf of a holding in a few words."""

from dataclasses import dataclass

from sqlalchemy import Engine

from holdfast.control.queries.leaves import leaves_written_after
from holdfast.evidence import leaf
from holdfast.storage.database import transaction


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
        with transaction(self._engine) as connection:
            written = leaves_written_after(connection, self._read)
        self._read = written[-1].id if written else self._read
        return [news for row in written if (news := _news(row.leaf, row.name or "")) is not None]


def _news(entry: leaf.Leaf, node: str) -> News | None:
    match entry:
        case leaf.Audit():
            return _of_audit(entry, node)
        case leaf.Response():
            return _of_response(entry, node)
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
