"""`holdfast demo`: the whole system on this machine, live, with damage that is real."""

import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from holdfast.cli import terminal
from holdfast.cli.terminal import Json, say
from holdfast.errors import InputError

if TYPE_CHECKING:
    from holdfast.demo.frame import Frame
    from holdfast.demo.summary import Summary


def demo(
    seconds: Annotated[
        float, typer.Option(min=5, max=3600, help="How long the four weeks are to take.")
    ] = 40,
    seed: Annotated[int, typer.Option(min=0, help="Which file, and which blocks are hit.")] = 0,
    keep: Annotated[
        bool, typer.Option("--keep", help="Go on afterwards, at the same pace, until Ctrl-C.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="Keep all files, in this new folder.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> int:
    """See everything at work: nodes, a chain, a learned policy, damage, and what is made of it.

    Four weeks pass in less than a minute; nodes, files, damage, proofs and evidence are real. Exit
    1 if something that was done to the nodes was not detected, or the evidence does not verify.

    Example: holdfast demo --seconds 60 --keep
    """
    # All rooms at once, which would slow the start of every command.
    from holdfast.demo.console import summary_lines  # noqa: PLC0415
    from holdfast.demo.environment import open_environment  # noqa: PLC0415
    from holdfast.demo.faults import SPAN, plan_faults  # noqa: PLC0415
    from holdfast.demo.story import Story  # noqa: PLC0415
    from holdfast.demo.summary import summarise  # noqa: PLC0415
    from holdfast.demo.view import Caption, Lines, show_frames  # noqa: PLC0415

    stopped = _stop_signals()
    console = Console(stderr=as_json, highlight=False)
    with ExitStack() as stack:
        place = stack.enter_context(_place(folder))
        console.print("setting up five nodes, an owner, a ledger and the control plane")
        environment = stack.enter_context(open_environment(place, seed))
        caption = Caption.of(environment)
        console.print(
            f"the dashboard is at {environment.url}; {caption.ledger} judges", soft_wrap=True
        )
        with show_frames(console, caption) as show:

            def show_on(frame: "Frame") -> None:
                if stopped.is_set():
                    raise KeyboardInterrupt
                show(frame)

            story = Story(
                environment, plan_faults(environment.blocks, seed), SPAN, seconds, show_on
            )
            story.run()
        summary = summarise(story)
        if as_json:
            terminal.print_json(_facts(summary, seed))
        else:
            say("")
            for line in summary_lines(summary):
                say(line)
        terminal.flush()
        if keep:
            console.print(
                f"it goes on at this pace: look around at {environment.url}; Ctrl-C ends it"
            )
            story.show = Lines(console, len(story.frame().lines))
            with suppress(KeyboardInterrupt):
                story.keep_running()
    return 0 if summary.fine else 1


def _stop_signals() -> Event:
    """Have Ctrl-C, SIGTERM and a closed terminal interrupt us; return what is set by then.

    One of fifteen was lost: Python drops exceptions in some places, in finalisers for one.
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
def _place(folder: Path | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as made:
            yield Path(made)
        return
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise InputError(f"{folder} exists already: name a new folder") from error
    yield folder


def _facts(summary: "Summary", seed: int) -> dict[str, Any]:
    return {
        "seed": seed,
        **asdict(summary),
        "evidence": {**asdict(summary.evidence), "fine": summary.evidence.fine},
        "undetected": [harm.kind for harm in summary.undetected],
        "fine": summary.fine,
    }
