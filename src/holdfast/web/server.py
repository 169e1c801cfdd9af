"""Serves API and pages on a socket until it is stopped."""

import errno
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn

from holdfast.control.logging import configure_logs
from holdfast.control.service import milliseconds
from holdfast.control.settings.models import ControlSettings, WebSettings
from holdfast.errors import InputError
from holdfast.processes import end_with_parent
from holdfast.storage.database import connect, migrate
from holdfast.web.app import build_app
from holdfast.web.context import Context
from holdfast.web.pages.page import prepare_pages
from holdfast.web.services.baselines import Baselines
from holdfast.web.services.champion import ChampionLookup
from holdfast.web.services.daily_totals import DailyTotals
from holdfast.web.services.dial_sweep import DialSweep
from holdfast.web.services.posterior import Posteriors
from holdfast.web.sse import SEND_TIMEOUT_SECONDS

SHUTDOWN_TIMEOUT_SECONDS = 5  # for requests to end when the server is stopped
PORT_WAIT_SECONDS = 3.0  # for a port that is taken
MAX_HEAD_BYTES = 16 << 10
BACKLOG = 256


def listen(settings: WebSettings) -> socket.socket | None:
    """Return the socket that the settings name, if they name one.

    Several homes may be served on a machine: if the port that nobody chose is taken, it is any. A
    chosen port is waited for: a service that was killed may have it for a moment.
    """
    if settings.listen is None:
        return None
    host, port = settings.listen
    until = time.monotonic() + PORT_WAIT_SECONDS
    while True:
        try:
            return _bind(host, port)
        except OSError as error:
            if settings.listen == WebSettings().listen:
                return _bind(host, 0)
            if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                raise InputError(f"can't listen on {host}, port {port}: {error}") from error
        time.sleep(0.1)


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@contextmanager
def open_context(
    folder: Path,
    settings: ControlSettings,
    is_closing: Callable[[], bool] = lambda: False,
    clock: Callable[[], int] = milliseconds,
) -> Iterator[Context]:
    address = settings.address(folder)
    writer, reader = connect(address), connect(address, read_only=True)
    posteriors = Posteriors()
    try:
        migrate(writer)
        yield Context(
            folder,
            settings,
            reader,
            writer,
            clock,
            DailyTotals(clock),
            ChampionLookup(reader, folder, settings),
            Baselines(settings.scenario),
            DialSweep(settings.policy, settings.scenario),
            posteriors,
            is_closing,
        )
    finally:
        posteriors.close()
        reader.dispose()
        writer.dispose()


class RunningServer:
    """A control plane's API and the socket that it listens on."""

    def __init__(self, listener: socket.socket, folder: Path, settings: ControlSettings) -> None:
        self._listener, self._folder, self._settings = listener, folder, settings
        self._server: uvicorn.Server | None = None
        self._stopped = False

    def run(self, clock: Callable[[], int] = milliseconds) -> None:
        """Serve until SIGTERM, SIGINT or `stop`; requests under way may end."""
        with open_context(self._folder, self._settings, self._is_closing, clock) as context:
            app = build_app(context)
            prepare_pages()
            totals, arguments = context.daily_totals, (context.reader, self._is_closing)
            threading.Thread(target=totals.look_back, args=arguments, daemon=True).start()
            config = uvicorn.Config(
                app,
                log_level=logging.WARNING,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=MAX_HEAD_BYTES,
                timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_SECONDS,
            )
            self._server = uvicorn.Server(config)
            self._server.should_exit = self._stopped
            with suppress(KeyboardInterrupt):  # which is how uvicorn passes a signal on
                self._server.run(sockets=[self._listener])

    def stop(self) -> None:
        self._stopped = True
        if self._server is not None:
            self._server.should_exit = True

    def _is_closing(self) -> bool:
        return self._stopped or (self._server is not None and self._server.should_exit)


def serve_web(listener: socket.socket, folder: Path, settings: ControlSettings) -> None:
    """Serve a home's API until SIGTERM or SIGINT, but not longer than who started it lives.

    The settings are those that `holdfast serve` started with, however often this starts again: only
    its workers record others.
    """
    configure_logs()
    server = RunningServer(listener, folder, settings)

    def stop(_signal: int, _frame: Any) -> None:
        server.stop()

    # uvicorn raises what it was ended by again: by default that would leave no context.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    end_with_parent(lambda: os._exit(1))  # at once: a new service wants the port
    server.run()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # Connections inherit it. Without it an answer's body waits 40 ms for its head to be received.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # else a vanished client is noticed in a quarter hour
        limit = int(1000 * SEND_TIMEOUT_SECONDS)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit)
    listener.setblocking(False)
    return listener
