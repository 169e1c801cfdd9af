"""`holdfast demo`: the whole system on this machine, live, with real damage."""

import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from holdfast.cli import terminal
from holdfast.cli.terminal import Json, report
from holdfast.demo.console import summary_lines
from holdfast.demo.environment import open_environment
from holdfast.demo.faults import SPAN, plan_faults
from holdfast.demo.frame import Frame
from holdfast.demo.story import Story
from holdfast.demo.summary import Summary, summarise
from holdfast.demo.view import Caption, Lines, show_frames
from holdfast.errors import InputError


def demo(
    seconds: Annotated[
        float, typer.Option(min=5, max=3600, help="How long the four weeks take.")
    ] = 40,
    seed: Annotated[int, typer.Option(min=0, help="Chooses the file and the damaged blocks.")] = 0,
    keep: Annotated[
        bool, typer.Option("--keep", help="Continue afterwards, at the same pace, until Ctrl-C.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="Keep all files in this new folder.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> int:
    """Watch nodes, a chain, a policy and real damage on this machine.

    Four weeks pass in less than a minute. Nodes, files, damage, proofs and evidence are real. Exit
    1 if damage wasn't detected, or the evidence doesn't verify.

    Example: holdfast demo --seconds 60 --keep
    """
    stopped = _stop_signals()
    console = Console(stderr=as_json, highlight=False)
    with ExitStack() as stack:
        place = stack.enter_context(_folder(folder))
        console.print("setting up five nodes, an owner, a ledger and the control plane")
        environment = stack.enter_context(open_environment(place, seed))
        caption = Caption.of(environment)
        console.print(
            f"the dashboard is at {environment.url}; {caption.ledger} judges", soft_wrap=True
        )
        with show_frames(console, caption) as show:

            def show_on(frame: Frame) -> None:
                if stopped.is_set():
                    raise KeyboardInterrupt
                show(frame)

            story = Story(
                environment, plan_faults(environment.blocks, seed), SPAN, seconds, show_on
            )
            story.run()
        summary = summarise(story)
        report(_facts(summary, seed), ["", *summary_lines(summary)], as_json=as_json)
        terminal.flush()
        if keep:
            console.print(f"it continues at this pace: see {environment.url}; Ctrl-C stops it")
            story.show = Lines(console, len(story.frame().lines))
            with suppress(KeyboardInterrupt):
                story.keep_running()
    return 0 if summary.fine else 1


def _stop_signals() -> Event:
    """Let Ctrl-C, SIGTERM and a closed terminal interrupt us, and return the event they set.

    The event is needed because Python drops exceptions in some places, such as finalisers.
    """
    stopped = Event()

    def stop(_signal: int, _frame: FrameType | None) -> NoReturn:
        stopped.set()
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    return stopped


@contextmanager
def _folder(folder: Path | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as passing:
            yield Path(passing)
        return
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise InputError(f"{folder} exists already: name a new folder") from error
    yield folder


def _facts(summary: Summary, seed: int) -> dict[str, Any]:
    return {
        "seed": seed,
        **asdict(summary),
        "evidence": {**asdict(summary.evidence), "fine": summary.evidence.fine},
        "undetected": [harm.kind for harm in summary.undetected],
        "fine": summary.fine,
    }
