"""Parts that a machine may lack: every test that needs one asks for it here, before all else.

Where the part is missing the test is skipped, and the reason says what is missing and how to get
it. `make test` passes without any of them.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.support.processes import end_with_tests

from holdfast.bench.postgres import Server, installed


def skip(missing: str, remedy: str) -> NoReturn:
    """Skip the test that is being set up or run."""
    __tracebackhide__ = True  # pytest's summary names the test, not this line
    pytest.skip(f"no {missing}: {remedy}")


def package(name: str) -> Any:
    """Return a package of the extra `crosscheck`, imported."""
    __tracebackhide__ = True
    remedy = "make test EXTRAS=dev,crosscheck"
    return pytest.importorskip(name, reason=f"no {name.partition('.')[0]}: {remedy}")


def paramiko() -> Any:
    """Return the package that speaks SFTP."""
    __tracebackhide__ = True
    return pytest.importorskip("paramiko", reason="no paramiko: make test EXTRAS=dev")


def sshd() -> str:
    __tracebackhide__ = True
    for place in ("/usr/sbin/sshd", "/usr/local/sbin/sshd"):
        if Path(place).exists():
            return place
    skip("sshd", "install the package openssh-server")


def distributed() -> Any:
    """Return dask's package for clusters."""
    __tracebackhide__ = True
    return pytest.importorskip("distributed", reason="no distributed: make test EXTRAS=dev")


def program(name: str, package: str | None = None) -> str:
    """Return the path of a program of the system."""
    __tracebackhide__ = True
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"  # where servers are
    return shutil.which(name, path=path) or skip(name, f"install the package {package or name}")


def chromium() -> str:
    __tracebackhide__ = True
    for name in ("chromium", "google-chrome"):
        if path := shutil.which(name):
            return path
    skip("Chromium", "install the package chromium")


def anvil() -> Path:
    __tracebackhide__ = True
    for path in Path(sys.prefix).glob("anvil/node_modules/@foundry-rs/anvil-*/bin/anvil"):
        return path
    skip("anvil", "install npm, and make anvil")


def axe() -> Path:
    __tracebackhide__ = True
    path = Path(sys.prefix, "axe", "node_modules", "axe-core", "axe.min.js")
    if not path.exists():
        skip("axe-core", "install npm, and make axe")
    return path


@contextmanager
def postgres() -> Iterator[Server]:
    """Run a server of PostgreSQL until the end of the context."""
    if not installed():
        skip("PostgreSQL", "install the package postgresql")
    folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
    release = end_with_tests(folder=folder)
    server = Server(folder)
    try:
        yield server
    finally:
        server.remove()
        release()


@contextmanager
def database(server: Server, name: str) -> Iterator[str]:
    """Yield the address of an empty database, which is dropped also where the test fails."""
    address = server.make(name)
    try:
        yield address
    finally:
        server.drop(name)
