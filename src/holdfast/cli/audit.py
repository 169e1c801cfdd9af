"""`holdfast audit` and `holdfast repair`: whether nodes still hold it, and mending it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import completion, terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder, chosen, open_home
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
from holdfast.pdp import Location

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from holdfast.control.policies.aliases import Author
    from holdfast.owner import Copy, Finding

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
    from holdfast.owner import resume, run_audit, sample_cap  # noqa: PLC0415

    opened = open_home(home, passphrase_file)
    facts = []
    for record in chosen(opened, [holding] if holding else []):
        with opened.holding(record.name) as place, opened.ledger(record.sectors) as ledger:
            for finding in resume(ledger, place):
                terminal.complain(f"an audit of {record.name} was left open: {finding.outcome}")
            blocks = place.inventory.blocks
            if not blocks:
                continue
            damaged = damaged_blocks(damage, blocks)
            count = sample_count(blocks, samples, ratio, confidence, damaged)
            count = min(count, sample_cap(place) or count)
            found = run_audit(ledger, place, count, patience=deadline)
            chance = float(detection_probability(damaged, count, blocks))
            facts.append({**_facts(found), "detection_probability": chance})
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
    from holdfast.owner import (  # noqa: PLC0415
        LocalCopy,
        find_damage,
        other_replicas,
        repair_file,
        run_audit,
        sample_cap,
    )

    own = {_sha256(file): Location(file) for file in source or []}
    opened = open_home(home, passphrase_file)
    mended: list[dict[str, Any]] = []
    with opened.changing(holding) as place, opened.ledger(place.record.sectors) as ledger:
        blocks = place.inventory.blocks
        if not blocks:
            raise InputError(f"holding {holding!r} is empty: there is nothing to repair")
        with terminal.progress_bar("locating", blocks, of_bytes=False) as bar:
            damage = find_damage(place, bar.reach)
        for damaged in damage:
            file = damaged.replica.file
            copies: list[Copy] = [LocalCopy(own[file.sha256])] if file.sha256 in own else []
            with other_replicas(opened, place, file) as others:
                for name, error in others.unreachable.items():
                    terminal.complain(f"holding {name} is left out: {error}")
                lost = repair_file(damaged, [*copies, *others.replicas])
            mended.append(
                {
                    "name": damaged.replica.file.name,
                    "damaged": len(damaged.blocks),
                    "blocks": damaged.blocks,
                    "lost": lost,
                }
            )
        count = min(blocks, sample_cap(place) or blocks)
        finding = run_audit(ledger, place, count, patience=deadline)
    found = _facts(finding)
    if as_json:
        terminal.print_json({"holding": holding, "files": mended, "audit": found})
    else:
        for fact in mended:
            kept = fact["damaged"] - len(fact["lost"])
            say(f"{fact['name']}: {kept} of {fact['damaged']} damaged blocks put back")
        if not mended:
            say(f"no block of {holding} is damaged")
        say(_sentence(found))
    whole = not any(fact["lost"] for fact in mended)
    return 0 if whole and found["outcome"] == PASSED else 1


def _sha256(file: str) -> bytes:
    from holdfast.owner import Original  # noqa: PLC0415

    return Original.of(Location(file)).content.sha256


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
