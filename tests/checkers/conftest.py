"""A folder for checks, whose jobs end with the test, and an S3 server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.checks import kill_jobs
from tests.support.processes import end_with_tests
from tests.support.s3_server import S3Server, s3_server
from tests.support.ssh_server import ssh_server


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return the private folder of a place."""
    path = tmp_path / "state"
    release = end_with_tests(folder=path)
    yield path
    kill_jobs(path)
    release()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.address


@pytest.fixture(scope="session")
def ssh_command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the command that reaches an sshd on loopback, without the host."""
    with ssh_server(tmp_path_factory.mktemp("sshd")) as command:
        yield command
