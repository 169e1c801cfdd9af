"""`holdfast policy`: the registered policies, the champion, the challenger, and their history."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from holdfast.cli.control import Reason, open_control
from holdfast.cli.home import DEFAULT_HOME, HomeFolder
from holdfast.cli.registry import Version, open_policies
from holdfast.cli.terminal import Json, report, table
from holdfast.control.policies import aliases
from holdfast.control.policies.aliases import Entry
from holdfast.control.policies.comparison import Comparison, compare
from holdfast.storage.database import transaction
from holdfast.words import span, when


def list_versions(home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """List the registered versions, newest first.

    Example: holdfast policy list
    """
    with open_policies(home, read_only=True) as policies:
        versions = [
            asdict(version) | {"aliases": list(policies.aliases.of(version.version))}
            for version in policies.registry.listing()
        ]
    rows = [(row["version"][:12], row["name"], ", ".join(row["aliases"])) for row in versions]
    report({"versions": versions}, table(("version", "policy", "aliases"), rows), as_json=as_json)


def show(version: Version, home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """Show one version, after checking its hash.

    Example: holdfast policy show challenger
    """
    with open_policies(home, read_only=True) as policies:
        policy = policies.shadow_registry.serving(policies.find(version))
        data = {
            "version": policy.version,
            "name": policy.name,
            "aliases": list(policies.aliases.of(policy.version)),
            "rho": policy.rho,
            "manifest": policies.shadow_registry.manifest(policy.version),
        }
    report(data, _describe_version(data), as_json=as_json)


def _describe_version(data: dict[str, Any]) -> Iterator[str]:
    names = " and ".join(data["aliases"])
    yield f"{data['name']}, version {data['version']}{names and f', {names}'}"
    if data["rho"] is not None:
        yield f"made for a miss rate of at most {data['rho']:g}"
    if (manifest := data["manifest"]) is not None:
        code, world = manifest["code_version"], manifest["scenario"]["name"]
        yield f"{manifest['method']}, trained for {world} with seed {manifest['seed']} by {code}"


def add(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME|DIR", help="A policy as in evaluate, or a checkpoint."),
    ],
    challenger: Annotated[
        bool, typer.Option("--challenger", help="Run it in shadow from now on.")
    ] = False,
    reason: Reason = "",
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Register a policy. It decides once it is promoted.

    Example: holdfast policy add runs/a --challenger
    """
    with open_policies(home) as policies:
        author = policies.author(reason)
        policy = policies.shadow_registry.register(name, policies.settings.scenario, author.at)
        if challenger:
            aliases.challenge(policies.engine, policies.aliases, policy.version, author)
    data = {"version": policy.version, "name": name, "challenger": challenger}
    shadow = " and runs in shadow" if challenger else ""
    report(data, f"{name} is registered as {policy.version[:12]}{shadow}", as_json=as_json)


def challenge(
    version: Version, reason: Reason = "", home: HomeFolder = DEFAULT_HOME, as_json: Json = False
) -> None:
    """Run a registered version in shadow.

    Example: holdfast policy challenge 1f3b
    """
    with open_policies(home) as policies:
        policy = policies.shadow_registry.serving(policies.find(version))
        author = policies.author(reason)
        aliases.challenge(policies.engine, policies.aliases, policy.version, author)
    report({"challenger": policy.version}, f"{policy.name} runs in shadow", as_json=as_json)


def withdraw(reason: Reason = "", home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """Stop running the challenger in shadow.

    Example: holdfast policy withdraw --reason "it is out of date"
    """
    with open_policies(home) as policies:
        aliases.withdraw(policies.engine, policies.aliases, policies.author(reason))
    report({"challenger": None}, "there is no challenger any more", as_json=as_json)


def rollback(reason: Reason = "", home: HomeFolder = DEFAULT_HOME, as_json: Json = False) -> None:
    """Make the previous champion decide again.

    Its hash is checked, nothing else. It decides from the next decision on.

    Example: holdfast policy rollback --reason "it audits too often"
    """
    with open_policies(home) as policies:
        policy = policies.registry.serving(policies.find("previous"))
        aliases.rollback(policies.engine, policies.aliases, policies.author(reason))
    sentence = f"{policy.name} ({policy.version[:12]}) decides again"
    report({"champion": policy.version}, sentence, as_json=as_json)


def shadow(
    version: Version = "challenger", home: HomeFolder = DEFAULT_HOME, as_json: Json = False
) -> None:
    """Compare a version in shadow with the champion, by decision.

    Differences have 95 % intervals, over holdings. Gas is a share of the gas of an audit of all
    blocks. Gas per month is that of one holding.

    Example: holdfast policy shadow
    """
    with open_policies(home, read_only=True) as policies:
        candidate, champion = policies.find(version), policies.find("champion")
        unit = policies.settings.rails.unit
        with transaction(policies.engine) as connection:
            comparison = compare(connection, candidate, champion, unit=unit)
    data = {
        "version": candidate,
        "champion": champion,
        "comparison": None if comparison is None else asdict(comparison),
    }
    waiting = f"{candidate[:12]} has not decided beside the champion yet"
    text = waiting if comparison is None else _describe_comparison(comparison)
    report(data, text, as_json=as_json)


def _describe_comparison(comparison: Comparison) -> Iterator[str | Table]:
    agreement = comparison.agreement
    yield (
        f"{comparison.decisions} decisions of {comparison.holdings} holdings over "
        f"{span(comparison.span)}; the same in {agreement.value:.1%} "
        f"({agreement.low:.1%} to {agreement.high:.1%})"
    )
    measures = {
        "interval, units": comparison.interval,
        "sampling ratio": comparison.ratio,
        "gas per audit": comparison.gas_per_audit,
        "gas per month": comparison.gas_per_month,
        "overridden by guardrails": comparison.rails,
        "outside of training": comparison.outside,
    }
    rows = []
    for label, pair in measures.items():
        change = pair.difference
        difference = f"{change.value:+.4f} ({change.low:+.4f} to {change.high:+.4f})"
        rows.append((label, f"{pair.champion:.4f}", f"{pair.challenger:.4f}", difference))
    yield table(("", "champion>", "challenger>", "difference>"), rows)


def history(
    limit: Annotated[int, typer.Option(min=1, help="How many changes to show.")] = 50,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """List all changes of champion and challenger.

    Promotions, rollbacks, new challengers and withdrawals are listed, newest first.

    Example: holdfast policy history --limit 10
    """
    with open_control(home, read_only=True) as control, transaction(control.engine) as connection:
        entries = aliases.history(connection, limit)
    data = {"changes": [asdict(entry) for entry in entries]}
    report(data, map(_describe_change, entries), as_json=as_json)


def _describe_change(entry: Entry) -> str:
    force, reason = " by force" * entry.forced, f": {entry.reason}" if entry.reason else ""
    change = f"{entry.name} ({entry.version[:12]}) {entry.change}{force} by {entry.by}"
    return f"{when(entry.at)}  {change}{reason}"
