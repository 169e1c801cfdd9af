"""Explains a leaf in plain sentences: why an audit was late or intense, and what it found."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch

from holdfast.evidence.anchors import ledger_name
from holdfast.evidence.leaf import (
    Audit,
    Change,
    CheckedHolding,
    CheckResponse,
    ConfigurationChange,
    Decision,
    Holding,
    Instruction,
    Leaf,
    Outcome,
    Policy,
    PolicyChange,
    Registration,
    Response,
    StorageCheck,
    Telemetry,
    Transaction,
    decode,
)
from holdfast.evidence.log import Log
from holdfast.model.action import Action
from holdfast.words import plural, size, span, when

_OWNERS_WORD = "This rests on the owner's word: nobody can check it again."
_ADMITTED = "the node admits the loss"


@dataclass(frozen=True)
class Selection:
    """Which leaves to explain: of some holdings, recorded from `since` up to `until`.

    A holding that had its name before or after another one has a number of its own. Checked
    holdings are selected by their ids on the schedule or, where no home knows them, by name.
    """

    holdings: frozenset[int] | None = None  # all, if it is None
    names: frozenset[str] = frozenset()  # of these holdings, for the commands about them
    since: int = 0
    until: int | None = None
    scheduled: frozenset[int] | None = None  # ids on the schedule

    def has(self, leaf: Leaf) -> bool:
        in_time = self.since <= leaf.at and (self.until is None or leaf.at < self.until)
        return in_time and (self.holdings is None or self._is_about(leaf, self.holdings))

    def _is_about(self, leaf: Leaf, holdings: frozenset[int]) -> bool:
        if isinstance(leaf, Instruction):
            return not self.names.isdisjoint(leaf.holdings)
        if isinstance(leaf, StorageCheck | CheckResponse):
            return self._selects(leaf.holding)
        return isinstance(leaf, Audit | Response | Registration) and leaf.holding.id in holdings

    def _selects(self, holding: CheckedHolding) -> bool:
        if self.scheduled is None:
            return holding.name in self.names
        return holding.id in self.scheduled


def select_leaves(
    log: Log, selection: Selection, start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, Leaf]]:
    """Yield the selected leaves with their indices."""
    for index, entry in enumerate(log.entries(start, stop), start):
        leaf = decode(entry.leaf, f"leaf {index}")
        if selection.has(leaf):
            yield index, leaf


def has_checks(log: Log, name: str) -> bool:
    """Return whether the log has checks of a holding that had this name then."""
    leaves = (leaf for _, leaf in select_leaves(log, Selection()))
    checks = (leaf for leaf in leaves if isinstance(leaf, StorageCheck | CheckResponse))
    return any(check.holding.name == name for check in checks)


@singledispatch
def explain(leaf: Leaf, _name: str | None = None) -> list[str]:
    """Return sentences: first what happened, then why.

    `name` is that of the holding, if it is known. The evidence itself has only its number.
    """
    raise TypeError(f"there is no explanation of {leaf}")


@explain.register
def _(audit: Audit, name: str | None = None) -> list[str]:
    challenge = audit.challenge
    reason = audit.reason.removeprefix(f"{_ADMITTED}: ")
    because = f": {reason}" if reason else ""
    meaning = f", {_ADMITTED}" if audit.outcome is Outcome.ADMITTED else ""
    what = f"audit {audit.number} of {_holding(audit.holding, name)}"
    return [
        f"{what}: {audit.outcome}{meaning}{because}",
        *_decision(audit.decision),
        _timing(audit),
        f"It asked for {challenge.samples} of {challenge.stop - challenge.start} blocks.",
        _cost(audit.verdict),
    ]


@explain.register
def _(response: Response, name: str | None = None) -> list[str]:
    holding = _holding(response.holding, name)
    what = f"response to audit {response.audit} of {holding}: {response.step}"
    sentences = [f"{what}: {response.detail}" if response.detail else what]
    if response.blocks:
        spans = ", ".join(f"{run.start} up to {run.stop}" for run in response.blocks[:10])
        more = f" and {len(response.blocks) - 10} more spans" if response.blocks[10:] else ""
        sentences.append(f"It concerns the blocks from {spans}{more}.")
    return sentences


@explain.register
def _(check: StorageCheck, name: str | None = None) -> list[str]:
    because = f": {check.reason}" if check.reason else ""
    what = f"check {check.number} of holding {name or check.holding.name}"
    return [
        f"{what}: {check.outcome}{because}",
        *_decision(check.decision),
        _check_timing(check),
        *_sampling(check),
        *_damage(check),
        _tool(check),
        _OWNERS_WORD,
    ]


@explain.register
def _(response: CheckResponse, name: str | None = None) -> list[str]:
    holding = f"holding {name or response.holding.name}"
    what = f"response to check {response.check} of {holding}: {response.step}"
    units = [f"It concerns {unit}." for unit in response.units]
    return [f"{what}: {response.detail}" if response.detail else what, *units]


@explain.register
def _(change: PolicyChange, _name: str | None = None) -> list[str]:
    what = {Change.NAMED: "named challenger", Change.WITHDRAWN: "withdrawn as challenger"}
    done = "promoted by force" if change.forced else what.get(change.change, change.change)
    before = f" after {_policy(change.previous)}" if change.previous else ""
    reason = f": {change.reason}" if change.reason else ""
    checks = [
        f"{check.name}: {'kept' if check.passed else 'BROKEN'}, {check.detail}."
        for check in change.checks
    ]
    return [f"{_policy(change.policy)} {done} by {change.by}{before}{reason}", *checks]


@explain.register
def _(change: ConfigurationChange, _name: str | None = None) -> list[str]:
    settings = [
        f"{setting.name} is {_value(setting.after)}; no value is on record before."
        if setting.before is None
        else f"{setting.name} was {_value(setting.before)}, is {_value(setting.after)}."
        for setting in change.settings
    ]
    return [f"configuration changed by {change.by}, now {_short(change.hash)}", *settings]


@explain.register
def _(registration: Registration, name: str | None = None) -> list[str]:
    holding, transaction = registration.holding, registration.transaction
    where = ledger_name(holding.domain)
    known = "The home does not know the transaction." if transaction is None else _cost(transaction)
    return [
        f"{_holding(holding, name)} registered, with {registration.sectors} sectors a block",
        *([] if name is None else [f"It is {_holding(holding)}."]),
        f"Its key is {_short(holding.key)}, on {where}.",
        known,
    ]


@explain.register
def _(instruction: Instruction, _name: str | None = None) -> list[str]:
    reason = f": {instruction.reason}" if instruction.reason else ""
    what = f"{instruction.order} of {instruction.subject}"
    return [f"{what}, ordered by {instruction.by}{reason}"]


def _decision(decision: Decision) -> Iterator[str]:
    yield f"Decided at {when(decision.at)} {_seen(decision.telemetry, decision.at)}."
    if decision.chosen:
        yield f"{_policy(decision.chosen.policy)} chose {_action(decision.chosen.action)}."
    else:
        yield "No policy could decide."
    for override in decision.overrides:
        changed = decision.chosen is None or override.action != decision.chosen.action
        made = f"made it {_action(override.action)}" if changed else "applied"
        yield f"The rail {override.rail} {made}, because {override.reason}."
    if decision.shadow:
        shadow = decision.shadow
        yield f"In shadow, {_policy(shadow.policy)} would have chosen {_action(shadow.action)}."


def _seen(telemetry: Telemetry, at: int) -> str:
    if telemetry.observation is None or telemetry.at is None:
        return "without any telemetry"
    signals = ", ".join(
        f"{name.replace('_', ' ')} {value:.2f}"
        for name, value in telemetry.observation._asdict().items()
    )
    age = f"{telemetry.freshness}, as of {when(telemetry.at)}, {span(at - telemetry.at)} before"
    return f"from {signals} ({age})"


def _timing(audit: Audit) -> str:
    due = f"Due at {when(audit.due_at)}"
    if audit.sent_at is None:
        return f"{due}, never sent."
    timing = _lateness(audit.sent_at - audit.due_at)
    sent = f"{due}, sent at {when(audit.sent_at)}, {timing}"
    if audit.answered_at is None:
        return f"{sent}; never answered."
    return f"{sent}; answered after {span(audit.answered_at - audit.sent_at)}."


def _check_timing(check: StorageCheck) -> str:
    due, began = f"Due at {when(check.due_at)}", when(check.began_at)
    length = span(check.ended_at - check.began_at)
    return f"{due}, began at {began}, {_lateness(check.began_at - check.due_at)}; took {length}."


def _lateness(late: int) -> str:
    return f"{span(late)} late" if late > 0 else f"{span(-late)} early" if late else "on time"


def _sampling(check: StorageCheck) -> Iterator[str]:
    """Yield what was to be checked, and what was read."""
    units = plural(check.units, check.unit)
    yield f"It drew {check.drawn:,} of {units} and checked {check.checked:,}."
    if check.read_bytes or check.requests:
        requests = plural(check.requests, "request")
        yield f"It read {size(check.read_bytes)} in {requests}."


def _damage(check: StorageCheck) -> Iterator[str]:
    """Yield the damaged units, those that are named one by one."""
    certain = "" if check.outcome is Outcome.FAILED else ", which is not certain"
    for unit in check.damaged:
        detail = f", {unit.detail}" if unit.detail else ""
        yield f"Damaged{certain}: {unit.name} ({unit.defect}{detail})."
    if more := check.damaged_units - len(check.damaged):
        yield f"{plural(more, 'damaged ' + check.unit)} more, not named here{certain}."


def _tool(check: StorageCheck) -> str:
    """Return which tool was run where, and what it said."""
    tool = check.tool or "a tool of unknown version"
    said = f' said: "{check.words}"' if check.words else " said nothing."
    return f"At {check.holding.address}, {tool}{said}"


def _cost(transaction: Transaction | None) -> str:
    if transaction is None:
        return "The ledger has no record of it."
    where = f"transaction {_short(transaction.hash)} in block {transaction.block}"
    return f"On the ledger: {where}, {transaction.gas:,} gas."


def _holding(holding: Holding, name: str | None = None) -> str:
    if name is not None:
        return f"holding {name}"
    return f"holding {holding.id:048x} on node {holding.node.hex()}"


def _policy(policy: Policy) -> str:
    return f"{policy.name} ({_short(policy.hash)})"


def _action(action: Action) -> str:
    small = action.ratio < 0.01
    return f"({action.interval}, {action.ratio:{'.2g' if small else '.2f'}})"


def _value(text: str | None) -> str:
    return "not set" if text is None else text or "empty"


def _short(hash_: bytes) -> str:
    return hash_.hex()[:12]
