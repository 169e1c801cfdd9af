"""How commands speak: data on stdout, progress on stderr; and how they are told a passphrase."""

import getpass
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from holdfast import atomic, secret_variables
from holdfast.errors import InputError, PassphraseError

PASSPHRASE_VARIABLE = secret_variables.PASSPHRASE
MAX_PASSPHRASE_BYTES = 4096

Json = Annotated[bool, typer.Option("--json", help="Print data alone, as JSON.")]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        help=f"File with the key's passphrase; else {PASSPHRASE_VARIABLE}, else a prompt.",
        show_default=False,
    ),
]

messages = Console(stderr=True, highlight=False)


def print_json(data: Mapping[str, Any]) -> None:
    say(json.dumps(data, indent=2))


def say(text: str) -> None:
    """Print a result. Names that are no text in this locale are shown with escapes."""
    with _to_whoever_reads():
        typer.echo(_printable(text))


def complain(sentence: str) -> None:
    """Say on stderr, in one line whatever names it has in it, why a command could not run."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in sentence)
    typer.echo(_printable(f"holdfast: {line}"), err=True)


def warn_left_out(holding: str, reason: str) -> None:
    complain(f"holding {holding} is left out: {reason}")


def flush() -> None:
    with _to_whoever_reads():
        if sys.stdout is not None:
            sys.stdout.flush()


@contextmanager
def _to_whoever_reads() -> Iterator[None]:
    """Go on when the reader of our output has left: the exit code is a result as well."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def passphrase(
    file: Path | None,
    *,
    variable: str = PASSPHRASE_VARIABLE,
    prompt: str = "Passphrase: ",
    confirm: bool = False,
) -> bytes:
    """Return the passphrase, without the line end that editors leave behind it."""
    if file is not None:
        secret = atomic.read(file, at_most=MAX_PASSPHRASE_BYTES).removesuffix(b"\n")
        secret = secret.removesuffix(b"\r")
    elif (given := secret_variables.secret(variable)) is not None:
        secret = given
    elif sys.stdin.isatty():
        secret = getpass.getpass(prompt).encode()
        if confirm and getpass.getpass("Once more: ").encode() != secret:
            raise PassphraseError("the two passphrases differ: try again")
    else:
        raise InputError(
            "no passphrase: give --passphrase-file, set "
            f"{variable}, or run in a terminal to be asked"
        )
    if not secret:
        raise PassphraseError("the passphrase is empty: choose one")
    return secret


class Bar:
    """A progress bar on stderr, which is drawn on a terminal only."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def reach(self, completed: float) -> None:
        self._progress.update(self._task, completed=completed)


@contextmanager
def progress_bar(what: str, total: float, *, of_bytes: bool = True) -> Iterator[Bar]:
    columns = [TextColumn("{task.description}"), BarColumn()]
    if of_bytes:
        columns += [DownloadColumn(binary_units=True), TransferSpeedColumn()]
    columns.append(TimeRemainingColumn())
    with Progress(*columns, console=messages, disable=not sys.stderr.isatty()) as progress:
        yield Bar(progress, progress.add_task(what, total=total))
