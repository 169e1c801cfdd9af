"""A leaf of the evidence as the pages list it: a short title, and what a stranger would look up."""

from dataclasses import dataclass
from typing import Any

from holdfast.web.telling import LeafTold


@dataclass(frozen=True)
class Entry:
    """A leaf of the evidence as a line of the timeline."""

    leaf: LeafTold
    title: str
    outcome: str
    facts: dict[str, str]


def entry(leaf: LeafTold) -> Entry:
    content = leaf.content
    return Entry(leaf, _title(leaf), str(content.get("outcome", "")), _facts(content))


def _title(leaf: LeafTold) -> str:
    content = leaf.content
    if leaf.kind == "audit":
        because = f": {content['reason']}" if content["reason"] else ""
        return f"Audit {content['number']} {content['outcome'].replace('-', ' ')}{because}"
    if leaf.kind == "response":
        detail = f": {content['detail']}" if content["detail"] else ""
        return f"After audit {content['audit']}: {content['step']}{detail}"
    return leaf.title[:1].upper() + leaf.title[1:]


def _facts(content: dict[str, Any]) -> dict[str, str]:
    """Return what a stranger would look up: hashes, the transaction, what it cost."""
    found: dict[str, str] = {}
    decision = content.get("decision") or {}
    for label, choice in (("Policy", decision.get("chosen")), ("Shadow", decision.get("shadow"))):
        if choice:
            found[label] = f"{choice['policy']['name']} {choice['policy']['hash']}"
    if content.get("proof"):
        found["Proof (SHA-256)"] = content["proof"]
    if content.get("verdict"):
        found["Transaction"] = content["verdict"]["hash"]
        found["Block"] = f"{content['verdict']['block']:,}"
        found["Gas"] = f"{content['verdict']['gas']:,}"
    return found
