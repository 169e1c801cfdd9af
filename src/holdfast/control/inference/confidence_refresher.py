"""The process of `holdfast serve` that keeps confidences fresh, at low priority."""

import os
import signal
import sys
import time

import structlog

from holdfast.control.inference.confidence import Confidences
from holdfast.control.logging import configure_logs
from holdfast.control.service import milliseconds
from holdfast.control.settings.models import ControlSettings
from holdfast.durations import SECOND
from holdfast.errors import HoldfastError
from holdfast.processes import end_with_parent
from holdfast.storage.database import connect, migrate

NICENESS = 10  # so that audits and pages come first
REST = 3  # times as long as it has worked: it takes a quarter of a core at most
log = structlog.get_logger()


def keep_fresh(address: str, settings: ControlSettings) -> None:
    """Refresh what is stale until the process is stopped, or its parent ends.

    If nothing was stale, the next look is as far off as that of other upkeep.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which stops this
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(0))
    end_with_parent(lambda: os._exit(1))
    os.nice(NICENESS)
    configure_logs()
    engine = connect(address)
    confidences, migrated = Confidences(engine, settings), False
    idle_seconds = settings.upkeep.enrol / SECOND
    while True:
        start, refreshed = time.monotonic(), 0
        try:
            if not migrated:
                migrate(engine)
                migrated = True
            refreshed = confidences.refresh(milliseconds())
        except HoldfastError as error:
            log.warning("confidences are not refreshed", reason=str(error))
        time.sleep(REST * (time.monotonic() - start) if refreshed else idle_seconds)
