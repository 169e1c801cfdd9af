"""`holdfast audit`: check that nodes still have the data, now or as soon as the service can."""

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
from holdfast.control.incidents import store
from holdfast.errors import InputError
from holdfast.model.detection import detection_probability
from holdfast.owner import Finding, audit_holding, select_holdings

Deadline = Annotated[int, typer.Option(min=1, help="Seconds that the node has to answer.")]
HoldingName = Annotated[
    str, typer.Argument(metavar="HOLDING", autocompletion=complete_holding, help="Its name.")
]
PASSED, FAILED = "passed", "failed"


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
    audits = []
    for record in select_holdings(opened, [holding] if holding else []):
        finding = audit_holding(
            opened, record, count_samples, deadline_seconds=deadline, on_resumed=_warn_resumed
        )
        if finding is not None:
            count, blocks = finding.challenge.samples, finding.challenge.blocks
            chance = float(detection_probability(damaged_blocks(damage, blocks), count, blocks))
            audits.append({**audit_facts(finding), "detection_probability": chance})
    if not audits:
        raise InputError("there is nothing to audit yet: `holdfast put` a file first")
    report({"audits": audits}, map(describe_audit, audits), as_json=as_json)
    return 0 if all(facts["outcome"] == PASSED for facts in audits) else 1


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


def _warn_resumed(finding: Finding) -> None:
    terminal.complain(f"an earlier audit of {finding.holding} ended: {finding.outcome}")


def audit_facts(finding: Finding) -> dict[str, Any]:
    return {
        "holding": finding.holding,
        "outcome": str(finding.outcome),
        "reason": finding.reason,
        "challenge_id": finding.challenge.id.hex(),
        "blocks": finding.challenge.blocks,
        "samples": finding.challenge.samples,
        "transaction": finding.transaction.hex(),
    }


def describe_audit(facts: dict[str, Any]) -> str:
    sampled = f"all {facts['samples']:,} sampled blocks of {facts['blocks']:,}"
    if facts["outcome"] == PASSED:
        return f"{facts['holding']}: passed: {sampled} are intact"
    if facts["outcome"] == FAILED:
        return f"{facts['holding']}: FAILED: the node doesn't have {sampled}"
    return f"{facts['holding']}: TIMEOUT: no proof for {sampled}: {facts['reason']}"
