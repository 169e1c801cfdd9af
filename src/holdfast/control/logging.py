"""Logs of the service, on stderr: lines to read on a terminal, JSON for whoever collects them."""

import re
import sys
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+(?=@)")


def configure_logs() -> None:
    """Say how events are written, once for the process."""
    terminal = sys.stderr.isatty()
    written: list[Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if terminal
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _without_credentials,
            *written,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def _without_credentials(_logger: "WrappedLogger", _method: str, event: "EventDict") -> "EventDict":
    """Hide user and password in addresses: those of a database or a chain may have them."""
    return {
        name: _CREDENTIALS.sub("***", value) if isinstance(value, str) else value
        for name, value in event.items()
    }
