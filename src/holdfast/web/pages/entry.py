"""A leaf of the evidence as pages list it: a short title, the reasons, and facts to look up."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.control.queries.leaves import LeafView
from holdfast.web.pages.words import percent
from holdfast.words import plural, span


@dataclass(frozen=True)
class Entry:
    """A leaf as a line of the timeline."""

    leaf: LeafView
    title: str
    outcome: str  # of an audit
    reasons: list[str]
    facts: dict[str, str]


def entry(leaf: LeafView, unit: str) -> Entry:
    """Return a leaf as it is listed; `unit` is what an interval is counted in."""
    content = leaf.content
    if leaf.kind == "audit":
        reasons = [*_decision(content["decision"], unit), _timing(content)]
    else:
        reasons = leaf.story
    return Entry(leaf, _title(leaf), content.get("outcome", ""), reasons, _facts(content))


def _title(leaf: LeafView) -> str:
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
    for override in decision["overrides"]:
        action = _action(override["action"], unit)
        yield f"The rail {override['rail']} made it {action}, because {override['reason']}."
    if shadow:
        action = _action(shadow["action"], unit)
        yield f"In shadow, {shadow['policy']['name']} would have chosen {action}."


def _action(action: dict[str, Any], unit: str) -> str:
    return f"{plural(action['interval'], unit)} and {percent(action['ratio'])} of the blocks"


def _timing(content: dict[str, Any]) -> str:
    if content["sent_at"] is None:
        return "It was never sent."
    late = content["sent_at"] - content["due_at"]
    timing = f"{span(late)} late" if late > 0 else f"{span(-late)} early" if late else "on time"
    if content["answered_at"] is None:
        return f"Sent {timing}; never answered."
    return f"Sent {timing}; answered after {span(content['answered_at'] - content['sent_at'])}."


def _facts(content: dict[str, Any]) -> dict[str, str]:
    """Return what a reader may look up: hashes, the transaction, its cost."""
    facts: dict[str, str] = {}
    decision = content.get("decision") or {}
    for label, choice in (("Policy", decision.get("chosen")), ("Shadow", decision.get("shadow"))):
        if choice:
            facts[label] = f"{choice['policy']['name']} {choice['policy']['hash']}"
    if content.get("proof"):
        facts["Proof (Keccak-256)"] = content["proof"]
    if content.get("verdict"):
        facts["Transaction"] = content["verdict"]["hash"]
        facts["Block"] = f"{content['verdict']['block']:,}"
        facts["Gas"] = f"{content['verdict']['gas']:,}"
    return facts
