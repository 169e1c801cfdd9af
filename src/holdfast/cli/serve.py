"""`holdfast serve`: the control plane, until it is stopped."""

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import secret_variables
from holdfast.cli import terminal
from holdfast.cli.owner import DEFAULT_HOME, HomeFolder, open_home
from holdfast.cli.terminal import Json, PassphraseFile, say
from holdfast.processes import CONTEXT, end_with_parent, stop_all

if TYPE_CHECKING:
    from holdfast.control.settings.models import ControlSettings

MAX_WORKERS = 64
CHECK_SECONDS = 1.0  # between two looks at the workers
STOP_SECONDS = 60.0  # that a stopped worker has to finish what it is doing

Job = tuple[Callable[..., None], tuple[Any, ...]]  # what a process does, with what it is given


def serve(
    home: HomeFolder = DEFAULT_HOME,
    workers: Annotated[
        int, typer.Option(min=1, max=MAX_WORKERS, help="Processes that share the work.")
    ] = 1,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> int:
    """Audit all holdings by themselves: when and how hard is decided by the champion.

    The first champion is the policy of the settings, in the table [control] of holdfast.toml in
    the home; `holdfast policy` lets another one in. Stop it with Ctrl-C or SIGTERM: audits under
    way resume when it runs again.

    Example: holdfast serve --workers 2
    """
    from holdfast.control.service import check_settings  # noqa: PLC0415 - as in other commands
    from holdfast.control.settings.models import read_control  # noqa: PLC0415

    opened = open_home(home, passphrase_file)
    settings = read_control(opened.folder)
    check_settings(settings, opened.folder)
    root = opened.keyring.root
    with _web(opened.folder, settings) as (url, web):
        if as_json:
            facts = {"home": str(opened.folder), "policy": settings.policy, "workers": workers}
            terminal.print_json({**facts, "web": url})
            terminal.flush()
        else:
            say(f"auditing the holdings of {opened.folder}; Ctrl-C stops it")
            if url is not None:
                say(f"the dashboard is at {url}, the API at {url}/api/v1")
                terminal.flush()
        if workers == 1 and not web:
            work(opened.folder, root)
        else:
            given = secret_variables.secret(secret_variables.KEYSTORE_PASSPHRASE)
            _watch_over([*web, *((work, (opened.folder, root, k, given)) for k in range(workers))])
    return 0


@contextmanager
def _web(folder: Path, settings: "ControlSettings") -> Iterator[tuple[str | None, list[Job]]]:
    """Yield where the API will be, and the job of serving it, if it is to be served.

    The socket is ours, so that the address stays the same whoever serves.
    """
    from holdfast.web.client import announced  # noqa: PLC0415 - as above
    from holdfast.web.server import listen, serve_web, url_of  # noqa: PLC0415

    listener = listen(settings.web)
    if listener is None:
        yield None, []
        return
    url = url_of(listener)
    with listener, announced(folder, url) as name:
        yield url, [(serve_web, (listener, folder, name, settings))]


def _watch_over(jobs: Sequence[Job]) -> None:
    """Run a process for each job; one that dies is replaced, because its leases will end."""

    def start(job: Job) -> SpawnProcess:
        process = CONTEXT.Process(target=job[0], args=job[1])
        process.start()
        return process

    stopped = _stop_signals()
    running: dict[int, SpawnProcess] = {}
    try:
        while not stopped.is_set():
            for number, job in enumerate(jobs):
                if number not in running:
                    running[number] = start(job)
                elif (code := running[number].exitcode) is not None:
                    say(f"a process ended with {code}: another takes its place")
                    running[number] = start(job)
            wait([process.sentinel for process in running.values()], timeout=CHECK_SECONDS)
            if any(process.exitcode is not None for process in running.values()):
                stopped.wait(CHECK_SECONDS)  # so that what dies at once is not started in a circle
    finally:
        stop_all(running.values(), STOP_SECONDS)


def _stop_signals() -> Event:
    """Return an event that SIGINT or SIGTERM sets; a second signal ends the process at once."""
    stopped = Event()

    def on_signal(_signal: int, _frame: Any) -> None:
        if stopped.is_set():
            sys.exit(1)  # another worker resumes what is lost
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stopped


def work(
    folder: Path, root: bytes, number: int = 0, keystore_passphrase: bytes | None = None
) -> None:
    """Be one worker until SIGTERM or SIGINT; the tick under way is finished first.

    One that was started by another process does not outlive it.
    """
    from holdfast.control.logging import configure_logs  # noqa: PLC0415
    from holdfast.control.service import open_service  # noqa: PLC0415
    from holdfast.control.settings.models import read_control  # noqa: PLC0415
    from holdfast.owner import Home  # noqa: PLC0415
    from holdfast.owner.keyring import Keyring  # noqa: PLC0415
    from holdfast.owner.settings import read_settings  # noqa: PLC0415

    configure_logs()
    if keystore_passphrase is not None:
        secret_variables.accept({secret_variables.KEYSTORE_PASSPHRASE: keystore_passphrase})
    stopped = _stop_signals()
    end_with_parent(stopped.set)
    home, settings = Home(folder, Keyring(root), read_settings(folder)), read_control(folder)
    with open_service(home, settings, pause=stopped.wait, number=number) as service:
        service.run(stopped.is_set)
