"""`holdfast policy promote`: a version is judged, and becomes the champion if it passes."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from holdfast.cli.control import Reason
from holdfast.cli.home import DEFAULT_HOME, HomeFolder
from holdfast.cli.registry import Policies, Version, judgement_bar, open_policies
from holdfast.cli.terminal import Json, report, table
from holdfast.control.inference.fits import world_of_fleet
from holdfast.control.policies import aliases
from holdfast.control.policies.aliases import Verdict
from holdfast.control.policies.promotion import judge
from holdfast.errors import InputError
from holdfast.evidence.codecs import plain
from holdfast.evidence.leaf import Check


def promote(
    version: Version = "challenger",
    force: Annotated[
        bool, typer.Option("--force", help="Promote it even if it fails. Needs --reason.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the verdict and change nothing.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Repeat the episodes of an earlier verdict. Default: new ones."),
    ] = None,
    reason: Reason = "",
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> int:
    """Make a version the champion if it passes: else exit 1.

    It must keep the ceiling on the miss rate in simulations of this fleet's world and of worse
    ones, and do no worse than the champion in shadow. What its manifest claims is measured again.
    The table [control.promotion] of holdfast.toml sets the conditions. The evidence records the
    verdict. The new champion decides from the next decision on.

    Example: holdfast policy promote challenger --dry-run
    """
    if force and not reason.strip():
        raise InputError("--force needs --reason: the evidence records it")
    if seed is not None and not dry_run:
        raise InputError("--seed needs --dry-run: a promotion draws new episodes")
    with open_policies(home, read_only=dry_run) as policies:
        candidate, champion = policies.find(version), policies.find("champion")
        if candidate == champion:
            raise InputError(f"{candidate[:12]} is the champion already")
        policies.registry.serving(candidate)  # even --force promotes nothing with another hash
        try:
            verdict = _judge(policies, candidate, champion, seed)
        except InputError as error:
            if not force:
                raise
            verdict = Verdict((Check("judgement", passed=False, detail=plain(str(error))),), {})
        promoted = not dry_run and (verdict.passed or force)
        forced = promoted and not verdict.passed
        if promoted:
            author = policies.author(reason)
            aliases.promote(
                policies.engine, policies.aliases, candidate, author, verdict, forced=forced
            )
    data = {
        "version": candidate,
        "passed": verdict.passed,
        "promoted": promoted,
        "forced": forced,
        "checks": [asdict(check) for check in verdict.checks],
        "figures": verdict.figures,
    }
    report(data, _describe(data, dry_run=dry_run), as_json=as_json)
    return 0 if verdict.passed or promoted else 1


def _judge(policies: Policies, candidate: str, champion: str, seed: int | None) -> Verdict:
    with judgement_bar(policies, candidate) as on_progress:
        return judge(
            policies.engine,
            candidate,
            champion,
            world_of_fleet(policies.engine, policies.settings.scenario),
            policies.settings.promotion,
            unit=policies.settings.rails.unit,
            seed=seed,
            on_progress=on_progress,
        )


def _describe(data: dict[str, Any], *, dry_run: bool) -> Iterator[str | Table]:
    rows = [
        ("passed" if check["passed"] else "FAILED", check["name"], check["detail"])
        for check in data["checks"]
    ]
    yield table(("", "", ""), rows)
    version = data["version"][:12]
    if data["promoted"]:
        yield f"{version} is the champion from the next decision on"
    elif dry_run:
        yield f"{version} would {'' if data['passed'] else 'not '}be promoted"
    else:
        yield f"{version} is NOT promoted; --force --reason TEXT promotes it anyway"
