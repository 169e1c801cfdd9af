"""Keeps the table of confidences fresh while a server runs, in a low-priority process."""

import os
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
from holdfast.processes import start_child
from holdfast.storage.database import connect, migrate

NICENESS = 10  # so that audits and pages come first
REST = 3  # times as long as it has worked: it takes a quarter of a core at most
IDLE_SECONDS = 30.0  # until the next look, if nothing was stale
log = structlog.get_logger()


@contextmanager
def refresh_confidences(address: str, settings: ControlSettings) -> Iterator[None]:
    """Keep the table fresh while the context lasts."""
    with start_child(keep_fresh, address, settings):
        yield


def keep_fresh(_sender: Connection, address: str, settings: ControlSettings) -> None:
    """Refresh what is stale until the process is stopped."""
    os.nice(NICENESS)
    configure_logs()
    engine = connect(address)
    migrate(engine)
    confidences = Confidences(engine, settings)
    while True:
        start, refreshed = time.monotonic(), 0
        try:
            refreshed = confidences.refresh(milliseconds())
        except HoldfastError as error:
            log.warning("confidences are not refreshed", reason=str(error))
        time.sleep(REST * (time.monotonic() - start) if refreshed else IDLE_SECONDS)
