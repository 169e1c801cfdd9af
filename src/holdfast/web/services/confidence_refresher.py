"""The table of confidences, kept fresh while a server runs by a process that gives way to all."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import structlog

from holdfast.control.inference.confidence import Confidences
from holdfast.control.logging import configure_logs
from holdfast.control.service import milliseconds
from holdfast.control.settings.models import ControlSettings
from holdfast.errors import HoldfastError
from holdfast.storage.database import connect, migrate
from holdfast.web.jobs import apart

GENTLE = 10  # how far it steps back behind audits and pages
REST = 3  # times as long as it has worked: it takes a quarter of a core at most
IDLE = 30.0  # seconds until the next look, if nothing was to be done
log = structlog.get_logger()


@contextmanager
def keeping(address: str, settings: ControlSettings) -> Iterator[None]:
    """Keep the table fresh while the context lasts."""
    with apart(keep, address, settings):
        yield


def keep(_sender: Connection, address: str, settings: ControlSettings) -> None:
    """Refresh what is out of date, again and again, until it is stopped."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started us is told, and stops us
    os.nice(GENTLE)
    configure_logs()
    engine = connect(address)
    migrate(engine)
    kept = Confidences(engine, settings)
    while True:
        start, refreshed = time.monotonic(), 0
        try:
            refreshed = kept.refresh(milliseconds())
        except HoldfastError as error:
            log.warning("the confidence stands still", reason=str(error))
        time.sleep(REST * (time.monotonic() - start) if refreshed else IDLE)
