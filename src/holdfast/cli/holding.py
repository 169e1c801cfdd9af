"""`holdfast holding`: what is stored on which node, and other storage that a tool checks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast import owner
from holdfast.cli import checked_holding, terminal
from holdfast.cli.checked_holding import Tool
from holdfast.cli.control import Reason, operator
from holdfast.cli.direct import (
    TagsPlace,
    add_direct,
    check_options,
    describe_enrolment,
    enrolment_facts,
)
from holdfast.cli.home import DEFAULT_HOME, HomeFolder, complete_holding, home_folder, open_home
from holdfast.cli.removal_report import describe_plan, describe_removal, removal_facts
from holdfast.cli.terminal import Json, PassphraseFile, report
from holdfast.control import checked_commands, holding_commands
from holdfast.errors import InputError
from holdfast.owner import Catalogue, HoldingRecord, add_holding, catalogue_in
from holdfast.pdp import encoding
from holdfast.pdp.field import DEFAULT_SECTORS, MAX_SECTORS

ADDRESS_BYTES = 20
TOOLS = "Storage without a node"

HoldingName = Annotated[
    str, typer.Argument(metavar="NAME", autocompletion=complete_holding, help="Its name.")
]
Authority = Annotated[
    Path | None, typer.Option(help="Certificates to trust instead of the system's.")
]


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the new holding.")],
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="[ADDRESS]",
            help="The URL of its node, or where the storage is that a tool checks.",
            show_default=False,
        ),
    ] = None,
    direct: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Audit what lies there, without a node: a folder, or s3://bucket/prefix.",
            show_default=False,
        ),
    ] = None,
    tags: Annotated[
        TagsPlace, typer.Option(help="Where the tags of a direct holding lie.")
    ] = TagsPlace.HOME,
    sectors: Annotated[
        int, typer.Option(help="Sectors of 31 bytes per block. A block's tag takes 32 bytes.")
    ] = DEFAULT_SECTORS,
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt everything that is sent to this node.")
    ] = False,
    address: Annotated[
        str | None,
        typer.Option(help="The address that the node must have. Default: pin the one it has."),
    ] = None,
    ca: Authority = None,
    names: Annotated[
        str | None,
        typer.Option(
            help="Check objects whose names are their hashes: sha256.", rich_help_panel=TOOLS
        ),
    ] = None,
    manifest: Annotated[
        str | None,
        typer.Option(help="Check files against a list of their hashes.", rich_help_panel=TOOLS),
    ] = None,
    restic: Annotated[
        bool, typer.Option("--restic", help="Check a restic repository.", rich_help_panel=TOOLS)
    ] = False,
    borg: Annotated[
        bool, typer.Option("--borg", help="Check a borg repository.", rich_help_panel=TOOLS)
    ] = False,
    rclone: Annotated[
        bool, typer.Option("--rclone", help="Compare with --against.", rich_help_panel=TOOLS)
    ] = False,
    against: Annotated[
        str | None, typer.Option(help="The second copy, for --rclone.", rich_help_panel=TOOLS)
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(help="Check by this program and its arguments.", rich_help_panel=TOOLS),
    ] = None,
    auditor: Annotated[
        str | None,
        typer.Option(help="Check by an auditor of another package.", rich_help_panel=TOOLS),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="An option of the auditor.", rich_help_panel=TOOLS
        ),
    ] = None,
    password_file: Annotated[
        Path | None,
        typer.Option(help="File with the storage's password.", rich_help_panel=TOOLS),
    ] = None,
    password_env: Annotated[
        str | None,
        typer.Option(help="Variable with the storage's password.", rich_help_panel=TOOLS),
    ] = None,
    verify_within: Annotated[
        str | None,
        typer.Option(help='Check all of it within this time: "30 days".', rich_help_panel=TOOLS),
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Create a holding: on a node, or of data in a bucket or folder.

    On a node: its address is pinned, a key is made and registered. With --direct, all objects below
    the address are read once and tagged, and never written. Interrupted, it resumes when you give
    the command again.

    With one of the options for tools, no node is needed: the tool checks the storage where it is.
    It says first what there is; if that can't be checked, nothing is created.

    Example: holdfast holding add attic https://attic.example:8470 --encrypt

    Example: holdfast holding add backup /srv/restic --restic --verify-within "30 days"

    Example: holdfast holding add photos --direct s3://bucket/photos
    """
    tool = Tool(
        names,
        manifest,
        restic,
        borg,
        rclone,
        against,
        command,
        auditor,
        tuple(settings or ()),
        password_file,
        password_env,
        verify_within,
    )
    if not 1 <= sectors <= MAX_SECTORS:
        raise InputError(f"--sectors must be between 1 and {MAX_SECTORS}")
    if direct is not None:
        if tool.kind is not None or verify_within is not None:
            raise InputError("--direct needs no tool: leave out the options for tools")
        check_options(url, encrypt=encrypt, address=address, ca=ca)
        record, done = add_direct(
            open_home(home, passphrase_file), name, direct, tags, sectors=sectors
        )
        facts = {**_record_facts(record), **enrolment_facts(name, done)}
        report(facts, describe_enrolment(name, done), as_json=as_json)
        return
    if url is None:
        raise InputError(
            "give the URL of its node, the address of what a tool checks, or --direct with the "
            "address of your data"
        )
    if tool.kind is not None:
        if encrypt or address is not None or ca is not None:
            raise InputError("--encrypt, --address and --ca are for holdings on a node")
        data, sentences = checked_holding.add_checked(home_folder(home), name, url, tool)
        report(data, sentences, as_json=as_json)
        return
    expected = None
    if address is not None:
        expected = encoding.unhex(address.removeprefix("0x").lower(), ADDRESS_BYTES, "--address")
    record = add_holding(
        open_home(home, passphrase_file),
        name,
        url,
        sectors=sectors,
        encrypted=encrypt,
        ca=_absolute(ca),
        address=expected,
    )
    sentence = f"holding {name} is on the node {record.node.hex()} at {url}, which is now pinned"
    report(_record_facts(record), sentence, as_json=as_json)


def list_holdings(
    files: Annotated[bool, typer.Option("--files", help="List the files as well.")] = False,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """List the holdings, their files and unfinished uploads.

    Needs no passphrase.

    Example: holdfast holding list --files
    """
    with catalogue_in(home.expanduser()) as catalogue:
        holdings = [
            {**_record_facts(record), **_content_facts(catalogue, record, with_files=files)}
            for record in catalogue.holdings()
        ]
        checked = checked_holding.list_facts(catalogue)
        removals = [{"holding": gone.name, "url": gone.url} for gone in catalogue.removals()]
    data = {"holdings": [*holdings, *checked], "removals": removals}
    report(data, _describe(holdings, checked, removals), as_json=as_json)


def set_url(
    name: HoldingName,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where its node is now.")],
    ca: Authority = None,
    reason: Reason = "",
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Follow a node that has moved to another URL.

    The node there is asked who it is. One with another address is refused: it is another node. The
    evidence records the command. Needs no passphrase.

    Example: holdfast holding set-url attic https://attic.example:9000
    """
    with catalogue_in(home_folder(home)) as catalogue:
        before = catalogue.holding(name).url
        record = holding_commands.set_url(catalogue, name, url, operator(reason), ca=_absolute(ca))
        behind = [
            other.name
            for other in catalogue.holdings()
            if (other.node, other.url) == (record.node, before) and before != url
        ]
    sentences = [f"holding {name} is at {url} now"]
    if behind:
        sentences.append(f"the same node has {', '.join(behind)}, still at {before}")
    data = {**_record_facts(record), "still_at_old_url": behind}
    report(data, sentences, as_json=as_json)


def rename(
    old: Annotated[
        str, typer.Argument(metavar="OLD", autocompletion=complete_holding, help="Its name.")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its name from now on.")],
    reason: Reason = "",
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Give a holding another name.

    Its files, its schedule and its past audits stay. The evidence records the command. Needs no
    passphrase.

    Example: holdfast holding rename attic loft
    """
    with catalogue_in(home_folder(home)) as catalogue:
        known = checked_holding.find(catalogue, old)
        if known is None:
            facts = _record_facts(holding_commands.rename(catalogue, old, new, operator(reason)))
        else:
            renamed = checked_commands.rename(catalogue, known, new, operator(reason))
            facts = checked_holding.record_facts(renamed)
    data = {**facts, "former_name": old}
    report(data, f"holding {old} is called {new} now", as_json=as_json)


def rm(
    name: HoldingName,
    keep_files: Annotated[
        bool, typer.Option("--keep-files", help="Leave the files on the node.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    reason: Reason = "",
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> int:
    """Remove a holding, and its files on the node unless you keep them.

    It says first what becomes of the files, and asks. If the node can't be reached, the files stay
    there. Holdfast can't get files back from a removed holding. Its audits end, and so do its
    alerts. The evidence of them stays. Interrupted, it resumes when you give the command again:
    exit 1 if files are still to be deleted. Needs no passphrase with --keep-files, nor for storage
    that a tool checks: nothing is deleted there.

    Example: holdfast holding rm attic --keep-files
    """
    folder = home_folder(home)
    with catalogue_in(folder) as catalogue:
        checked = checked_holding.find(catalogue, name)
        if checked is not None:
            described = checked_holding.describe_removal(checked)
            terminal.confirm(described, f"Remove holding {name}?", yes=yes)
            checked_commands.remove(catalogue, folder, checked, operator(reason))
    if checked is not None:
        data = {"holding": name, "removed": True}
        report(data, f"holding {name} is removed", as_json=as_json)
        return 0
    opened = None if keep_files else open_home(home, passphrase_file)
    with catalogue_in(folder) as catalogue:
        resumed = opened is not None and _is_pending(catalogue, name)
        plan = None
        if not resumed:
            plan = owner.plan_removal(catalogue, name, keep_files=keep_files, home=opened)
            terminal.confirm(describe_plan(plan), f"Remove holding {name}?", yes=yes)
            holding_commands.remove(catalogue, plan, operator(reason))
            owner.discard_tags(folder, plan.holding)
        failures = owner.delete_pending(opened, catalogue, name) if opened else {}
    data = removal_facts(name, plan, failures.get(name))
    report(data, describe_removal(data), as_json=as_json)
    return 1 if failures else 0


def _is_pending(catalogue: Catalogue, name: str) -> bool:
    """Return whether a holding is removed already, but for its files on the node."""
    known = any(record.name == name for record in catalogue.holdings())
    return not known and any(removal.name == name for removal in catalogue.removals())


def _absolute(path: Path | None) -> str | None:
    return str(path.absolute()) if path else None


def _describe(
    holdings: list[dict[str, Any]], checked: list[dict[str, Any]], removals: list[dict[str, Any]]
) -> Iterator[str]:
    for facts in holdings:
        encrypted = ", encrypted" if facts["encrypted"] else ""
        yield (
            f"{facts['holding']}: {facts['file_count']} files, {facts['bytes']} bytes in "
            f"{facts['blocks']} blocks{encrypted}, on {facts['node']} at {facts['url']}"
        )
        for file in facts.get("files", ()):
            yield f"  {file['name']}: {file['bytes']} bytes, version {file['version']}"
        for name in facts["unfinished"]:
            yield f"  {name}: upload unfinished, put it again to resume"
    for facts in checked:
        yield from checked_holding.describe(facts)
    for removal in removals:
        name = removal["holding"]
        yield (
            f"{name}: removed, but its files at {removal['url']} are still to be deleted: "
            f"`holdfast holding rm {name}` does it"
        )
    if not holdings and not checked:
        yield "there are no holdings yet: create one with `holdfast holding add`"


def _record_facts(record: HoldingRecord) -> dict[str, Any]:
    return {
        "holding": record.name,
        "kind": "node",
        "url": record.url,
        "node": record.node.hex(),
        "sectors": record.sectors,
        "encrypted": record.encrypted,
        "number": record.number,
    }


def _content_facts(
    catalogue: Catalogue, record: HoldingRecord, *, with_files: bool
) -> dict[str, Any]:
    files = catalogue.files(record.name)
    facts: dict[str, Any] = {
        "file_count": len(files),
        "bytes": sum(file.length for file in files),
        "blocks": sum(file.entry(record.sectors).blocks for file in files),
        "unfinished": [intent.file.name for intent in catalogue.intents(record.name)],
    }
    if with_files:
        facts["files"] = [
            {
                "name": file.name,
                "source": file.source,
                "file_id": file.file_id.hex(),
                "version": file.version,
                "bytes": file.length,
                "sha256": file.sha256.hex(),
            }
            for file in files
        ]
    return facts
