"""Rules for all tests: nothing is skipped where the whole machine is promised."""

import os
from collections.abc import Generator

import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does, before NumPy loads


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
