"""`holdfast policy`: which policies there are, how a new one does, and letting it in or out."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.fit import fit
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder
from holdfast.cli.promote import promote
from holdfast.cli.registry import Seed, Version, episode_bar, opened_desk, tell_checks
from holdfast.cli.retrain import retrain
from holdfast.cli.server import MOST_ROWS, Reason, ordered, told
from holdfast.cli.terminal import Json, say

if TYPE_CHECKING:
    from holdfast.control.policies.comparison import Comparison

app = typer.Typer(no_args_is_help=True, help="Policies: try a new one, let it in, take it back.")
app.command()(fit)
app.command()(retrain)
app.command()(promote)


@app.command(name="list")
def list_command(home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """List the versions that are registered, the newest first.

    Example: holdfast policy list
    """
    found = told(home, dict[str, Any], "policies")
    facts = _versions(home) if found is None else found["versions"]
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
    facts = told(home, dict[str, Any], f"policies/{version}") or _shown(home, version)
    if as_json:
        terminal.print_json(facts)
        return
    aliases, manifest = " and ".join(facts["aliases"]), facts["manifest"]
    say(f"{facts['name']}, version {facts['version']}{aliases and f', {aliases}'}")
    if facts["rho"] is not None:
        say(f"made for a miss rate of at most {facts['rho']:g}")
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
    from holdfast.control.policies.aliases import challenge as begin  # noqa: PLC0415 - as the others

    with opened_desk(home) as desk:
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
    from holdfast.control.policies.aliases import challenge as begin  # noqa: PLC0415 - as above

    done = ordered(home, f"policies/{version}/challenge", reason)
    if done is None:
        with opened_desk(home) as desk:
            found = desk.registry.serving(desk.find(version))
            begin(desk.engine, desk.aliases, found.version, desk.author(reason))
        done = {"done": f"{found.name} runs in shadow", "version": found.version}
    _tell_done("challenger", done, as_json=as_json)


@app.command()
def withdraw(reason: Reason = "", home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """Let the challenger run in shadow no more.

    Example: holdfast policy withdraw --reason "it is out of date"
    """
    from holdfast.control.policies.aliases import withdraw as end  # noqa: PLC0415 - as above

    done = ordered(home, "policies/withdraw", reason)
    if done is None:
        with opened_desk(home) as desk:
            end(desk.engine, desk.aliases, desk.author(reason))
        done = {"done": "there is no challenger any more", "version": None}
    _tell_done("challenger", done, as_json=as_json)


@app.command()
def evaluate(
    version: Version, seed: Seed = None, home: HomeFolder = DEFAULT_HOME, as_json: Json = False
) -> int:
    """Simulate a version in this fleet's world and in worse ones: exit 1 if it breaks a ceiling.

    Example: holdfast policy evaluate challenger
    """
    from holdfast.control.inference.fits import world_of_fleet  # noqa: PLC0415 - as above
    from holdfast.control.policies.promotion import (  # noqa: PLC0415
        ceiling_of,
        fresh_seed,
        run_trials,
        trial_figures,
    )

    seed = fresh_seed() if seed is None else seed
    with opened_desk(home, read_only=True) as desk, episode_bar(desk, version) as progress:
        conditions = desk.settings.promotion
        policy = desk.registry.serving(desk.find(version))
        ceiling = ceiling_of(desk.engine, conditions, desk.registry.serving(desk.champion()))
        world = world_of_fleet(desk.engine, desk.settings.scenario)
        found = run_trials(policy, world, ceiling, conditions, seed, progress)
    kept = all(trial.kept for trial in found)
    if as_json:
        facts = [trial_figures(trial) for trial in found]
        result = {"version": policy.version, "kept": kept, "seed": seed, "trials": facts}
        terminal.print_json(result)
    else:
        tell_checks([trial.check() for trial in found])
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
    from pydantic import TypeAdapter  # noqa: PLC0415 - as above

    from holdfast.control.policies.comparison import Comparison, compare  # noqa: PLC0415
    from holdfast.storage.database import transaction  # noqa: PLC0415

    facts = told(home, dict[str, Any], f"policies/{version}/shadow")
    if facts is None:
        with opened_desk(home, read_only=True) as desk:
            found, champion = desk.find(version), desk.champion()
            with transaction(desk.engine) as connection:
                beside = compare(connection, found, champion, unit=desk.settings.rails.unit)
        compared = None if beside is None else asdict(beside)
        facts = {"version": found, "champion": champion, "comparison": compared}
    if as_json:
        terminal.print_json(facts)
    elif facts["comparison"] is None:
        say(f"{facts['version'][:12]} has not decided beside the champion yet")
    else:
        _tell_comparison(TypeAdapter(Comparison).validate_python(facts["comparison"]))


@app.command()
def rollback(reason: Reason = "", home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """Let the version before the champion decide again, from the next decision on.

    It is not judged, only held against its hash.

    Example: holdfast policy rollback --reason "it audits too often"
    """
    from holdfast.control.policies.aliases import rollback as take_back  # noqa: PLC0415 - as above

    done = ordered(home, "policies/rollback", reason)
    if done is None:
        with opened_desk(home) as desk:
            found = desk.registry.serving(desk.find("previous"))
            take_back(desk.engine, desk.aliases, desk.author(reason))
        sentence = f"{found.name} ({found.version[:12]}) decides again"
        done = {"done": sentence, "version": found.version}
    _tell_done("champion", done, as_json=as_json)


@app.command()
def history(
    limit: Annotated[int, typer.Option(min=1, help="How many changes to show.")] = 50,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Tell which version was promoted, rolled back, named or withdrawn, the newest first.

    Example: holdfast policy history --limit 10
    """
    from holdfast.control.policies.aliases import Entry  # noqa: PLC0415 - as above
    from holdfast.control.policies.aliases import history as changes  # noqa: PLC0415
    from holdfast.evidence.explain import when  # noqa: PLC0415
    from holdfast.storage.database import transaction  # noqa: PLC0415

    asked = limit <= MOST_ROWS
    entries = told(home, list[Entry], "policies/history", limit=limit) if asked else None
    if entries is None:
        with opened_desk(home, read_only=True) as desk, transaction(desk.engine) as connection:
            entries = changes(connection, limit)
    if as_json:
        terminal.print_json({"changes": [asdict(each) for each in entries]})
        return
    for each in entries:
        force, why = " by force" * each.forced, f": {each.reason}" if each.reason else ""
        what = f"{each.name} ({each.version[:12]}) {each.change}{force} by {each.by}"
        say(f"{when(each.at)}  {what}{why}")


def _versions(home: HomeFolder) -> list[dict[str, Any]]:
    with opened_desk(home, read_only=True) as desk:
        known = desk.registry.listing()
        return [asdict(each) | {"aliases": desk.aliases.of(each.version)} for each in known]


def _shown(home: HomeFolder, version: str) -> dict[str, Any]:
    with opened_desk(home, read_only=True) as desk:
        found = desk.registry.serving(desk.find(version))
        manifest = desk.registry.manifest(found.version)
        aliases = desk.aliases.of(found.version)
    facts = {"version": found.version, "name": found.name, "aliases": aliases}
    return facts | {"rho": found.rho, "manifest": manifest}


def _tell_done(alias: str, done: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        terminal.print_json({alias: done["version"]})
    else:
        say(done["done"])


def _tell_comparison(found: "Comparison") -> None:
    from holdfast.evidence.explain import span  # noqa: PLC0415 - as above

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
