"""A real S3 server on loopback, which the environment names for as long as it runs."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest


@contextmanager
def s3_bucket() -> Iterator[str]:
    """Serve S3, as the environment then says, and yield a bucket's address."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - takes seconds

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    variables = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        # The first answer takes the server seconds, for it imports what it answers by.
        httpx.put(f"http://{host}:{port}/holdfast", timeout=60).raise_for_status()
        yield "s3://holdfast"
    server.stop()
