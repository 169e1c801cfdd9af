"""A deadline for a whole HTTP request, however slowly the other side answers.

httpx bounds each step of a request, and a read's time-out starts again with every byte that
arrives. Here every step gets the time that is left.
"""

import math
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from holdfast.node.time_limit import seconds_left

MAX_CONNECTIONS = 100
IDLE_SECONDS = 5.0  # after which a connection is closed: a node does the same
WRITE_BYTES = 1 << 16  # sent at once, where the time is limited


class DeadlineTransport(httpx.HTTPTransport):
    """httpx's transport over connections that keep the deadline."""

    def __init__(self, trusted: ssl.SSLContext) -> None:
        super().__init__(verify=trusted, trust_env=False)
        self._pool = httpcore.ConnectionPool(
            ssl_context=trusted,
            max_connections=MAX_CONNECTIONS,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=_Backend(),
        )


class _Backend(httpcore.NetworkBackend):
    def __init__(self) -> None:
        self._backend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        limit = _at_most(timeout, httpcore.ConnectTimeout)
        return _Stream(self._backend.connect_tcp(host, port, limit, local_address, socket_options))


class _Stream(httpcore.NetworkStream):
    """A connection whose every step ends by the deadline."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _at_most(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if seconds_left() == math.inf:
            self._stream.write(buffer, timeout)
            return
        for at in range(0, len(buffer), WRITE_BYTES):
            limit = _at_most(timeout, httpcore.WriteTimeout)
            self._stream.write(buffer[at : at + WRITE_BYTES], limit)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        limit = _at_most(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, limit))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _at_most(timeout: float | None, error: type[httpcore.TimeoutException]) -> float | None:
    """Return the time-out of a step; raise the error if no time is left."""
    left = seconds_left()
    if left == math.inf:
        return timeout
    if left <= 0:
        raise error("timed out")
    return left if timeout is None else min(timeout, left)
