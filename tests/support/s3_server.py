"""A real S3 server on loopback, which the environment names for as long as it runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest


class S3Server:
    """Serves one bucket; what it holds outlasts an outage."""

    address = "s3://holdfast"

    def __init__(self) -> None:
        self._server = _start(0)
        self.host, self.port = self._server.get_host_and_port()
        # The first answer takes the server seconds, for it imports what it answers by.
        httpx.put(f"{self.url}/holdfast", timeout=60).raise_for_status()

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @contextmanager
    def away(self) -> Iterator[None]:
        """Let nobody reach it."""
        self._server.stop()
        try:
            yield
        finally:
            self._server = _start(self.port)

    def stop(self) -> None:
        self._server.stop()


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run the server, as the environment then says."""
    server = S3Server()
    variables = {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield server
    server.stop()


def _start(port: int) -> Any:
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - takes seconds

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    return server
