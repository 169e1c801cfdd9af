"""How commands print: data or text on stdout, progress on stderr; and how they ask for secrets."""

import getpass
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from holdfast import atomic, secret_variables
from holdfast.errors import InputError, PassphraseError
from holdfast.words import size, span

PASSPHRASE_VARIABLE = secret_variables.PASSPHRASE
MAX_PASSPHRASE_BYTES = 4096
LINE_SECONDS = 5.0  # between two lines of progress, where there is no terminal
PIPE_WIDTH = 1000  # columns: a file or a pipe has no width that a table must fit

Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        help=f"File with the passphrase. Default: {PASSPHRASE_VARIABLE}, or a prompt.",
        show_default=False,
    ),
]
Text = str | Table | Iterable[str | Table]  # a sentence, a table, or several of them

messages = Console(stderr=True, highlight=False)


def report(data: Mapping[str, Any], text: Text, *, as_json: bool) -> None:
    """Print the result of a command: its data as JSON, or the text that says the same.

    Every string is printed as one line.
    """
    if as_json:
        say(json.dumps(data, indent=2))
        return
    for part in [text] if isinstance(text, str | Table) else text:
        say(one_line(part) if isinstance(part, str) else _render(part))


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a plain table. Titles that end with `>` head a column of figures."""
    made = Table(box=box.SIMPLE_HEAD if any(titles) else None, pad_edge=False, show_edge=False)
    made.show_header = any(titles)
    for title in titles:
        justify: Any = "right" if title.endswith(">") else "left"
        made.add_column(title.removesuffix(">"), justify=justify, overflow="fold")
    for row in rows:
        made.add_row(*(escape(one_line(cell)) for cell in row))
    return made


def say(text: str) -> None:
    """Print a result. Characters that this locale can't show are printed as escapes."""
    with _ignore_closed_pipe():
        typer.echo(_printable(text))


def complain(sentence: str) -> None:
    """Say on stderr, in one line whatever names are in it, why a command could not run."""
    typer.echo(_printable(f"holdfast: {one_line(sentence)}"), err=True)


def warn_left_out(holding: str, reason: str) -> None:
    complain(f"holding {holding} is left out: {reason}")


def flush() -> None:
    with _ignore_closed_pipe():
        if sys.stdout is not None:
            sys.stdout.flush()


def _render(shown: Table) -> str:
    """Return a table as text: as wide as the terminal, or as it needs to be in a pipe."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    width = None if terminal else PIPE_WIDTH
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width, highlight=False)
    with console.capture() as capture:
        console.print(shown)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


@contextmanager
def _ignore_closed_pipe() -> Iterator[None]:
    """Continue when the reader of our output is gone: the exit code is a result as well."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def one_line(text: str) -> str:
    """Return a text with escapes for what a terminal would not print but obey.

    Names of files and words of nodes may hold line breaks and control characters.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


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
            f"no passphrase: give --passphrase-file, set {variable}, or run in a terminal"
        )
    if not secret:
        raise PassphraseError("the passphrase is empty: choose one")
    return secret


def confirm(consequences: Iterable[str], question: str, *, yes: bool) -> None:
    """Say on stderr what a command does, and ask unless `yes`; raise if the answer is no."""
    if not yes and not sys.stdin.isatty():
        raise InputError(f"{question} There is no terminal to ask on: confirm it with --yes")
    for sentence in consequences:
        complain(sentence)
    if not yes and not typer.confirm(question, err=True):
        raise InputError("nothing was changed")


class Bar(Protocol):
    """Shows how far a command is, on stderr."""

    def reach(self, completed: float) -> None: ...
    def advance(self, amount: float) -> None: ...
    def describe(self, what: str) -> None: ...


class _TerminalBar:
    """A bar that moves."""

    def __init__(self, progress: Progress, task: TaskID, scale: float) -> None:
        self._progress, self._task, self._scale = progress, task, scale

    def reach(self, completed: float) -> None:
        self._progress.update(self._task, completed=completed / self._scale)

    def advance(self, amount: float) -> None:
        self._progress.advance(self._task, amount / self._scale)

    def describe(self, what: str) -> None:
        self._progress.update(self._task, description=what)


class LineBar:
    """A plain line every few seconds, for files and pipes; nothing about what ends before that."""

    def __init__(
        self,
        what: str,
        total: float,
        *,
        of_bytes: bool,
        scale: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._total, self._of_bytes, self._scale = what, total, of_bytes, scale
        self._clock = clock
        self._began = self._shown = clock()
        self._done = 0.0

    def reach(self, completed: float) -> None:
        self._done = completed / self._scale
        now = self._clock()
        if now - self._shown >= LINE_SECONDS:
            self._shown = now
            typer.echo(_printable(self._line(now - self._began)), err=True)

    def advance(self, amount: float) -> None:
        self.reach(self._scale * self._done + amount)

    def describe(self, what: str) -> None:
        self._what = what

    def _line(self, elapsed: float) -> str:
        done, total = min(self._done, self._total), self._total
        parts = [f"{100 * done / total:.0f} %"] if total else []
        if self._of_bytes:
            parts.append(f"{size(done)} of {size(total)}")
        elif total > 1:
            parts.append(f"{done:,.0f} of {total:,.0f}")
        if 0 < done < total:
            left = round(1000 * elapsed * (total - done) / done)
            parts.append(f"about {span(max(left, 1000), 1)} left")
        return f"{self._what}: {', '.join(parts)}"


@contextmanager
def progress_bar(
    what: str, total: float, *, of_bytes: bool = True, scale: float = 1.0
) -> Iterator[Bar]:
    """Yield a bar up to `total`, or lines where there is no terminal.

    Progress is divided by `scale`, so that work in several passes counts once.
    """
    what = one_line(what)
    if not sys.stderr.isatty():
        yield LineBar(what, total, of_bytes=of_bytes, scale=scale)
        return
    columns = [TextColumn("{task.description}", markup=False), BarColumn()]
    if of_bytes:
        columns += [DownloadColumn(binary_units=True), TransferSpeedColumn()]
    columns.append(TimeRemainingColumn())
    with Progress(*columns, console=messages) as progress:
        yield _TerminalBar(progress, progress.add_task(what, total=total), scale)
