"""`holdfast serve`: the control plane, until it is stopped."""

import os
import signal
import sys
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer

from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder, open_home
from holdfast.cli.terminal import Json, PassphraseFile, say

MOST_WORKERS = 64
LOOK = 1.0  # seconds between two looks at the workers
PATIENCE = 60.0  # seconds that a stopped worker has to finish what it is at


def serve(
    home: HomeFolder = DEFAULT_HOME,
    workers: Annotated[
        int, typer.Option(min=1, max=MOST_WORKERS, help="Processes that share the work.")
    ] = 1,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> int:
    """Audit all holdings by themselves: when and how hard is decided by the champion.

    The first champion is the policy of the settings, in the table [control] of holdfast.toml in
    the home; `holdfast policy` lets another one in. Stop it with Ctrl-C or SIGTERM: audits under
    way are taken up again by whoever runs next.

    Example: holdfast serve --workers 2
    """
    from holdfast.control.service import check_settings  # noqa: PLC0415 - as in other commands
    from holdfast.control.settings import read_control  # noqa: PLC0415

    opened = open_home(home, passphrase_file)
    settings = read_control(opened.folder)
    check_settings(settings, opened.folder)
    if as_json:
        facts = {"home": str(opened.folder), "policy": settings.policy, "workers": workers}
        terminal.print_json(facts)
        terminal.flush()
    else:
        say(f"auditing the holdings of {opened.folder}; Ctrl-C stops it")
    if workers == 1:
        work(opened.folder, opened.keyring.root)
    else:
        _watch_over(workers, opened.folder, opened.keyring.root)
    return 0


def _watch_over(count: int, folder: Path, root: bytes) -> None:
    """Keep so many workers at work; one that dies is replaced, for its leases will end."""
    context = get_context("spawn")

    def start(number: int) -> SpawnProcess:
        process = context.Process(target=work, args=(folder, root, number, os.getpid()))
        process.start()
        return process

    stopped = _stop_signals()
    team: dict[int, SpawnProcess] = {}
    try:
        while not stopped.is_set():
            for number in range(count):
                if number not in team:
                    team[number] = start(number)
                elif (code := team[number].exitcode) is not None:
                    say(f"a worker ended with {code}: another takes its place")
                    team[number] = start(number)
            wait([process.sentinel for process in team.values()], timeout=LOOK)
            if any(process.exitcode is not None for process in team.values()):
                stopped.wait(LOOK)  # so that what dies at once is not started in a circle
    finally:
        for process in team.values():
            process.terminate()
        for process in team.values():
            process.join(PATIENCE)
            process.kill()
            process.join()


def _stop_signals() -> Event:
    """Return what is set once SIGINT or SIGTERM came; a second one ends the process at once."""
    stopped = Event()

    def stop(_signal: int, _frame: Any) -> None:
        if stopped.is_set():
            sys.exit(1)  # what is lost will be taken up again
        stopped.set()

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
    return stopped


def work(folder: Path, root: bytes, number: int = 0, parent: int | None = None) -> None:
    """Be one worker until SIGTERM or SIGINT; the tick under way is finished first.

    One that was started by another process does not outlive it.
    """
    from holdfast.control.logs import configure_logs  # noqa: PLC0415
    from holdfast.control.service import opened_service  # noqa: PLC0415
    from holdfast.control.settings import read_control  # noqa: PLC0415
    from holdfast.owner import Home  # noqa: PLC0415
    from holdfast.owner.keyring import Keyring  # noqa: PLC0415
    from holdfast.owner.settings import read_settings  # noqa: PLC0415

    configure_logs()
    stopped = _stop_signals()
    home, settings = Home(folder, Keyring(root), read_settings(folder)), read_control(folder)
    with opened_service(home, settings, pause=stopped.wait, number=number) as service:
        service.run(lambda: stopped.is_set() or parent not in {None, os.getppid()})
