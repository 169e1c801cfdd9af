"""One worker process of `holdfast serve`."""

import signal
import sys
from pathlib import Path
from threading import Event
from typing import Any

from holdfast import secret_variables
from holdfast.control.logging import configure_logs
from holdfast.control.service import open_service
from holdfast.control.settings.models import read_control
from holdfast.owner import Home
from holdfast.owner.keyring import Keyring
from holdfast.owner.settings import read_settings
from holdfast.processes import end_with_parent, leave_at_once


def work(
    folder: Path, root: bytes, number: int = 0, keystore_passphrase: bytes | None = None
) -> None:
    """Run one worker until SIGTERM or SIGINT; it finishes its tick first, but waits for no node.

    A worker that was started by another process ends with that process.
    """
    configure_logs()
    if keystore_passphrase is not None:
        secret_variables.accept({secret_variables.KEYSTORE_PASSPHRASE: keystore_passphrase})
    stopped = stop_signals()
    end_with_parent(stopped.set)
    home, settings = Home(folder, Keyring(root), read_settings(folder)), read_control(folder)
    with open_service(home, settings, pause=stopped.wait, number=number) as service:
        service.run(stopped.is_set)
    leave_at_once()


def stop_signals() -> Event:
    """Return an event that SIGINT or SIGTERM sets; a second signal ends the process at once."""
    stopped = Event()

    def on_signal(_signal: int, _frame: Any) -> None:
        if stopped.is_set():
            sys.exit(1)  # another worker resumes what is lost
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stopped
