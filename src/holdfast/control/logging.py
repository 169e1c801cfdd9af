"""Logging to stderr: readable lines on a terminal, JSON elsewhere."""

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+(?=@)")


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Log only warnings, and those to stderr, unless the program has configured structlog."""
    if structlog.is_configured():
        yield
        return
    configure_logs(logging.WARNING)
    try:
        yield
    finally:
        structlog.reset_defaults()


def configure_logs(level: int = logging.INFO) -> None:
    """Configure structlog for this process."""
    renderers: list[Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if sys.stderr.isatty()
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _hide_credentials,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )


def _hide_credentials(_logger: "WrappedLogger", _method: str, event: "EventDict") -> "EventDict":
    """Hide user and password in addresses of databases and chains."""
    return {
        name: _CREDENTIALS.sub("***", value) if isinstance(value, str) else value
        for name, value in event.items()
    }
