"""`holdfast demo` as users run it: to its end, without a chain, and interrupted."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import Finished, end
from tests.support.processes import running

COMMAND = "from holdfast.cli import main; main()"
# As after an installation without extras.
WITHOUT_EXTRAS = "import sys; sys.modules |= dict.fromkeys(('web3', 'eth_tester', 'jax', 'torch'));"


def start(
    folder: Path, *arguments: str, before: str = ""
) -> AbstractContextManager[subprocess.Popen[str]]:
    """Run the demo; whatever it leaves behind would lie in the folder, or be named after it."""
    return running(
        [sys.executable, "-c", f"{before}{COMMAND}", "demo", *arguments],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finished(folder: Path, *arguments: str, before: str = "") -> Finished:
    with start(folder, *arguments, before=before) as process:
        return end(process)


def left_over(folder: Path) -> tuple[list[Path], list[bytes]]:
    """Return the files in the folder, and the processes that have its name in their command."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:  # it has ended
            continue
    return list(folder.iterdir()), [line for line in lines if bytes(folder) in line]


def checked(ran: Finished, ledger: str) -> Any:
    """Return what the demo told, which must be what it promises."""
    assert ran.code == 0, ran
    told = ran.data
    assert told["ledger"] == ledger
    assert {harm["kind"] for harm in told["harms"]} == {"slow rot", "silent dropper", "outage"}
    for harm in told["harms"]:
        assert harm["detected"] >= harm["day"]
        assert harm["only_damaged"]
        assert bool(harm["localised"]) == bool(harm["blocks"])
    assert told["evidence"]["fine"]
    assert told["evidence"]["audits"] == told["spent"]["audits"] == sum(told["outcomes"].values())
    assert 0 < told["spent"]["gas"] < told["fixed_high"]["gas"]
    return told


@pytest.mark.slow(seconds=20)
def test_all_harm_is_detected_and_the_evidence_verifies_on_a_chain(tmp_path: Path) -> None:
    ran = finished(tmp_path, "--seconds", "5", "--json")
    told = checked(ran, "evm")
    assert told["evidence"]["anchors"] >= 1
    assert "its power is cut" in ran.stderr
    assert left_over(tmp_path) == ([], [])


@pytest.mark.slow(seconds=10)
def test_without_extras_the_local_ledger_judges_and_the_demo_says_so(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    line = ("--seconds", "5", "--json", "--folder", str(kept))
    ran = finished(tmp_path, *line, before=WITHOUT_EXTRAS)
    checked(ran, "local")
    assert ran.stderr.count("the local ledger, which is no chain") == 1
    assert left_over(tmp_path) == ([kept], [])
    assert "exists already" in finished(tmp_path, *line).sentence()


@contextmanager
def begun(folder: Path) -> Iterator[subprocess.Popen[str]]:
    with start(folder, "--json", before=WITHOUT_EXTRAS) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "dashboard" in line:
                break
        assert len(left_over(folder)[1]) == 5
        yield process


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nodes outlive whoever is killed")
def test_killed_it_takes_its_nodes_along(tmp_path: Path) -> None:
    with begun(tmp_path) as process:
        process.kill()
        end(process)
    patience = time.monotonic() + 30
    while left_over(tmp_path)[1]:
        assert time.monotonic() < patience
        time.sleep(0.1)


@pytest.mark.slow
def test_interrupted_it_leaves_nothing_behind(tmp_path: Path) -> None:
    with begun(tmp_path) as process:
        process.send_signal(signal.SIGINT)
        stopped = end(process)
    assert stopped.code == 130, stopped
    assert not stopped.stdout
    assert left_over(tmp_path) == ([], [])
