"""`holdfast holding`: what is stored on which node."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast import owner
from holdfast.cli import terminal
from holdfast.cli.control import Reason, operator
from holdfast.cli.direct import (
    TagsPlace,
    add_direct,
    check_options,
    describe_enrolment,
    enrolment_facts,
)
from holdfast.cli.home import DEFAULT_HOME, HomeFolder, complete_holding, home_folder, open_home
from holdfast.cli.terminal import Json, PassphraseFile, report
from holdfast.control import holding_commands
from holdfast.errors import InputError
from holdfast.owner import Catalogue, HoldingRecord, RemovalPlan, add_holding, catalogue_in
from holdfast.owner.direct.address import is_direct
from holdfast.pdp import encoding
from holdfast.pdp.field import DEFAULT_SECTORS

ADDRESS_BYTES = 20
MAX_NAMES_SHOWN = 20

HoldingName = Annotated[
    str, typer.Argument(metavar="NAME", autocompletion=complete_holding, help="Its name.")
]
Authority = Annotated[
    Path | None, typer.Option(help="Certificates to trust instead of the system's.")
]


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the new holding.")],
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="The URL of its node.", show_default=False)
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
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Create a holding: on a node, or of data in a bucket or folder.

    On a node: its address is pinned, a key is made and registered. With --direct, all objects below
    the address are read once and tagged, and never written. Interrupted, it resumes when you give
    the command again.

    Example: holdfast holding add attic https://attic.example:8470 --encrypt
    Example: holdfast holding add photos --direct s3://bucket/photos
    """
    if direct is not None:
        check_options(url, encrypt=encrypt, address=address, ca=ca)
        record, done = add_direct(
            open_home(home, passphrase_file), name, direct, tags, sectors=sectors
        )
        data = {**_record_facts(record), **enrolment_facts(name, done)}
        report(data, describe_enrolment(name, done), as_json=as_json)
        return
    if url is None:
        raise InputError("give the URL of its node, or --direct with the address of your data")
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
        removals = [{"holding": gone.name, "url": gone.url} for gone in catalogue.removals()]
    data = {"holdings": holdings, "removals": removals}
    report(data, _describe(holdings, removals), as_json=as_json)


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
        record = holding_commands.rename(catalogue, old, new, operator(reason))
    data = {**_record_facts(record), "former_name": old}
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
    exit 1 if files are still to be deleted. Needs no passphrase with --keep-files.

    Example: holdfast holding rm attic --keep-files
    """
    folder = home_folder(home)
    opened = None if keep_files else open_home(home, passphrase_file)
    with catalogue_in(folder) as catalogue:
        resumed = opened is not None and _is_pending(catalogue, name)
        plan = None
        if not resumed:
            plan = owner.plan_removal(catalogue, name, keep_files=keep_files)
            terminal.confirm(_describe_plan(plan), f"Remove holding {name}?", yes=yes)
            holding_commands.remove(catalogue, plan, operator(reason))
            owner.discard_tags(folder, plan.holding)
        failures = owner.delete_pending(opened, catalogue, name) if opened else {}
    data = _removal_facts(name, plan, failures.get(name))
    report(data, _describe_removal(data), as_json=as_json)
    return 1 if failures else 0


def _is_pending(catalogue: Catalogue, name: str) -> bool:
    """Return whether a holding is removed already, but for its files on the node."""
    known = any(record.name == name for record in catalogue.holdings())
    return not known and any(removal.name == name for removal in catalogue.removals())


def _describe_plan(plan: RemovalPlan) -> Iterator[str]:
    name, url = plan.holding.name, plan.holding.url
    files = f"{len(plan.files)} file{'' if len(plan.files) == 1 else 's'} of {plan.bytes:,} bytes"
    if not plan.files:
        yield f"holding {name} has no files"
    elif is_direct(url):
        yield f"holding {name} has {files}: they stay where they are, and only their tags go"
    elif plan.delete_files:
        yield f"holding {name} has {files}: they are deleted on the node at {url}"
    else:
        why = f", because it can't be asked to delete them ({plan.unreachable})"
        yield (
            f"holding {name} has {files}: they stay on the node at {url}"
            f"{why if plan.unreachable else ''}, and Holdfast can't get them back from there"
        )
    if plan.unfinished:
        yield f"unfinished uploads are given up: {_names(plan.unfinished)}"
    if plan.last_replicas:
        yield f"no other holding has: {_names(plan.last_replicas)}"


def _names(names: tuple[str, ...]) -> str:
    more = len(names) - MAX_NAMES_SHOWN
    return ", ".join(names[:MAX_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _removal_facts(name: str, plan: RemovalPlan | None, failure: str | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"holding": name, "removed": True, "still_to_delete": failure}
    if plan is not None:
        url = plan.holding.url
        facts |= {
            "url": url,
            "files": list(plan.files),
            "files_deleted": plan.delete_files and failure is None and not is_direct(url),
            "unreachable": plan.unreachable or None,
            "unfinished": list(plan.unfinished),
            "last_replicas": list(plan.last_replicas),
        }
    return facts


def _describe_removal(facts: dict[str, Any]) -> Iterator[str]:
    yield f"holding {facts['holding']} is removed"
    if facts["still_to_delete"] is not None:
        yield (
            f"its files are still to be deleted on the node: {facts['still_to_delete']}; give the "
            "command again, or let `holdfast serve` do it"
        )


def _absolute(path: Path | None) -> str | None:
    return str(path.absolute()) if path else None


def _describe(holdings: list[dict[str, Any]], removals: list[dict[str, Any]]) -> Iterator[str]:
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
    for removal in removals:
        name = removal["holding"]
        yield (
            f"{name}: removed, but its files at {removal['url']} are still to be deleted: "
            f"`holdfast holding rm {name}` does it"
        )
    if not holdings:
        yield "there are no holdings yet: create one with `holdfast holding add`"


def _record_facts(record: HoldingRecord) -> dict[str, Any]:
    return {
        "holding": record.name,
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
