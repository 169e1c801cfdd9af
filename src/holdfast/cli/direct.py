"""Direct holdings on the command line: `holding add --direct`, `holding refresh` and `accept`."""

from collections.abc import Iterator
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast import atomic
from holdfast.cli import terminal
from holdfast.cli.control import Reason, operator
from holdfast.cli.home import DEFAULT_HOME, HomeFolder, complete_holding, open_home
from holdfast.cli.terminal import Json, PassphraseFile, report
from holdfast.control import holding_commands
from holdfast.errors import InputError
from holdfast.node.identity import write_node_key
from holdfast.owner import direct_operations
from holdfast.owner.catalogue import HoldingRecord
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct.differences import count_objects, describe_names
from holdfast.owner.direct.enrolment import Enrolment
from holdfast.owner.home import Home
from holdfast.secret_variables import NEW_PASSPHRASE
from holdfast.words import size

HoldingName = Annotated[
    str, typer.Argument(metavar="NAME", autocompletion=complete_holding, help="Its name.")
]


class TagsPlace(StrEnum):
    """Where the tags of a direct holding lie."""

    HOME = "home"
    BESIDE = "beside"


class EnrolmentProgress(ExitStack):
    """Shows how many bytes of an enrolment are read."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what
        self._bar: terminal.Bar | None = None

    def begin(self, total: int) -> None:
        self._bar = self.enter_context(terminal.progress_bar(self._what, total))

    def reach(self, done: int) -> None:
        if self._bar is not None:
            self._bar.reach(done)


def add_direct(
    home: Home, name: str, address: str, tags: TagsPlace, *, sectors: int
) -> tuple[HoldingRecord, Enrolment]:
    """Make a direct holding and enrol its objects, with a bar that shows how far it is."""
    place = DirectAddress.of(address, beside=tags is TagsPlace.BESIDE)
    with EnrolmentProgress(f"enrolling {place.data}") as progress:
        return direct_operations.add_direct_holding(
            home,
            name,
            place,
            sectors=sectors,
            on_total=progress.begin,
            on_progress=progress.reach,
        )


def refresh(
    name: HoldingName,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> int:
    """Enrol new objects of a direct holding, and list those that changed or vanished.

    Objects that changed or vanished stay as they were tagged, and audits name them, until you
    accept them. Exit 1 if there are any.

    Example: holdfast holding refresh photos
    """
    opened = open_home(home, passphrase_file)
    with EnrolmentProgress(f"enrolling {name}") as progress:
        done = direct_operations.refresh_direct(
            opened, name, on_total=progress.begin, on_progress=progress.reach
        )
    report(enrolment_facts(name, done), describe_enrolment(name, done), as_json=as_json)
    return 1 if done.changed or done.vanished or done.illegible else 0


def accept(
    name: HoldingName,
    objects: Annotated[
        list[str] | None,
        typer.Argument(metavar="OBJECT...", help="Which ones. Default: all that changed."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    reason: Reason = "",
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Take changed objects of a direct holding as they are now.

    They are read and tagged anew. Objects that vanished are audited no longer. Accept only what you
    changed yourself: damage that you accept is never found. The evidence records the command.

    Example: holdfast holding accept photos 2024/march.jpg
    """
    opened = open_home(home, passphrase_file)
    direct_operations.check_objects(opened, name, objects or [])
    which = describe_names(objects) if objects else "all objects that changed or vanished"
    sentence = f"{which}: audits of {name} will expect what is there now, whatever it is"
    terminal.confirm([sentence], "Accept?", yes=yes)
    done = holding_commands.accept_changes(opened, name, objects or [], operator(reason))
    data = {
        "holding": name,
        "tagged": list(done.enrolled),
        "removed": list(done.vanished),
        "unsettled": list(done.unsettled),
    }
    report(data, _describe_accepted(name, done), as_json=as_json)


def node_key(
    name: HoldingName,
    out: Annotated[Path, typer.Option(help="Where to write the encrypted key.")],
    new_passphrase_file: Annotated[
        Path | None,
        typer.Option(
            help=f"File with a passphrase for the key. Default: {NEW_PASSPHRASE}, or a prompt.",
            show_default=False,
        ),
    ] = None,
    home: HomeFolder = DEFAULT_HOME,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Write the key of a direct holding's node, for a real one that takes over.

    Nothing is tagged again: the node serves the same tags with the same key, and the holding
    follows it by `holding set-url`.

    Example: holdfast holding node-key photos --out node.key
    """
    atomic.check_output(out, overwrite=False)
    opened = open_home(home, passphrase_file)
    place = direct_operations.find_direct(opened, name)
    secret = terminal.passphrase(
        new_passphrase_file,
        variable=NEW_PASSPHRASE,
        prompt="Passphrase for the node's key: ",
        confirm=True,
    )
    write_node_key(out, place.key, secret)
    serve = f"holdfast node serve --store {place.tags} --data {place.data} --key {out}"
    data = {
        "holding": name,
        "key": str(out),
        "address": place.key.address.hex(),
        "tags": place.tags,
        "data": place.data,
    }
    text = (
        f"wrote {out}, the key of the node {place.key.address.hex()}",
        f"run it beside the data, with the tags: {serve} --owner owner.pub",
        f"then: holdfast holding set-url {name} URL",
    )
    report(data, text, as_json=as_json)


def enrolment_facts(name: str, done: Enrolment) -> dict[str, Any]:
    return {
        "holding": name,
        "enrolled": len(done.enrolled),
        "bytes": done.bytes,
        "changed": list(done.changed),
        "vanished": list(done.vanished),
        "illegible": list(done.illegible),
        "unsettled": list(done.unsettled),
        "left_out": list(done.left_out),
    }


def describe_enrolment(name: str, done: Enrolment) -> Iterator[str]:
    enrolled = count_objects(len(done.enrolled)) if done.enrolled else "no new object"
    yield f"{name}: {enrolled} enrolled, {size(done.bytes)}"
    for names, what in (
        (done.changed, "changed since tagged"),
        (done.vanished, "gone"),
        (done.illegible, "with damaged tags, which `holdfast holding accept` makes again"),
        (done.unsettled, "written while read, and left for the next time"),
        (done.left_out, "left out, because of a name or kind that can't be audited"),
    ):
        if names:
            yield f"{name}: {count_objects(len(names))} {what}: {describe_names(names)}"
    if done.changed or done.vanished:
        yield f"if that was you, `holdfast holding accept {name}` takes them as they are"


def _describe_accepted(name: str, done: Enrolment) -> Iterator[str]:
    yield f"{name}: {count_objects(len(done.enrolled))} tagged anew"
    if done.vanished:
        names = describe_names(done.vanished)
        yield f"{name}: {count_objects(len(done.vanished))} audited no longer: {names}"
    if done.unsettled:
        names = describe_names(done.unsettled)
        yield f"{name}: written while read, so accept them again: {names}"


def check_options(url: str | None, *, encrypt: bool, address: str | None, ca: Path | None) -> None:
    """Raise if something was given that only a holding on a node takes."""
    given = {"URL": url, "--encrypt": encrypt, "--address": address, "--ca": ca}
    for option, value in given.items():
        if value:
            raise InputError(f"a direct holding takes no {option}: it has no node elsewhere")
