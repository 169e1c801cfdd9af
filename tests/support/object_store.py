"""A loopback object store that tests can slow down, break and count requests to."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import fsspec
import pytest

from holdfast.bench.object_server import ObjectServer, serving


@contextmanager
def object_store(
    objects: Mapping[str, bytes], delay_seconds: float = 0.0
) -> Iterator[ObjectServer]:
    """Serve objects, named `bucket/key`, to whatever reads s3:// addresses meanwhile."""
    with serving(objects, delay_seconds) as server, pytest.MonkeyPatch.context() as patch:
        variables = {
            "AWS_ENDPOINT_URL": server.url,
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        for name, value in variables.items():
            patch.setenv(name, value)
        fsspec.get_filesystem_class("s3").clear_instance_cache()  # which knows another endpoint
        try:
            yield server
        finally:
            fsspec.get_filesystem_class("s3").clear_instance_cache()
