"""Rules for all tests: nothing is skipped where the whole machine is promised."""

import logging
import os
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from tests.support import parts
from tests.support.command_line import QuickShell, Shell
from tests.support.processes import end_with_tests, restore_interrupts

from holdfast.bench.postgres import Server

restore_interrupts()

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does, before NumPy loads
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # PyTorch's threads wait without a core
# Compiling takes JAX longer than all else in its tests, so they and the processes they start share
# what was compiled once, and optimise it little.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="holdfast-tests-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    end_with_tests(folder=Path(os.environ["JAX_COMPILATION_CACHE_DIR"]))

# The log handler of absl, which JAX's libraries install, closes the stream that it was made with
# when uvicorn configures logging. In tests that is pytest's own capture.
with suppress(ImportError):
    from absl.logging import PythonHandler

    setattr(PythonHandler, "close", logging.StreamHandler.close)  # noqa: B010

if os.environ.get("HOLDFAST_NO_SKIPS"):
    # A change is judged by the same examples each time, none of them too slow; `make test` without
    # that draws new ones.
    settings.load_profile("ci")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
    call: pytest.CallInfo[None],  # noqa: ARG001 - pytest calls by name
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if os.environ.get("HOLDFAST_NO_SKIPS") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped under HOLDFAST_NO_SKIPS: {item.nodeid}: {report.longrepr}"
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that all workers end at about the same time."""
    seconds: Counter[Path] = Counter()
    for item in items:
        marks = [mark.kwargs.get("seconds", 1) for mark in item.iter_markers("slow")]
        seconds[item.path] += max(marks, default=0)
    items.sort(key=lambda item: -seconds[item.path])


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with parts.postgres() as server:
        yield server


@pytest.fixture(scope="session")
def addresses(postgres: Server) -> Iterator[str]:
    """Yield the address of one empty schema after another, in one database."""
    address = postgres.make("schemas")
    return (f"{address}&schema=home{number}" for number in count())


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return a shell in an empty directory, with the owner's home below it."""
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    return QuickShell(tmp_path)
