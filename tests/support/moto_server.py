"""A real implementation of S3 on loopback, in a thread of the tests."""

from collections.abc import Iterator
from contextlib import contextmanager

import fsspec
import httpx
import pytest


@contextmanager
def moto_bucket() -> Iterator[str]:
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
        fsspec.get_filesystem_class("s3").clear_instance_cache()  # which knows another endpoint
        # The first answer takes the server seconds, for it imports what it answers by.
        httpx.put(f"http://{host}:{port}/holdfast", timeout=60).raise_for_status()
        yield "s3://holdfast"
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    server.stop()
