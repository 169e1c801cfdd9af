"""`holdfast audit` and `holdfast repair`: whether nodes still hold it, and mending it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import completion, terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder, open_home
from holdfast.cli.sampling import (
    Confidence,
    DamageShare,
    Ratio,
    SampleCount,
    damaged_blocks,
    sample_count,
)
from holdfast.cli.server import Reason, ordered_about, user
from holdfast.cli.terminal import Json, PassphraseFile, say
from holdfast.errors import InputError
from holdfast.model.detection import detection_probability

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from holdfast.control.policies.aliases import Author
    from holdfast.owner import Finding

app = typer.Typer(no_args_is_help=True, help="Whether nodes still hold what they were given.")

Deadline = Annotated[int, typer.Option(min=1, help="Seconds that the node has to answer.")]
PASSED = "passed"


@app.callback()
def audit() -> None:
    """Audit holdings."""


@app.command()
def now(
    holding: Annotated[
        str | None,
        typer.Argument(
            metavar="HOLDING",
            autocompletion=completion.holdings,
            help="Which one; else all of them.",
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
    """Audit holdings at once: exit 1 if one fails, or its node does not answer in time.

    Example: holdfast audit now attic --samples 460
    """
    from holdfast.owner import audit_holding, select_holdings  # noqa: PLC0415

    def count_samples(blocks: int) -> int:
        return sample_count(blocks, samples, ratio, confidence, damaged_blocks(damage, blocks))

    opened = open_home(home, passphrase_file)
    facts = []
    for record in select_holdings(opened, [holding] if holding else []):
        finding = audit_holding(
            opened, record, count_samples, deadline_seconds=deadline, on_resumed=_warn_left_open
        )
        if finding is not None:
            count, blocks = finding.challenge.samples, finding.challenge.blocks
            chance = float(detection_probability(damaged_blocks(damage, blocks), count, blocks))
            facts.append({**_facts(finding), "detection_probability": chance})
    if not facts:
        raise InputError("there is nothing to audit yet: `holdfast put` a file first")
    if as_json:
        terminal.print_json({"audits": facts})
    else:
        for fact in facts:
            say(_sentence(fact))
    return 0 if all(fact["outcome"] == PASSED for fact in facts) else 1


@app.command()
def release(
    holding: Annotated[
        str,
        typer.Argument(
            metavar="HOLDING", autocompletion=completion.holdings, help="What is quarantined."
        ),
    ],
    reason: Reason = "",
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Bring a quarantined holding back to the schedule; it is audited at once.

    Needs no passphrase; the evidence tells of it.

    Example: holdfast audit release attic
    """
    from holdfast.control.incidents.store import release as bring_back  # noqa: PLC0415

    _order(home, holding, "release", reason, bring_back)
    if as_json:
        terminal.print_json({"holding": holding, "quarantined": False})
    else:
        say(f"{holding} is on the schedule again")


@app.command()
def ask(
    holding: Annotated[str, typer.Argument(metavar="HOLDING", help="What is to be audited.")],
    reason: Reason = "",
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Have the service audit a holding as soon as a worker is free.

    Needs no passphrase; the evidence tells of it.

    Example: holdfast audit ask attic --reason "its disk was moved"
    """
    from holdfast.control.operator_commands import audit_now  # noqa: PLC0415

    _order(home, holding, "audit-now", reason, audit_now)
    if as_json:
        terminal.print_json({"holding": holding, "due": True})
    else:
        say(f"{holding} is due now")


def _order(
    home: Path,
    holding: str,
    order: str,
    reason: str,
    carry_out: Callable[["Engine", str, "Author"], None],
) -> None:
    """Order something about a holding: from the running server, or else here."""
    from holdfast.control.policies.aliases import Author  # noqa: PLC0415
    from holdfast.control.service import milliseconds  # noqa: PLC0415
    from holdfast.control.settings.models import read_control  # noqa: PLC0415
    from holdfast.owner import check_home  # noqa: PLC0415
    from holdfast.storage.database import opened  # noqa: PLC0415

    folder = home.expanduser()
    check_home(folder)
    if ordered_about(folder, holding, order, reason):
        return
    with opened(read_control(folder).address(folder), read_only=False) as engine:
        carry_out(engine, holding, Author(user(), milliseconds(), reason))


def repair(
    holding: Annotated[
        str,
        typer.Argument(
            metavar="HOLDING", autocompletion=completion.holdings, help="What is to be mended."
        ),
    ],
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="A copy of your own to take blocks from. Repeatable."),
    ] = None,
    deadline: Deadline = 30,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> int:
    """Find the damaged blocks of a holding, put them back, and audit it again.

    They come from other holdings that have the same file, or from --source: exit 1 if some are
    lost, or the audit does not pass.

    Example: holdfast repair attic --source photos.tar
    """
    from holdfast.owner import repair_holding  # noqa: PLC0415

    opened = open_home(home, passphrase_file)
    with terminal.progress_bar("locating", 1, of_bytes=False) as bar:
        repair = repair_holding(
            opened,
            holding,
            source or [],
            deadline_seconds=deadline,
            on_progress=bar.reach,
            on_unreachable=terminal.warn_left_out,
        )
    audit = _facts(repair.audit)
    if as_json:
        files = [
            {
                "name": file.name,
                "damaged": len(file.damaged),
                "blocks": file.damaged,
                "lost": file.lost,
            }
            for file in repair.files
        ]
        terminal.print_json({"holding": holding, "files": files, "audit": audit})
    else:
        for file in repair.files:
            put_back = len(file.damaged) - len(file.lost)
            say(f"{file.name}: {put_back} of {len(file.damaged)} damaged blocks put back")
        if not repair.files:
            say(f"no block of {holding} is damaged")
        say(_sentence(audit))
    return 0 if repair.complete else 1


def _warn_left_open(finding: "Finding") -> None:
    terminal.complain(f"an audit of {finding.holding} was left open: {finding.outcome}")


def _facts(finding: "Finding") -> dict[str, Any]:
    return {
        "holding": finding.holding,
        "outcome": str(finding.outcome),
        "reason": finding.reason,
        "challenge_id": finding.challenge.id.hex(),
        "blocks": finding.challenge.blocks,
        "samples": finding.challenge.samples,
        "transaction": finding.transaction.hex(),
    }


def _sentence(fact: dict[str, Any]) -> str:
    sampled = f"{fact['samples']} of {fact['blocks']} blocks"
    if fact["outcome"] == PASSED:
        return f"{fact['holding']}: passed, {sampled} are intact"
    if fact["outcome"] == "failed":
        return f"{fact['holding']}: FAILED, the node does not hold all of {sampled}"
    return f"{fact['holding']}: TIMEOUT, no proof for {sampled}: {fact['reason']}"
