"""`holdfast evidence`: check a log offline, tell what is in it, hand it on."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast import atomic
from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder, open_home
from holdfast.cli.terminal import Json, PassphraseFile, say
from holdfast.errors import InputError, LedgerError

if TYPE_CHECKING:
    from holdfast.evidence.verification import Report

app = typer.Typer(no_args_is_help=True, help="The record of all audits: check it, read it.")

Source = Annotated[
    Path | None,
    typer.Argument(
        metavar="[BUNDLE]",
        help="A bundle that export wrote, or an owner's home; else the home of --home.",
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
EVERY = 256  # leaves between two movements of the bar, which takes as long as checking one


@app.command()
def verify(
    *,
    source: Source = None,
    key: Annotated[
        str,
        typer.Option(metavar="NAME+HASH+KEY", help="The log's verifier key, as you were given it."),
    ],
    kept: Annotated[
        list[Path] | None,
        typer.Option(help="A checkpoint or bundle from earlier, which the log must extend."),
    ] = None,
    kept_key: Annotated[
        str | None,
        typer.Option(
            metavar="NAME+HASH+KEY",
            help="The key of what --kept names, if the log was restored since.",
            show_default=False,
        ),
    ] = None,
    chain: Annotated[
        str | None,
        typer.Option(
            help="Address of a node of the chain that has the anchors.", show_default=False
        ),
    ] = None,
    contract: Annotated[
        list[str] | None, typer.Option(help="The audit contract's address on that chain.")
    ] = None,
    ledger: Annotated[list[Path] | None, typer.Option(help="A local ledger's file.")] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            help="The address that anchors the log; of a ledger with one owner it may be left out.",
            show_default=False,
        ),
    ] = None,
    since: Annotated[
        int, typer.Option(min=0, help="First block of the chain to read: the contract's own.")
    ] = 0,
    restored: Annotated[
        bool,
        typer.Option(
            "--restored",
            help="The log was restored from a backup: older anchors that it doesn't fit are of "
            "the log before, and no finding.",
        ),
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Don't read the home's own ledger.")
    ] = False,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> int:
    """Check a whole log: exit 0 if it is fine, 1 if anything is found.

    Every leaf, every signed head, every proof again, from public values alone. Anchors are checked
    on the ledgers that you name, and those ledgers' anchors against the log; the home's own log is
    checked on the home's own ledger. Without a ledger an anchor is a claim. One file can't show
    that it is the newest: anchors or --kept can.

    Example: holdfast evidence verify audits.bundle --key example.org/evidence+c6dd3a46+AYqI...
    or, with anchors: holdfast evidence verify audits.bundle --key example.org/evidence+c6dd...
    --chain https://rpc.example --contract 0x5FbD... --owner 0x7E5F...
    """
    from holdfast.control.evidence.anchors import home_ledgers  # noqa: PLC0415 - NumPy is slow
    from holdfast.control.evidence.reader import open_log  # noqa: PLC0415
    from holdfast.evidence import verification  # noqa: PLC0415
    from holdfast.evidence.anchors import named_ledgers  # noqa: PLC0415
    from holdfast.evidence.bundle import read_head  # noqa: PLC0415
    from holdfast.evidence.note import Verifier  # noqa: PLC0415

    pinned = Verifier.decode(key)
    before = pinned if kept_key is None else Verifier.decode(kept_key)
    known = [read_head(path, before) for path in kept or []]
    place = _place(source, home)
    chains = named_ledgers(chain, contract or [], ledger or [], owner, since)
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

        def reach(leaves: int) -> None:
            if leaves % EVERY == 0:
                bar.reach(leaves)

        report = verification.verify(
            log, pinned, known=known, chains=chains, restored=restored, on_progress=reach
        )
    if as_json:
        terminal.print_json(report.facts())
    else:
        _tell(report)
    return 0 if report.fine else 1


@app.command()
def show(
    source: Source = None,
    leaf: Annotated[
        int | None, typer.Option(min=0, help="Only the leaf with this index.", show_default=False)
    ] = None,
    holding: Annotated[
        str | None, typer.Option(metavar="HEX", help="Only this holding.", show_default=False)
    ] = None,
    since: Time = None,
    until: Time = None,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Tell what the log says: why an audit was late, or intense, and what came of it.

    This believes the log; run verify first.

    Example: holdfast evidence show --since 2026-03-01
    """
    from holdfast.control.evidence.reader import open_log  # noqa: PLC0415 - as above
    from holdfast.evidence import explain  # noqa: PLC0415
    from holdfast.evidence.leaf import encode  # noqa: PLC0415

    selection = explain.Selection(
        _holding(holding), _milliseconds(since) or 0, _milliseconds(until)
    )
    with open_log(_place(source, home)) as log:
        start, stop = (0, None) if leaf is None else (leaf, leaf + 1)
        if stop is not None and stop > log.size:
            raise InputError(f"{source or home} has {log.size} leaves: there is no leaf {leaf}")
        told = explain.select_leaves(log, selection, start, stop)
        if as_json:
            leaves = [
                {"index": index, "story": explain.explain(each), "leaf": json.loads(encode(each))}
                for index, each in told
            ]
            terminal.print_json({"leaves": leaves})
            return
        for index, each in told:
            first, *rest = explain.explain(each)
            say("\n  ".join([f"leaf {index}, {explain.when(each.at)}: {first}", *rest]))


@app.command()
def export(
    *,
    source: Source = None,
    out: Annotated[Path, typer.Option(help="Where the bundle goes.")],
    without_proofs: Annotated[
        bool,
        typer.Option(
            "--without-proofs",
            help="Leave the proofs out: each is an equation over the data. The tree still holds.",
        ),
    ] = False,
    home: HomeFolder = DEFAULT_HOME,
    as_json: Json = False,
) -> None:
    """Write a log into one file that anyone can check.

    Example: holdfast evidence export --without-proofs --out public.bundle
    """
    from holdfast.control.evidence.reader import open_log  # noqa: PLC0415 - as above
    from holdfast.evidence.bundle import write_bundle  # noqa: PLC0415
    from holdfast.evidence.log import WithoutProofs  # noqa: PLC0415

    atomic.check_output(out, overwrite=False)
    with (
        open_log(_place(source, home)) as log,
        terminal.progress_bar("exporting", log.size, of_bytes=False) as bar,
    ):
        write_bundle(WithoutProofs(log) if without_proofs else log, out, bar.reach)
    facts = {"bundle": str(out), "leaves": log.size, "key": str(log.verifier)}
    if as_json:
        terminal.print_json(facts)
    else:
        say(f"wrote {out}: {log.size} leaves, to be verified with --key {log.verifier}")


def _place(source: Path | None, home: Path) -> Path:
    """Return where the log is: the bundle or home that was named, or the home of --home."""
    from holdfast.owner import check_home  # noqa: PLC0415 - as above

    if source is not None:
        return source.expanduser()
    folder = home.expanduser()
    check_home(folder)
    return folder


def _holding(text: str | None) -> int | None:
    try:
        return None if text is None else int(text, 16)
    except ValueError as error:
        raise InputError(f"{text} is not a holding: give its number in hexadecimal") from error


def _milliseconds(time: datetime | None) -> int | None:
    return None if time is None else int(time.replace(tzinfo=UTC).timestamp() * 1000)


def _tell(report: "Report") -> None:
    for finding in report.findings:
        say(str(finding))
    if report.finding_count > len(report.findings):
        say(f"and {report.finding_count - len(report.findings)} findings more")
    gone = f", {report.proofs_gone} not re-checkable" if report.proofs_gone else ""
    say(
        f"{'fine' if report.fine else 'NOT FINE'}: {report.leaves} leaves with {report.audits} "
        f"audits, {report.proofs} proofs checked again{gone}; {report.checkpoints} signed heads; "
        f"{_anchors(report)}"
    )


def _anchors(report: "Report") -> str:
    """Return what is known of the anchors that a log claims."""
    count = f"{report.anchors} anchor{'' if report.anchors == 1 else 's'}"
    before = report.anchors_before_restore
    lost = f"; {before} more on the ledger from before it was restored" if before else ""
    if not report.anchors:
        return f"no anchors{lost}"
    if not report.anchors_unchecked:
        return f"{count}, checked on the ledger{lost}"
    if not report.anchors_checked:
        return f"{count} claimed, not checked{lost}"
    return f"{count}, {report.anchors_checked} of them checked, the others claimed{lost}"


@app.command(name="key")
def key_command(
    home: HomeFolder = DEFAULT_HOME, passphrase_file: PassphraseFile = None, as_json: Json = False
) -> None:
    """Print the verifier key of your log: give it to those who check your evidence.

    With --json it names the owner's address, too, by which anchors are checked.

    Example: holdfast evidence key
    """
    from holdfast.control.evidence.signer import current_signer, evidence_signer  # noqa: PLC0415
    from holdfast.control.settings.models import read_control  # noqa: PLC0415
    from holdfast.owner.ledgers import public_sender  # noqa: PLC0415
    from holdfast.storage.database import Standing, connected, standing_of  # noqa: PLC0415 - as the others

    place = open_home(home, passphrase_file)
    address = read_control(place.folder).address(place.folder)
    signer = evidence_signer(place.keyring)
    if standing_of(address)[0] is Standing.CURRENT:
        with connected(address, read_only=True) as engine:
            signer = current_signer(place.keyring, engine)
    verifier = str(signer.verifier)
    if as_json:
        sender = public_sender(place.folder, place.settings)
        owner = None if sender is None else f"0x{sender.hex()}"
        terminal.print_json({"key": verifier, "owner": owner})
    else:
        say(verifier)
