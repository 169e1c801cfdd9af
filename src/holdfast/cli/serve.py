"""`holdfast serve`: the control plane, until it is stopped."""

import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.owner import DEFAULT_HOME, HomeFolder, open_home
from holdfast.cli.terminal import PassphraseFile, say

if TYPE_CHECKING:
    from holdfast.owner.keyring import Keyring

MOST_WORKERS = 64


def serve(
    home: HomeFolder = DEFAULT_HOME,
    workers: Annotated[
        int, typer.Option(min=1, max=MOST_WORKERS, help="Processes that share the work.")
    ] = 1,
    passphrase_file: PassphraseFile = None,
) -> int:
    """Audit all holdings by themselves: when and how hard is decided by the learned policy.

    Settings are in the table [control] of holdfast.toml in the home. Stop it with Ctrl-C or
    SIGTERM: audits under way are taken up again by whoever runs next.

    Example: holdfast serve --workers 2
    """
    from holdfast import workers as crew  # noqa: PLC0415 - not needed by other commands
    from holdfast.control.service import check_settings  # noqa: PLC0415
    from holdfast.control.settings import read_control  # noqa: PLC0415

    opened = open_home(home, passphrase_file)
    settings = read_control(opened.folder)
    check_settings(settings)
    say(f"auditing the holdings of {opened.folder} by {settings.policy}; Ctrl-C stops it")
    if workers == 1:
        work(opened.folder, opened.keyring)
        return 0
    pieces = [(k, partial(_work_of, opened.folder, opened.keyring)) for k in range(workers)]
    for number, failed in crew.side_by_side(pieces, workers, lambda _name, _news: None):
        say(f"worker {number} ended: {failed or 'it was stopped'}")
    return 0


def work(folder: Path, keyring: "Keyring") -> None:
    """Be one worker until SIGTERM or SIGINT; the tick under way is finished first."""
    from holdfast.control.service import opened_service  # noqa: PLC0415
    from holdfast.control.settings import read_control  # noqa: PLC0415
    from holdfast.owner import Home  # noqa: PLC0415
    from holdfast.owner.settings import read_settings  # noqa: PLC0415

    stopped = False

    def stop(_signal: int, _frame: Any) -> None:
        nonlocal stopped
        if stopped:
            sys.exit(1)  # a second time: at once, for whatever is lost will be taken up again
        stopped = True

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
    home = Home(folder, keyring, read_settings(folder))
    with opened_service(home, read_control(folder)) as service:
        service.run(lambda: stopped)


def _work_of(folder: Path, keyring: "Keyring", _tell: Any) -> None:
    work(folder, keyring)
