"""`holdfast evidence`: check a log offline, read it, and export it."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import starmap
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast import atomic
from holdfast.cli import terminal
from holdfast.cli.home import DEFAULT_HOME, HomeFolder, complete_holding, home_folder, open_home
from holdfast.cli.terminal import Json, PassphraseFile, report
from holdfast.control.evidence.anchors import home_ledgers
from holdfast.control.evidence.reader import open_log, read_verifier
from holdfast.control.evidence.signer import current_signer, evidence_signer
from holdfast.control.queries.names import HoldingNames
from holdfast.control.settings.models import read_control
from holdfast.errors import HoldfastError, InputError, LedgerError
from holdfast.evidence import explain, verification
from holdfast.evidence.anchors import named_ledgers
from holdfast.evidence.bundle import read_head, write_bundle
from holdfast.evidence.leaf import Leaf, encode
from holdfast.evidence.log import Log, WithoutProofs
from holdfast.evidence.note import Verifier
from holdfast.evidence.verification import Report
from holdfast.owner.ledgers import public_sender
from holdfast.storage.database import Standing, open_database, open_engine, standing_of
from holdfast.words import plural, when

Source = Annotated[
    Path | None,
    typer.Argument(
        metavar="[BUNDLE]",
        help="A bundle that export wrote, or a home. Default: the home of --home.",
        show_default=False,
    ),
]
Time = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"],
        help="A time, in UTC.",
        show_default=False,
    ),
]
_NUMBER = re.compile(r"(0[xX])?[0-9a-fA-F]{1,48}")
LEAVES_PER_UPDATE = 256  # of the bar: moving it takes as long as checking a leaf


def verify(
    *,
    source: Source = None,
    key: Annotated[
        str,
        typer.Option(metavar="NAME+HASH+KEY", help="The log's verifier key, from its owner."),
    ],
    kept: Annotated[
        list[Path] | None,
        typer.Option(
            help="An earlier checkpoint or bundle, which the log must extend. Repeatable."
        ),
    ] = None,
    kept_key: Annotated[
        str | None,
        typer.Option(
            metavar="NAME+HASH+KEY",
            help="The key of --kept, if the log was restored since.",
            show_default=False,
        ),
    ] = None,
    chain: Annotated[
        str | None,
        typer.Option(help="URL of a node of the chain with the anchors.", show_default=False),
    ] = None,
    contract: Annotated[
        list[str] | None, typer.Option(help="The audit contract's address on that chain.")
    ] = None,
    ledger: Annotated[list[Path] | None, typer.Option(help="A local ledger's file.")] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            help="The address that anchors the log. Optional if the ledger has one owner.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="First block of the chain to read: that of the contract. Default: 0.",
            show_default=False,
        ),
    ] = None,
    restored: Annotated[
        bool,
        typer.Option(
            "--restored",
            help="The log was restored from a backup: older anchors that don't match it belong to "
            "the log before, and are no finding.",
        ),
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Don't read the home's own ledger.")
    ] = False,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> int:
    """Check a whole log: exit 1 if something is wrong.

    It checks every leaf, every signed head and every proof, from public values alone. Checks of
    storage without a node have no proof: they are counted apart, and rest on the owner's word.
    Anchors are compared with the ledgers that you name; those of your own home with its own ledger.
    Without a ledger an anchor is only a claim. A log alone can't show that it is the newest:
    anchors or --kept can.

    Example: holdfast evidence verify audits.bundle --key example.org/evidence+c6dd3a46+AYqI...
    or, with anchors: holdfast evidence verify audits.bundle --key example.org/evidence+c6dd...
    --chain https://rpc.example --contract 0x5FbD... --owner 0x7E5F...
    """
    if kept_key is not None and not kept:
        raise InputError("--kept-key needs --kept: it is the key of that checkpoint or bundle")
    if since is not None and chain is None:
        raise InputError("--since needs --chain: it is a block of that chain")
    pinned = Verifier.decode(key)
    before = pinned if kept_key is None else Verifier.decode(kept_key)
    known = [read_head(path, before) for path in kept or []]
    place = _log_path(source, home)
    chains = named_ledgers(chain, contract or [], ledger or [], owner, since or 0)
    if place.is_dir() and not chains and not offline:
        # Before the log is opened, so that no anchor is newer than the log.
        try:
            chains, restored = home_ledgers(place), True
        except LedgerError as error:
            raise LedgerError(f"{error}: --offline checks all but the anchors") from error
    with (
        open_log(place) as log,
        terminal.progress_bar("verifying", log.size, of_bytes=False) as bar,
    ):

        def on_progress(leaves: int) -> None:
            if leaves % LEAVES_PER_UPDATE == 0:
                bar.reach(leaves)

        result = verification.verify(
            log, pinned, known=known, chains=chains, restored=restored, on_progress=on_progress
        )
    report(result.facts(), _describe_report(result), as_json=as_json)
    return 0 if result.fine else 1


def show(
    source: Source = None,
    leaf: Annotated[
        int | None, typer.Option(min=0, help="Only the leaf with this index.", show_default=False)
    ] = None,
    holding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=complete_holding,
            help="Only this holding: its name, also a former one, or its number in hexadecimal.",
            show_default=False,
        ),
    ] = None,
    since: Time = None,
    until: Time = None,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Explain the log: why each audit happened, its result.

    It doesn't check the log: run verify first. The evidence has the numbers of holdings that are
    on a ledger; their names come from the home. Checks of other storage have its name.

    Example: holdfast evidence show --holding attic --since 2026-03-01
    """
    place = _log_path(source, home)
    with open_log(place) as log, _holding_names(place, home) as names:
        selection = _select(holding, log, names, own=_is_own(log, place, home))
        selection = replace(selection, since=_milliseconds(since) or 0, until=_milliseconds(until))
        start, stop = (0, None) if leaf is None else (leaf, leaf + 1)
        if stop is not None and stop > log.size:
            raise InputError(f"{source or home} has {log.size} leaves: there is no leaf {leaf}")
        selected = explain.select_leaves(log, selection, start, stop)
        named = ((index, entry, names and names.name(index, entry)) for index, entry in selected)
        data = {"leaves": list(starmap(_leaf_facts, named))} if as_json else {}
        lines = (line for story in starmap(_describe_leaf, named) for line in story)
        report(data, lines, as_json=as_json)


def _leaf_facts(index: int, entry: Leaf, name: str | None) -> dict[str, Any]:
    story = explain.explain(entry, name)
    return {"index": index, "holding": name, "story": story, "leaf": json.loads(encode(entry))}


def _describe_leaf(index: int, entry: Leaf, name: str | None) -> Iterator[str]:
    first, *rest = explain.explain(entry, name)
    yield f"leaf {index}, {when(entry.at)}: {first}"
    yield from (f"  {line}" for line in rest)


def export(
    *,
    source: Source = None,
    out: Annotated[Path, typer.Option(help="Where to write the bundle.")],
    without_proofs: Annotated[
        bool,
        typer.Option(
            "--without-proofs",
            help="Leave the proofs out: they reveal equations over the data.",
        ),
    ] = False,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Write a log into one file that anyone can check.

    Example: holdfast evidence export --without-proofs --out public.bundle
    """
    atomic.check_output(out, overwrite=False)
    with (
        open_log(_log_path(source, home)) as log,
        terminal.progress_bar("exporting", log.size, of_bytes=False) as bar,
    ):
        write_bundle(WithoutProofs(log) if without_proofs else log, out, bar.reach)
    facts = {"bundle": str(out), "leaves": log.size, "key": str(log.verifier)}
    sentence = f"wrote {out}: {log.size} leaves; verify it with --key {log.verifier}"
    report(facts, sentence, as_json=as_json)


def _log_path(source: Path | None, home: Path) -> Path:
    """Return the bundle or home that was named, or else the home of --home."""
    return home_folder(home) if source is None else source.expanduser()


@contextmanager
def _holding_names(place: Path, home: Path) -> Iterator[HoldingNames | None]:
    """Yield the names that a home has for holdings: of the log's own home, or of --home."""
    folder = place if place.is_dir() else home.expanduser()
    with ExitStack() as stack:
        names = None
        with suppress(HoldfastError):  # a bundle can be read without a home
            address = read_control(home_folder(folder)).address(folder)
            names = HoldingNames(stack.enter_context(open_database(address, read_only=True)))
        yield names


def _is_own(log: Log, place: Path, home: Path) -> bool:
    """Return whether this is the log of the home that the names come from."""
    if place.is_dir():
        return True
    with suppress(HoldfastError):
        return log.verifier == read_verifier(home_folder(home))
    return False


def _select(
    text: str | None, log: Log, names: HoldingNames | None, *, own: bool
) -> explain.Selection:
    """Return the selection of the holding that is meant. Ids are those of the log's own home."""
    if text is None:
        return explain.Selection()
    if names is not None and (ids := names.ids(text)):
        scheduled = ids if own else None
        return explain.Selection(names.numbers(text), names.all_names(text), scheduled=scheduled)
    numbers = frozenset([int(text, 16)] if _NUMBER.fullmatch(text) else [])
    if numbers or explain.has_checks(log, text):
        return explain.Selection(numbers, frozenset([text]))
    raise InputError(
        f"{text[:80]!r} is not a holding that the home knows: give its name, or its number in "
        "hexadecimal"
    )


def _milliseconds(time: datetime | None) -> int | None:
    return None if time is None else int(time.replace(tzinfo=UTC).timestamp() * 1000)


def _describe_report(result: Report) -> Iterator[str]:
    yield from map(str, result.findings)
    if result.finding_count > len(result.findings):
        yield f"and {result.finding_count - len(result.findings)} more findings"
    gone = f", {result.proofs_gone} not in the log" if result.proofs_gone else ""
    yield (
        f"{'fine' if result.fine else 'NOT FINE'}: {result.leaves} leaves with {result.audits} "
        f"audits, {result.proofs} proofs checked again{gone}{_checks(result)}; "
        f"{result.checkpoints} signed heads; {_anchors(result)}"
    )


def _checks(result: Report) -> str:
    """Return what nobody can check again."""
    if not result.checks:
        return ""
    rest = "rests" if result.checks == 1 else "rest"
    return f", {plural(result.checks, 'check')} that {rest} on the owner's word"


def _anchors(result: Report) -> str:
    """Return what is known of the anchors that a log claims."""
    count = f"{result.anchors} anchor{'' if result.anchors == 1 else 's'}"
    before = result.anchors_before_restore
    lost = f"; {before} more on the ledger from before it was restored" if before else ""
    if not result.anchors:
        return f"no anchors{lost}"
    if not result.anchors_unchecked:
        return f"{count}, checked on the ledger{lost}"
    if not result.anchors_checked:
        return f"{count} claimed, not checked{lost}"
    return f"{count}, {result.anchors_checked} of them checked, the others claimed{lost}"


def show_key(
    home: HomeFolder = DEFAULT_HOME, passphrase_file: PassphraseFile = None, as_json: Json = False
) -> None:
    """Print the key with which others verify your log.

    With --json it prints the owner's address as well, for checks of the anchors.

    Example: holdfast evidence key
    """
    own = open_home(home, passphrase_file)
    signer = evidence_signer(own.keyring)
    address = read_control(own.folder).address(own.folder)
    if standing_of(address)[0] is Standing.CURRENT:
        with open_engine(address, read_only=True) as engine:
            signer = current_signer(own.keyring, engine)
    sender = public_sender(own.folder, own.settings)
    owner = None if sender is None else f"0x{sender.hex()}"
    report({"key": str(signer.verifier), "owner": owner}, str(signer.verifier), as_json=as_json)
