"""New events, read from the evidence: every leaf of a holding as one line of text."""

from dataclasses import dataclass

from sqlalchemy import Engine

from holdfast.control.queries.leaves import leaves_written_after
from holdfast.evidence import leaf
from holdfast.storage.database import transaction


@dataclass(frozen=True)
class Event:
    at: int
    node: str
    kind: str  # the outcome of an audit, or the step of a response
    text: str
    blocks: tuple[int, ...] = ()  # that a step concerns
    sampled: int = 0  # blocks, by an audit


class EventFeed:
    """Reads the leaves that are new since the last call."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._read = engine, 0

    def new_events(self) -> list[Event]:
        with transaction(self._engine) as connection:
            written = leaves_written_after(connection, self._read)
        self._read = written[-1].id if written else self._read
        events = (_event(row.leaf, row.name or "") for row in written)
        return [event for event in events if event is not None]


def _event(content: leaf.Leaf, node: str) -> Event | None:
    match content:
        case leaf.Audit():
            return _audit_event(content, node)
        case leaf.Response():
            return _response_event(content, node)
    return None


def _audit_event(audit: leaf.Audit, node: str) -> Event:
    action, sampled = audit.decision.action, audit.challenge.samples
    rails = {override.rail for override in audit.decision.overrides}
    after = f"after {days(action.interval)}"
    after = "on its first day" if "first" in rails else after
    after = "by surprise" if "surprise" in rails else after
    after = "to follow up" if "follow-up" in rails else after
    text = f"audit {audit.number} {audit.outcome}: {sampled:,} blocks asked for, {after}"
    return Event(audit.at, node, audit.outcome, text, sampled=sampled)


def _response_event(response: leaf.Response, node: str) -> Event:
    blocks = tuple(block for span in response.blocks for block in range(span.start, span.stop))
    text = f"{response.step}: {response.detail}"
    return Event(response.at, node, response.step, text, blocks)


def days(count: int) -> str:
    return f"{count} day{'' if count == 1 else 's'}"
