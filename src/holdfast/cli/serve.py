"""`holdfast serve`: the control plane, until it is stopped."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast import secret_variables
from holdfast.cli import terminal
from holdfast.cli.home import DEFAULT_HOME, HomeFolder, open_home
from holdfast.cli.terminal import Json, PassphraseFile, report, say
from holdfast.cli.worker import stop_signals, work
from holdfast.control.inference.confidence_refresher import keep_fresh
from holdfast.control.running_services import Place, announce_service
from holdfast.control.service import check_settings, milliseconds
from holdfast.control.settings.models import ControlSettings, read_control
from holdfast.errors import InputError, StorageError
from holdfast.owner import Home
from holdfast.processes import CONTEXT, stop_all
from holdfast.storage.database import Standing, standing_of
from holdfast.web.server import listen, serve_web, url_of

MAX_WORKERS = 64
CHECK_SECONDS = 1.0  # between two looks at the workers
STOP_SECONDS = 60.0  # that a stopped worker has to finish what it is doing

Job = tuple[Callable[..., None], tuple[Any, ...]]  # what a process does, with what it is given


def serve(
    home: HomeFolder = DEFAULT_HOME,
    workers: Annotated[
        int, typer.Option(min=1, max=MAX_WORKERS, help="Processes that share the work.")
    ] = 1,
    join: Annotated[
        bool, typer.Option("--join", help="Share the work of a service that runs on this home.")
    ] = False,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> int:
    """Run the service: it audits all holdings by itself.

    The champion decides when to audit and how many blocks to sample. The first champion is the
    policy in the table [control] of holdfast.toml in the home; `holdfast policy promote` makes
    another one the champion. Stop it with Ctrl-C or SIGTERM: interrupted audits resume when it
    runs again. A second service on the same home is refused unless it joins: then it adds workers,
    and no second dashboard.

    Example: holdfast serve --workers 2
    """
    opened = open_home(home, passphrase_file)
    settings = read_control(opened.folder)
    check_settings(settings, opened.folder)
    _check_ports(settings, workers)
    with suppress(StorageError):  # workers wait for a database that is unreachable
        if (standing := standing_of(settings.address(opened.folder)))[0] is Standing.NEWER:
            raise InputError(
                f"a newer Holdfast made the database ({standing[1]}): upgrade this one"
            )
    with announce_service(opened.folder, milliseconds(), join=join) as place:
        _serve(opened, settings, place, workers, as_json=as_json)
    return 0


def _check_ports(settings: ControlSettings, workers: int) -> None:
    """Refuse the dashboard's port for metrics: each worker serves its own on the next port."""
    if settings.metrics.listen is None or settings.web.listen is None:
        return
    first, dashboard = settings.metrics.listen[1], settings.web.listen[1]
    if first <= dashboard < first + workers:
        raise InputError(
            f"listen in [control.metrics]: {workers} workers need the ports from {first} on, and "
            f"the dashboard is on {dashboard}: choose another port for one of them"
        )


def _serve(
    home: Home, settings: ControlSettings, place: Place, workers: int, *, as_json: bool
) -> None:
    """Serve until stopped, at a place among the services of this home."""
    root, numbers = home.keyring.root, [MAX_WORKERS * place.number + k for k in range(workers)]
    with _web(home.folder, settings, place) as (url, web):
        data = {"home": str(home.folder), "policy": settings.policy, "workers": workers}
        text = [f"auditing the holdings of {home.folder}; Ctrl-C stops it"]
        if url is not None:
            text.append(f"the dashboard is at {url}, the API at {url}/api/v1")
        text += [f"it shares the work of {other}" for other in place.others]
        joined = [asdict(other) for other in place.others]
        report({**data, "web": url, "joined": joined}, text, as_json=as_json)
        terminal.flush()
        given = secret_variables.secret(secret_variables.KEYSTORE_PASSPHRASE)
        refresher: Job = (keep_fresh, (settings.address(home.folder), settings))
        audits: list[Job] = [(work, (home.folder, root, number, given)) for number in numbers]
        _watch_over([*web, refresher, *audits])


@contextmanager
def _web(
    folder: Path, settings: ControlSettings, place: Place
) -> Iterator[tuple[str | None, list[Job]]]:
    """Yield the URL of the dashboard and the job that serves it, if the settings ask for one.

    The socket stays open here, so that the address remains when the process is replaced. A service
    that joins another leaves the dashboard to it.
    """
    listener = None if place.others else listen(settings.web)
    if listener is None:
        yield None, []
        return
    with listener:
        yield url_of(listener), [(serve_web, (listener, folder, settings))]


def _watch_over(jobs: Sequence[Job]) -> None:
    """Run a process for each job; one that dies is replaced, because its leases will end."""

    def start(job: Job) -> SpawnProcess:
        process = CONTEXT.Process(target=job[0], args=job[1])
        process.start()
        return process

    stopped = stop_signals()
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
