"""A leaf of the evidence as the pages list it: a short title, the reasons, and what to look up."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.evidence.explain import span
from holdfast.web.pages.words import percent, things
from holdfast.web.services.leaf_view import LeafTold


@dataclass(frozen=True)
class Entry:
    """A leaf as a line of the timeline."""

    leaf: LeafTold
    title: str
    outcome: str  # of an audit
    reasons: list[str]
    facts: dict[str, str]


def entry(leaf: LeafTold, unit: str) -> Entry:
    """Return a leaf as it is listed; `unit` is what an interval is counted in."""
    content = leaf.content
    if leaf.kind == "audit":
        reasons = [*_decision(content["decision"], unit), _course(content)]
    else:
        reasons = leaf.story
    return Entry(leaf, _title(leaf), content.get("outcome", ""), reasons, _facts(content))


def _title(leaf: LeafTold) -> str:
    content = leaf.content
    if leaf.kind == "audit":
        because = f": {content['reason']}" if content["reason"] else ""
        return f"Audit {content['number']} {content['outcome'].replace('-', ' ')}{because}"
    if leaf.kind == "response":
        detail = f": {content['detail']}" if content["detail"] else ""
        return f"After audit {content['audit']}: {content['step']}{detail}"
    return leaf.title[:1].upper() + leaf.title[1:]


def _decision(decision: dict[str, Any], unit: str) -> Iterator[str]:
    chosen, shadow = decision["chosen"], decision["shadow"]
    if chosen:
        yield f"{chosen['policy']['name']} chose {_action(chosen['action'], unit)}."
    else:
        yield "No policy could decide."
    for each in decision["overrides"]:
        made = _action(each["action"], unit)
        yield f"The rail {each['rail']} made it {made}, because {each['reason']}."
    if shadow:
        wish = _action(shadow["action"], unit)
        yield f"In shadow, {shadow['policy']['name']} would have chosen {wish}."


def _action(action: dict[str, Any], unit: str) -> str:
    return f"{things(action['interval'], unit)} and {percent(action['ratio'])} of the blocks"


def _course(content: dict[str, Any]) -> str:
    if content["sent_at"] is None:
        return "It was never sent."
    late = content["sent_at"] - content["due_at"]
    timing = f"{span(late)} late" if late > 0 else f"{span(-late)} early" if late else "on time"
    if content["answered_at"] is None:
        return f"Sent {timing}; never answered."
    return f"Sent {timing}; answered after {span(content['answered_at'] - content['sent_at'])}."


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
