"""`holdfast audit`: check that nodes still have the data, now or as soon as the service can."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.control import Reason, open_control
from holdfast.cli.home import DEFAULT_HOME, HomeFolder, complete_holding, open_home
from holdfast.cli.sampling import (
    Confidence,
    DamageShare,
    Ratio,
    SampleCount,
    damaged_blocks,
    sample_count,
)
from holdfast.cli.terminal import Json, PassphraseFile, report
from holdfast.control import operator_commands
from holdfast.control.audit_now import audit_holdings
from holdfast.control.audits.types import AuditResult, CheckDetail
from holdfast.control.incidents import store
from holdfast.control.settings.models import read_control
from holdfast.durations import SECOND
from holdfast.errors import InputError
from holdfast.evidence.leaf import Outcome
from holdfast.model.detection import detection_probability
from holdfast.words import plural, size

Deadline = Annotated[int, typer.Option(min=1, help="Seconds that the node has to answer.")]
HoldingName = Annotated[
    str, typer.Argument(metavar="HOLDING", autocompletion=complete_holding, help="Its name.")
]


def now(
    holding: Annotated[
        str | None,
        typer.Argument(
            metavar="HOLDING", autocompletion=complete_holding, help="Its name. Default: all."
        ),
    ] = None,
    samples: SampleCount = None,
    ratio: Ratio = None,
    confidence: Confidence = 0.99,
    damage: DamageShare = 0.01,
    deadline: Deadline = 30,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> int:
    """Audit holdings now: exit 1 if one fails or its node doesn't answer.

    Example: holdfast audit now attic --samples 460
    """

    def count_samples(blocks: int) -> int:
        return sample_count(blocks, samples, ratio, confidence, damaged_blocks(damage, blocks))

    opened = open_home(home, passphrase_file)
    results = audit_holdings(
        opened,
        [holding] if holding else [],
        count_samples,
        deadline_seconds=deadline,
        on_resumed=_warn_resumed,
    )
    if not results:
        raise InputError("there is nothing to audit yet: `holdfast put` a file first")
    audits = []
    for result in results:
        count, blocks = result.checked, result.units
        chance = float(detection_probability(damaged_blocks(damage, blocks), count, blocks))
        facts = {**audit_facts(result), "detection_probability": chance}
        if isinstance(result.detail, CheckDetail):
            facts["left_out"] = max(count_samples(blocks) - result.detail.drawn, 0)
            facts["daily_bytes"] = read_control(opened.folder).checks.daily_bytes
        audits.append(facts)
    report({"audits": audits}, map(describe_audit, audits), as_json=as_json)
    return 0 if all(facts["outcome"] == Outcome.PASSED for facts in audits) else 1


def release(
    holding: HoldingName,
    reason: Reason = "",
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Put a quarantined holding back on the schedule.

    The service audits it at once. The evidence records the command. Needs no passphrase.

    Example: holdfast audit release attic
    """
    with open_control(home) as control:
        store.release(control.engine, holding, control.author(reason))
    data = {"holding": holding, "quarantined": False}
    report(data, f"{holding} is on the schedule again", as_json=as_json)


def ask(
    holding: HoldingName,
    reason: Reason = "",
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Tell the service to audit a holding as soon as a worker is free.

    The evidence records the command. Needs no passphrase.

    Example: holdfast audit ask attic --reason "its disk was moved"
    """
    with open_control(home) as control:
        operator_commands.audit_now(control.engine, holding, control.author(reason))
    report({"holding": holding, "due": True}, f"{holding} is due now", as_json=as_json)


def _warn_resumed(result: AuditResult) -> None:
    terminal.complain(f"an earlier audit of {result.name} ended: {result.outcome}")


def audit_facts(result: AuditResult) -> dict[str, Any]:
    if isinstance(result.detail, CheckDetail):
        return _check_facts(result, result.detail)
    verdict = result.detail.verdict
    return {
        "holding": result.name,
        "outcome": str(result.outcome),
        "reason": result.reason or None,
        "challenge_id": result.detail.id.hex(),
        "blocks": result.units,
        "samples": result.checked,
        "objects": list(result.detail.objects),
        "transaction": None if verdict is None else verdict.hash.hex(),
    }


def _check_facts(result: AuditResult, detail: CheckDetail) -> dict[str, Any]:
    return {
        "holding": result.name,
        "outcome": str(result.outcome),
        "reason": result.reason or None,
        "kind": detail.kind,
        "tool": detail.tool,
        "unit": detail.unit,
        "units": result.units,
        "sampled": detail.drawn,
        "checked": result.checked,
        "damaged": [{"name": unit.name, "defect": str(unit.defect)} for unit in detail.damaged],
        "read_bytes": result.read_bytes,
        "requests": result.requests,
        "seconds": max(result.ended - result.began, 0) / SECOND,
    }


def describe_audit(facts: dict[str, Any]) -> str:
    if "unit" in facts:
        return _describe_check(facts)
    sampled = f"all {facts['samples']:,} sampled blocks of {facts['blocks']:,}"
    outcome = Outcome(facts["outcome"])
    because = "; ".join(["", *filter(None, [facts["reason"]]), *facts["objects"]])
    if outcome is Outcome.PASSED:
        return f"{facts['holding']}: passed: {sampled} are intact{because}"
    if outcome is Outcome.FAILED:
        return f"{facts['holding']}: FAILED: the node doesn't have {sampled}{because}"
    return f"{facts['holding']}: {outcome.upper()}: no proof for {sampled}: {facts['reason']}"


def _describe_check(facts: dict[str, Any]) -> str:
    return "\n".join([_describe_outcome(facts), *_describe_extent(facts)])


def _describe_extent(facts: dict[str, Any]) -> Iterator[str]:
    """Yield where a check read more than checks may read in a day, or less than it was asked to."""
    budget, read = facts.get("daily_bytes"), facts["read_bytes"]
    if budget is not None and read > budget:
        yield f"it read {size(read)}, and daily_bytes is {size(budget)}: you asked for it"
    if facts.get("left_out") and facts["checked"]:
        left = f"{facts['left_out']:,} of {plural(facts['units'], facts['unit'])}"
        yield f"{left} left out: an earlier check could not end, so this one was smaller"


def _describe_outcome(facts: dict[str, Any]) -> str:
    read = f"{facts['checked']:,} of {plural(facts['units'], facts['unit'])}"
    outcome = Outcome(facts["outcome"])
    if outcome is Outcome.PASSED:
        return f"{facts['holding']}: passed: {read} read and intact, by {facts['tool']}"
    if outcome is Outcome.FAILED:
        return f"{facts['holding']}: FAILED: {facts['reason']}; {read} read, by {facts['tool']}"
    return f"{facts['holding']}: {outcome.upper()}: {facts['reason']}"
