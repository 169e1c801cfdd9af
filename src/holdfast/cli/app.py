"""The front door: every command is mounted here, and every error leaves through here.

Exit 0 is fine, 1 a finding, 2 could not run (one sentence on stderr, no traceback) and 130
interrupted.
"""

import os
import signal
import sys
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

import holdfast
from holdfast.cli import (
    audit,
    bench,
    canary,
    config,
    evidence,
    files,
    ledger,
    node,
    owner,
    paper,
    pdp,
    policy,
    terminal,
    token,
)
from holdfast.cli.backup import backup, restore
from holdfast.cli.confidence import confidence
from holdfast.cli.demo import demo
from holdfast.cli.doctor import doctor
from holdfast.cli.evaluate import evaluate
from holdfast.cli.passphrase import passphrase
from holdfast.cli.plan import plan
from holdfast.cli.serve import serve
from holdfast.cli.status import status
from holdfast.cli.train import train
from holdfast.errors import HoldfastError

INTERRUPTED = 130
COMPLETION = "_HOLDFAST_COMPLETE"

app = typer.Typer(
    name="holdfast",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(owner.init)
app.command()(passphrase)
app.add_typer(owner.holding, name="holding")
app.command()(files.put)
app.command()(files.get)
app.command()(files.rm)
app.add_typer(audit.app, name="audit")
app.command()(audit.repair)
app.command()(serve)
app.command()(status)
app.command()(doctor)
app.add_typer(config.app, name="config")
app.command()(backup)
app.command()(restore)
app.command()(confidence)
app.add_typer(canary.app, name="canary")
app.add_typer(policy.app, name="policy")
app.add_typer(token.app, name="token")
app.add_typer(pdp.app, name="pdp")
app.add_typer(node.app, name="node")
app.add_typer(evidence.app, name="evidence")
app.add_typer(bench.app, name="bench")
app.add_typer(ledger.app, name="ledger")
app.add_typer(paper.app, name="paper")
app.command()(demo)
app.command()(evaluate)
app.command()(plan)
app.command()(train)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"holdfast {holdfast.__version__}")
        raise typer.Exit


@app.callback()
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
    try:
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
