"""The command line: it imports the command that was typed, runs it, and reports its errors.

Exit code 0 means fine, 1 a finding, 2 could not run (one sentence on stderr, no traceback), 70 a
fault of Holdfast itself and 130 interrupted.
"""

import os
import signal
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import holdfast
from holdfast import secret_variables
from holdfast.cli import terminal
from holdfast.cli.commands import COMMANDS, Entry, Group
from holdfast.errors import HoldfastError
from holdfast.storage.waiting import notify_waits

INTERRUPTED = 130
FAULT = 70  # EX_SOFTWARE of sysexits.h
TRACEBACK = "HOLDFAST_TRACEBACK"
COMPLETION = "_HOLDFAST_COMPLETE"


class LazyCommand(TyperCommand):
    """A command whose module is imported when the command is typed."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, help=entry.help)
        self._target = entry.target

    def load(self) -> Any:
        """Import the command and return it with its options."""
        module, _, function = self._target.partition(":")
        app = typer.Typer(add_completion=False, rich_markup_mode="rich")
        app.command(self.name)(getattr(import_module(f"holdfast.cli.{module}"), function))
        return get_command(app)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        command = self.load()
        for part in (command, *command.params):  # `[control]` is the name of a table, not markup
            part.help = part.help and escape(part.help)
        return command.make_context(*args, **extra)


def root_command() -> Any:
    """Return the whole command line, with no command imported yet."""
    app = typer.Typer(
        name="holdfast",
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(holdfast_command)
    root: Any = get_command(app)
    root.commands = _mount(COMMANDS)
    return root


def _mount(entries: Mapping[str, Entry | Group]) -> dict[str, Any]:
    return {
        name: LazyCommand(name, entry)
        if isinstance(entry, Entry)
        else TyperGroup(
            name=name,
            help=entry.help,
            commands=_mount(entry.commands),
            no_args_is_help=True,
            rich_markup_mode="rich",
        )
        for name, entry in entries.items()
    }


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"holdfast {holdfast.__version__}")
        raise typer.Exit


def holdfast_command(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Prove, at the lowest cost, that data on machines you don't control is still intact."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run one command and leave the process with its exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = run(arguments)
    except KeyboardInterrupt:  # a second one, while the first is handled
        code = INTERRUPTED
    sys.exit(code)


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    with secret_variables.withdraw_secrets(), notify_waits(terminal.complain):
        return _run(arguments)


def _run(arguments: list[str] | None) -> int:
    try:
        result: Any = root_command()(args=arguments, standalone_mode=False)
        terminal.flush()
    except SystemExit as left:
        # Typer and Rich exit like this when the reader of our output is gone, as with `head`,
        # which is no failure; and so does the completion of the shell.
        return int(left.code or 0) if COMPLETION in os.environ else 0
    except (KeyboardInterrupt, typer.Abort):
        result = INTERRUPTED
    except (HoldfastError, typer.TyperException, OSError, MemoryError) as error:
        if sentence := _sentence(error):  # empty when the help was shown instead
            terminal.complain(sentence)
        return 2
    except Exception as error:  # noqa: BLE001 - whatever it is, it is our fault
        _report_fault(error)
        return FAULT
    if result == INTERRUPTED:  # Typer returns it for Ctrl-C, too
        terminal.complain("interrupted")
    return result if isinstance(result, int) else 0


def _report_fault(error: Exception) -> None:
    """Say that Holdfast is at fault, without what may be secret unless a traceback is asked for."""
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
        return
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
    terminal.complain(
        f"this is a fault of Holdfast ({place}): run it again with {TRACEBACK}=1 and report what "
        "it prints"
    )


def _sentence(error: Exception) -> str:
    if isinstance(error, typer.TyperException):
        return error.format_message()
    if isinstance(error, MemoryError):
        return "out of memory: use a machine with more memory, or a smaller task"
    if isinstance(error, OSError):
        return f"{error.filename or 'the system'}: {error.strerror or error}"
    return str(error)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
