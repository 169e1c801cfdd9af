"""The front door: every command is mounted here, and every error leaves through here.

Exit 0 is fine, 1 a finding, 2 could not run (one sentence on stderr, no traceback) and 130
interrupted.
"""

import os
import signal
import sys
from collections.abc import Iterable
from importlib import import_module
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

import holdfast
from holdfast import secret_variables
from holdfast.cli import terminal
from holdfast.errors import HoldfastError

INTERRUPTED = 130
COMPLETION = "_HOLDFAST_COMPLETE"
TYPED = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")  # in which shells tell what they complete

# In the order of the help, and where each is: who runs one need not wait until all are imported.
COMMANDS = {
    "init": "owner:init",
    "passphrase": "passphrase:passphrase",
    "holding": "owner:holding",
    "put": "files:put",
    "get": "files:get",
    "rm": "files:rm",
    "audit": "audit:app",
    "repair": "audit:repair",
    "serve": "serve:serve",
    "status": "status:status",
    "doctor": "doctor:doctor",
    "config": "config:app",
    "backup": "backup:backup",
    "restore": "backup:restore",
    "confidence": "confidence:confidence",
    "canary": "canary:app",
    "policy": "policy:app",
    "token": "token:app",
    "pdp": "pdp:app",
    "node": "node:app",
    "evidence": "evidence:app",
    "bench": "bench:app",
    "ledger": "ledger:app",
    "paper": "paper:paper",
    "demo": "demo:demo",
    "evaluate": "evaluate:evaluate",
    "plan": "plan:plan",
    "train": "train:train",
}


def front_door(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the command line with these commands."""
    app = typer.Typer(
        name="holdfast",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(holdfast_command)
    for name in names:
        module, _, called = COMMANDS[name].partition(":")
        command = getattr(import_module(f"holdfast.cli.{module}"), called)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


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
    except KeyboardInterrupt:  # once more, while the first was being dealt with
        code = INTERRUPTED
    sys.exit(code)


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    with secret_variables.withdraw_secrets():
        return _run(arguments)


def _run(arguments: list[str] | None) -> int:
    try:
        app = front_door(_needed(sys.argv[1:] if arguments is None else arguments))
        result: Any = app(args=arguments, standalone_mode=False)
        terminal.flush()
    except SystemExit as left:
        # So leave Typer and Rich when the reader of our output has left, as `head` does, which
        # is no failure of ours; and so leaves the completion of the shell.
        return int(left.code or 0) if COMPLETION in os.environ else 0
    except (KeyboardInterrupt, typer.Abort):
        result = INTERRUPTED
    except (HoldfastError, typer.TyperException, OSError, MemoryError) as error:
        if sentence := _sentence(error):  # empty when the help has been shown instead
            terminal.complain(sentence)
        return 2
    if result == INTERRUPTED:  # Typer's word for Ctrl-C, too
        terminal.complain("interrupted")
    return result if isinstance(result, int) else 0


def _needed(arguments: list[str]) -> Iterable[str]:
    """Return the command that was typed; all of them if it is none of ours."""
    if COMPLETION in os.environ:
        arguments = " ".join(os.environ.get(name, "") for name in TYPED).split()[1:]
    known = [name for name in arguments[:1] if name in COMMANDS]
    return known or ([] if arguments[:1] == ["--version"] else COMMANDS)


def _sentence(error: Exception) -> str:
    if isinstance(error, typer.TyperException):
        return error.format_message()
    if isinstance(error, MemoryError):
        return "out of memory: give the machine more, or ask for less at once"
    if isinstance(error, OSError):
        return f"{error.filename or 'the system'}: {error.strerror or error}"
    return str(error)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
