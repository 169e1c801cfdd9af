"""`holdfast demo` as users run it: to its end, without a chain, and interrupted."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Finished, end

COMMAND = "from holdfast.cli import main; main()"
# As after an installation without extras.
WITHOUT_EXTRAS = "import sys; sys.modules |= dict.fromkeys(('web3', 'eth_tester', 'jax', 'torch'));"


def start(folder: Path, *arguments: str, before: str = "") -> subprocess.Popen[str]:
    """Start the demo; whatever it leaves behind would lie in the folder, or be named after it."""
    return subprocess.Popen(
        [sys.executable, "-c", f"{before}{COMMAND}", "demo", *arguments],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left_over(folder: Path) -> tuple[list[Path], list[bytes]]:
    """Return the files in the folder, and the processes that have its name in their command."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:  # it has ended
            continue
    return list(folder.iterdir()), [line for line in lines if bytes(folder) in line]


def checked(finished: Finished, ledger: str) -> Any:
    """Return what the demo told, which must be what it promises."""
    assert finished.code == 0, finished
    told = finished.data
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


@pytest.mark.slow
def test_all_harm_is_detected_and_the_evidence_verifies_on_a_chain(tmp_path: Path) -> None:
    finished = end(start(tmp_path, "--seconds", "5", "--json"))
    told = checked(finished, "evm")
    assert told["evidence"]["anchors"] >= 1
    assert "its power is cut" in finished.stderr
    assert left_over(tmp_path) == ([], [])


@pytest.mark.slow
def test_without_extras_the_local_ledger_judges_and_the_demo_says_so(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    line = ("--seconds", "5", "--json", "--folder", str(kept))
    finished = end(start(tmp_path, *line, before=WITHOUT_EXTRAS))
    checked(finished, "local")
    assert finished.stderr.count("the local ledger, which is no chain") == 1
    assert left_over(tmp_path) == ([kept], [])
    assert "exists already" in end(start(tmp_path, *line)).sentence()


def begun(folder: Path) -> subprocess.Popen[str]:
    process = start(folder, "--json", before=WITHOUT_EXTRAS)
    assert process.stderr is not None
    for line in process.stderr:
        if "dashboard" in line:
            break
    assert len(left_over(folder)[1]) == 5
    return process


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nodes outlive whoever is killed")
def test_killed_it_takes_its_nodes_along(tmp_path: Path) -> None:
    process = begun(tmp_path)
    process.kill()
    end(process)
    patience = time.monotonic() + 30
    while left_over(tmp_path)[1]:
        assert time.monotonic() < patience
        time.sleep(0.1)


@pytest.mark.slow
def test_interrupted_it_leaves_nothing_behind(tmp_path: Path) -> None:
    process = begun(tmp_path)
    process.send_signal(signal.SIGINT)
    finished = end(process)
    assert finished.code == 130, finished
    assert not finished.stdout
    assert left_over(tmp_path) == ([], [])
