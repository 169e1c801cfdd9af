"""`holdfast policy`: which policies there are, how a new one does, and letting it in or out."""

import getpass
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder
from holdfast.cli.terminal import Json, say
from holdfast.errors import InputError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from holdfast.control.aliases import Aliases, Author
    from holdfast.control.comparison import Comparison
    from holdfast.control.registry import Registry
    from holdfast.control.settings import ControlSettings
    from holdfast.evidence.leaf import Check

app = typer.Typer(no_args_is_help=True, help="Policies: try a new one, let it in, take it back.")

Version = Annotated[
    str,
    typer.Argument(
        metavar="VERSION", help="champion, challenger, previous, or the beginning of its hash."
    ),
]
Reason = Annotated[str, typer.Option(help="Why, for the evidence.", show_default=False)]


@dataclass(frozen=True)
class Desk:
    """An open registry, with all that commands ask of it."""

    engine: "Engine"
    settings: "ControlSettings"
    registry: "Registry"
    aliases: "Aliases"

    def find(self, version: str) -> str:
        return self.registry.find(version, self.aliases)

    def champion(self) -> str:
        return self.find("champion")

    def author(self, reason: str) -> "Author":
        from holdfast.control.aliases import Author  # noqa: PLC0415 - as in other commands
        from holdfast.control.service import milliseconds  # noqa: PLC0415

        return Author(_user(), milliseconds(), reason)


@app.command(name="list")
def list_command(home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """List the versions that are registered, the newest first.

    Example: holdfast policy list
    """
    with _desk(home, read_only=True) as desk:
        known = desk.registry.listing()
        facts = [asdict(each) | {"aliases": desk.aliases.of(each.version)} for each in known]
    if as_json:
        terminal.print_json({"versions": facts})
        return
    for fact in facts:
        aliases = ", ".join(fact["aliases"])
        say(f"{fact['version'][:12]}  {fact['name']}{aliases and f'  ({aliases})'}")


@app.command()
def show(version: Version, home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """Show one version, after checking it against its hash.

    Example: holdfast policy show challenger
    """
    with _desk(home, read_only=True) as desk:
        found = desk.registry.serving(desk.find(version))
        manifest = desk.registry.manifest(found.version)
        aliases = desk.aliases.of(found.version)
    facts = {"version": found.version, "name": found.name, "aliases": aliases, "rho": found.rho}
    if as_json:
        terminal.print_json(facts | {"manifest": manifest})
        return
    say(f"{found.name}, version {found.version}{aliases and ', ' + ' and '.join(aliases)}")
    if found.rho is not None:
        say(f"made for a miss rate of at most {found.rho:g}")
    if manifest is not None:
        code, world = manifest["code_version"], manifest["scenario"]["name"]
        say(f"{manifest['method']}, trained for {world} with seed {manifest['seed']} by {code}")


@app.command()
def add(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME|DIR", help="A policy as in evaluate, or a checkpoint."),
    ],
    challenger: Annotated[
        bool, typer.Option("--challenger", help="Let it run in shadow from now on.")
    ] = False,
    reason: Reason = "",
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Register a policy; it decides nothing until it is promoted.

    Example: holdfast policy add runs/a --challenger
    """
    from holdfast.control.aliases import challenge as begin  # noqa: PLC0415 - as the others

    with _desk(home) as desk:
        author = desk.author(reason)
        served = desk.registry.register(name, desk.settings.scenario, author.at)
        if challenger:
            begin(desk.engine, desk.aliases, served.version, author)
    if as_json:
        terminal.print_json({"version": served.version, "name": name, "challenger": challenger})
    else:
        what = " and runs in shadow" if challenger else ""
        say(f"{name} is registered as {served.version[:12]}{what}")


@app.command()
def challenge(
    version: Version, reason: Reason = "", home: HomeFolder = DEFAULT_HOME, as_json: Json = False
) -> None:
    """Let a registered version run in shadow from the next decision on.

    Example: holdfast policy challenge 1f3b
    """
    from holdfast.control.aliases import challenge as begin  # noqa: PLC0415 - as above

    with _desk(home) as desk:
        found = desk.registry.serving(desk.find(version))
        begin(desk.engine, desk.aliases, found.version, desk.author(reason))
    _done("challenger", found.version, f"{found.name} runs in shadow", as_json=as_json)


@app.command()
def withdraw(reason: Reason = "", home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """Let the challenger run in shadow no more.

    Example: holdfast policy withdraw --reason "it is out of date"
    """
    from holdfast.control.aliases import withdraw as end  # noqa: PLC0415 - as above

    with _desk(home) as desk:
        end(desk.engine, desk.aliases, desk.author(reason))
    _done("challenger", None, "there is no challenger any more", as_json=as_json)


@app.command()
def evaluate(version: Version, home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> int:
    """Simulate a version in this fleet's world and in worse ones: exit 1 if it breaks a ceiling.

    Example: holdfast policy evaluate challenger
    """
    from holdfast.control.promotion import (  # noqa: PLC0415 - as above
        ceiling_of,
        numbers,
        trials,
        world_of_fleet,
    )

    with _desk(home, read_only=True) as desk, _bar(desk) as progress:
        conditions = desk.settings.promotion
        policy = desk.registry.serving(desk.find(version))
        ceiling = ceiling_of(conditions, desk.registry.serving(desk.champion()))
        world = world_of_fleet(desk.engine, desk.settings.scenario)
        found = trials(policy, world, ceiling, conditions, progress)
    kept = all(trial.kept for trial in found)
    if as_json:
        facts = [numbers(trial) for trial in found]
        terminal.print_json({"version": policy.version, "kept": kept, "trials": facts})
    else:
        _tell_checks([trial.check() for trial in found])
    return 0 if kept else 1


@app.command()
def shadow(
    version: Version = "challenger", home: HomeFolder = DEFAULT_HOME, as_json: Json = False
) -> None:
    """Compare a version in shadow with the champion, decision by decision.

    Differences have 95 % intervals, over holdings. Gas is a share of that of an audit of all
    blocks; a month's is that of one holding.

    Example: holdfast policy shadow
    """
    from holdfast.control.comparison import compare  # noqa: PLC0415 - as above

    with _desk(home, read_only=True) as desk:
        found, champion = desk.find(version), desk.champion()
        beside = compare(desk.engine, found, champion, unit=desk.settings.rails.unit)
    if as_json:
        facts = None if beside is None else asdict(beside)
        terminal.print_json({"version": found, "champion": champion, "comparison": facts})
    elif beside is None:
        say(f"{found[:12]} has not decided beside the champion yet")
    else:
        _tell_comparison(beside)


@app.command()
def promote(
    version: Version = "challenger",
    force: Annotated[
        bool, typer.Option("--force", help="Promote it whatever is found; needs --reason.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the verdict and change nothing.")
    ] = False,
    reason: Reason = "",
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> int:
    """Let a version decide from the next decision on, if it keeps the ceiling: else exit 1.

    It must keep the ceiling on the miss rate in simulation, in this fleet's world and in worse
    ones, and do no worse than the champion in shadow. The table [control.promotion] of
    holdfast.toml says what is enough. The evidence tells what was found.

    Example: holdfast policy promote challenger --dry-run
    """
    from holdfast.control.aliases import Verdict  # noqa: PLC0415 - as above
    from holdfast.control.aliases import promote as let_in  # noqa: PLC0415
    from holdfast.control.promotion import judge, world_of_fleet  # noqa: PLC0415
    from holdfast.evidence.form import plain  # noqa: PLC0415
    from holdfast.evidence.leaf import Check  # noqa: PLC0415

    if force and not reason.strip():
        raise InputError("--force needs --reason: the evidence tells why")
    with _desk(home, read_only=dry_run) as desk, _bar(desk) as progress:
        found, champion = desk.find(version), desk.champion()
        if found == champion:
            raise InputError(f"{found[:12]} is the champion already")
        world = world_of_fleet(desk.engine, desk.settings.scenario)
        conditions, unit = desk.settings.promotion, desk.settings.rails.unit
        desk.registry.serving(found)  # nothing lets in what is not what was registered
        try:
            verdict = judge(
                desk.engine, found, champion, world, conditions, unit=unit, progress=progress
            )
        except InputError as error:
            if not force:
                raise
            verdict = Verdict((Check("judgement", passed=False, detail=plain(str(error))),), {})
        promoted = not dry_run and (verdict.passed or force)
        forced = promoted and not verdict.passed
        if promoted:
            author = desk.author(reason)
            let_in(desk.engine, desk.aliases, found, author, verdict, forced=forced)
    if as_json:
        checks = [asdict(check) for check in verdict.checks]
        facts = {"version": found, "passed": verdict.passed, "promoted": promoted, "forced": forced}
        terminal.print_json(facts | {"checks": checks, "figures": verdict.figures})
    else:
        _tell_checks(verdict.checks)
        say(_outcome(found, passed=verdict.passed, promoted=promoted, dry_run=dry_run))
    return 0 if verdict.passed or promoted else 1


@app.command()
def rollback(reason: Reason = "", home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """Let the version before the champion decide again, from the next decision on.

    It is not judged, only held against its hash.

    Example: holdfast policy rollback --reason "it audits too often"
    """
    from holdfast.control.aliases import rollback as take_back  # noqa: PLC0415 - as above

    with _desk(home) as desk:
        found = desk.registry.serving(desk.find("previous"))
        take_back(desk.engine, desk.aliases, desk.author(reason))
    sentence = f"{found.name} ({found.version[:12]}) decides again"
    _done("champion", found.version, sentence, as_json=as_json)


@app.command()
def history(
    limit: Annotated[int, typer.Option(min=1, help="How many changes to show.")] = 50,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Tell which version was promoted, rolled back, named or withdrawn, the newest first.

    Example: holdfast policy history --limit 10
    """
    from holdfast.control.aliases import history as changes  # noqa: PLC0415 - as above
    from holdfast.evidence.story import when  # noqa: PLC0415

    with _desk(home, read_only=True) as desk:
        entries = changes(desk.engine, limit)
    if as_json:
        terminal.print_json({"changes": [asdict(each) for each in entries]})
        return
    for each in entries:
        force, why = " by force" * each.forced, f": {each.reason}" if each.reason else ""
        what = f"{each.name} ({each.version[:12]}) {each.change}{force} by {each.by}"
        say(f"{when(each.at)}  {what}{why}")


@contextmanager
def _desk(home: HomeFolder, *, read_only: bool = False) -> Iterator[Desk]:
    from holdfast.control.aliases import read_aliases  # noqa: PLC0415 - as above
    from holdfast.control.database import opened, transaction  # noqa: PLC0415
    from holdfast.control.registry import Registry  # noqa: PLC0415
    from holdfast.control.settings import read_control  # noqa: PLC0415
    from holdfast.owner import check_home  # noqa: PLC0415

    folder = home.expanduser()
    check_home(folder)
    settings = read_control(folder)
    with opened(settings.address(folder), read_only=read_only) as engine:
        with transaction(engine) as connection:
            aliases = read_aliases(connection)
        yield Desk(engine, settings, Registry(engine), aliases)


@contextmanager
def _bar(desk: Desk) -> Iterator[Any]:
    """Show how many episodes are done, of all worlds and of the champion."""
    from holdfast.control.stress import stressed  # noqa: PLC0415 - as above

    worlds = len(stressed(desk.settings.scenario)) + 2
    total, done = worlds * desk.settings.promotion.episodes, 0.0
    with terminal.progress_bar("simulating", total, of_bytes=False) as bar:

        def progress(episodes: float) -> None:
            nonlocal done
            done += episodes
            bar.reach(done)

        yield progress


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # whoever runs a container may have no name
        return "operator"


def _done(alias: str, version: str | None, sentence: str, *, as_json: bool) -> None:
    if as_json:
        terminal.print_json({alias: version})
    else:
        say(sentence)


def _outcome(version: str, *, passed: bool, promoted: bool, dry_run: bool) -> str:
    if promoted:
        return f"{version[:12]} decides from the next decision on"
    if dry_run:
        return f"{version[:12]} would {'' if passed else 'not '}be promoted"
    return f"{version[:12]} is NOT promoted; --force --reason TEXT does it all the same"


def _tell_checks(checks: Sequence["Check"]) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        say(f"{'kept  ' if check.passed else 'BROKEN'}  {check.name.ljust(width)}  {check.detail}")


def _tell_comparison(found: "Comparison") -> None:
    from holdfast.evidence.story import span  # noqa: PLC0415 - as above

    say(f"{found.decisions} decisions of {found.holdings} holdings over {span(found.span)}")
    agreement = found.agreement
    say(f"agreement  {agreement.value:.1%} ({agreement.low:.1%} to {agreement.high:.1%})")
    rows = [("", "champion", "challenger", "difference")]
    for label, pair in (
        ("interval, units", found.interval),
        ("sampling ratio", found.ratio),
        ("gas per audit", found.gas_per_audit),
        ("gas per month", found.gas_per_month),
        ("overridden by rails", found.rails),
        ("outside of training", found.outside),
    ):
        change = pair.difference
        interval = f"{change.value:+.4f} ({change.low:+.4f} to {change.high:+.4f})"
        rows.append((label, f"{pair.champion:.4f}", f"{pair.challenger:.4f}", interval))
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        say("  ".join(cells).rstrip())
