"""A leaf of the evidence as pages list it: a short title, the reasons, and facts to look up."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.control.queries.leaves import LeafView
from holdfast.web.pages.words import name, percent
from holdfast.words import plural, span

_CHECK_FACTS = {
    "Tool": "tool",
    "Seed": "seed",
    "Sample (SHA-256 of its names)": "sample",
    "Words (SHA-256)": "words_hash",
}
MAX_UNITS = 5  # damaged units that a timeline names


@dataclass(frozen=True)
class Entry:
    """A leaf as a line of the timeline."""

    leaf: LeafView
    title: str
    outcome: str  # of an audit or a check
    reasons: list[str]
    facts: dict[str, str]


def entry(leaf: LeafView, unit: str) -> Entry:
    """Return a leaf as it is listed; `unit` is what an interval is counted in."""
    content = leaf.content
    if leaf.kind == "audit":
        reasons = [*_decision(content["decision"], unit, "block"), _timing(content)]
    elif leaf.kind == "check":
        reasons = [*_decision(content["decision"], unit, content["unit"]), *_check(content)]
    else:
        reasons = leaf.story
    return Entry(leaf, _title(leaf), content.get("outcome", ""), reasons, _facts(content))


def _title(leaf: LeafView) -> str:
    content = leaf.content
    if leaf.kind in {"audit", "check"}:
        because = f": {content['reason']}" if content["reason"] else ""
        what = f"{leaf.kind.capitalize()} {content['number']}"
        return f"{what} {content['outcome'].replace('-', ' ')}{because}"
    if leaf.kind in {"response", "check-response"}:
        what = "audit" if leaf.kind == "response" else "check"
        detail = f": {content['detail']}" if content["detail"] else ""
        return f"After {what} {content[what]}: {content['step']}{detail}"
    return leaf.title[:1].upper() + leaf.title[1:]


def _decision(decision: dict[str, Any], unit: str, part: str) -> Iterator[str]:
    """Yield who decided; an interval is counted in `unit`, and a sample in `part`."""
    chosen, shadow = decision["chosen"], decision["shadow"]
    if chosen:
        yield f"{chosen['policy']['name']} chose {_action(chosen['action'], unit, part)}."
    else:
        yield "No policy could decide."
    for override in decision["overrides"]:
        action = _action(override["action"], unit, part)
        yield f"The rail {override['rail']} made it {action}, because {override['reason']}."
    if shadow:
        action = _action(shadow["action"], unit, part)
        yield f"In shadow, {shadow['policy']['name']} would have chosen {action}."


def _action(action: dict[str, Any], unit: str, part: str) -> str:
    return f"{plural(action['interval'], unit)} and {percent(action['ratio'])} of the {part}s"


def _check(content: dict[str, Any]) -> Iterator[str]:
    length = span(content["ended_at"] - content["began_at"])
    yield f"Began {_lateness(content['began_at'] - content['due_at'])}; took {length}."
    units, tool = plural(content["units"], content["unit"]), content["tool"]
    by = f", by {tool}" if tool else ""
    yield f"{content['checked']:,} of {units} checked{by}. This rests on the owner's word."
    if content["damaged_units"]:
        named = [name(unit["name"]) for unit in content["damaged"][:MAX_UNITS]]
        more = content["damaged_units"] - len(named)
        yield f"Damaged: {', '.join(named)}{f' and {more:,} more' if more else ''}."


def _lateness(late: int) -> str:
    return f"{span(late)} late" if late > 0 else f"{span(-late)} early" if late else "on time"


def _timing(content: dict[str, Any]) -> str:
    if content["sent_at"] is None:
        return "It was never sent."
    timing = _lateness(content["sent_at"] - content["due_at"])
    if content["answered_at"] is None:
        return f"Sent {timing}; never answered."
    return f"Sent {timing}; answered after {span(content['answered_at'] - content['sent_at'])}."


def _facts(content: dict[str, Any]) -> dict[str, str]:
    """Return what a reader may look up: hashes, the tool, the transaction, its cost."""
    facts: dict[str, str] = {}
    decision = content.get("decision") or {}
    for label, choice in (("Policy", decision.get("chosen")), ("Shadow", decision.get("shadow"))):
        if choice:
            facts[label] = f"{choice['policy']['name']} {choice['policy']['hash']}"
    for label, field in _CHECK_FACTS.items():
        if content.get(field):
            facts[label] = content[field]
    if content.get("proof"):
        facts["Proof (Keccak-256)"] = content["proof"]
    if content.get("verdict"):
        facts["Transaction"] = content["verdict"]["hash"]
        facts["Block"] = f"{content['verdict']['block']:,}"
        facts["Gas"] = f"{content['verdict']['gas']:,}"
    return facts
