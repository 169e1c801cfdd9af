"""A node on a port, which is bound before it serves so that its address is known."""

import logging
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from holdfast.errors import InputError
from holdfast.node.app import build_app
from holdfast.node.node import Node
from holdfast.processes import keep_freed_memory

SHUTDOWN_TIMEOUT_SECONDS = 30  # for open requests, when the node is stopped
MAX_HEAD_BYTES = 16 << 10
BACKLOG = 256


@dataclass(frozen=True)
class Certificate:
    """The TLS certificate of a node's host, and its private key."""

    certificate: Path
    private_key: Path

    def check(self) -> None:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                self.certificate, self.private_key
            )
        except (OSError, ssl.SSLError) as error:
            raise InputError(
                f"can't use {self.certificate} with {self.private_key} for TLS: {error}"
            ) from error


class RunningNode:
    """A node and the socket that it listens on."""

    def __init__(
        self, node: Node, host: str, port: int, certificate: Certificate | None = None
    ) -> None:
        if certificate is not None:
            certificate.check()
        self._socket = _listen(host, port)
        config = uvicorn.Config(
            build_app(node),
            log_level=logging.WARNING,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_SECONDS,
            ssl_certfile=certificate.certificate if certificate else None,
            ssl_keyfile=certificate.private_key if certificate else None,
        )
        self._server = uvicorn.Server(config)
        shown, port = self._socket.getsockname()[:2]
        scheme = "https" if certificate else "http"
        self.url = f"{scheme}://{f'[{shown}]' if ':' in shown else shown}:{port}"

    def run(self) -> None:
        """Serve until SIGTERM, SIGINT or `stop`; requests under way may end."""
        keep_freed_memory()
        with suppress(KeyboardInterrupt), self._socket:  # which is how uvicorn passes a signal on
            self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        self._server.should_exit = True


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise InputError(f"can't listen on {host}, port {port}: {error}") from error
    # Connections inherit it. Without it an answer's body waits 40 ms for its head to be received.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setblocking(False)
    return listener
