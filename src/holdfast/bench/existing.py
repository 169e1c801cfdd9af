"""What audits of existing storage cost, against the tools themselves, in one run.

`restic_over_bare` and `borg_over_bare` are checks of everything as the service runs them, over the
bare call of the tool; read them where that call takes more than five seconds. borg's
chunks are small, as those of many small files: of large ones it checks gigabytes in a second.
`names_over_restic` hashes all packs and compares them with their names, over restic's own reading
of all data. The rest is about direct holdings, on an object store on loopback, and about what it
takes to find lost packs. What a missing tool can't measure is left out, with a word.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.bench.clock import Work
from holdfast.bench.detection import measure_detection
from holdfast.bench.direct import measure_direct
from holdfast.bench.tool_repository import (
    SECRET,
    ToolRepository,
    restic_repository,
    write_source,
)
from holdfast.checkers.interface import Finding, Place, Running, Sample
from holdfast.checkers.registry import open_checker
from holdfast.errors import StorageError

CHECK_SECONDS = 24 * 3600.0
POLL_SECONDS = 0.05
BORG_CHUNK_BYTES = 1024

Say = Callable[[str], None]


def measure(
    *,
    size: int = 3 << 30,
    direct_size: int = 2 << 30,
    detection_size: int = 800 * 10**6,
    detection_runs: int = 300,
    rounds: int = 3,
    say: Say,
) -> dict[str, Any]:
    """Return the ratios, and in `left_out` what could not be measured and why."""
    figures: dict[str, Any] = {"bytes": size}
    left_out: dict[str, str] = {}
    figures |= measure_direct(size=direct_size, rounds=rounds, say=say)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        tools = {tool: shutil.which(tool) for tool in ("restic", "borg")}
        if any(tools.values()):
            say(f"writing {size >> 20} MiB into {folder}")
            write_source(folder / "source", size)
        for tool, measure_tool in (("restic", _measure_restic), ("borg", _measure_borg)):
            path = tools[tool]
            if path is None:
                left_out[tool] = "it is not installed"
            else:
                figures |= measure_tool(path, folder, rounds, say)
    if tools["restic"]:
        figures |= measure_detection(
            tools["restic"], size=detection_size, runs=detection_runs, say=say
        )
    return figures | {"left_out": left_out}


def _measure_restic(program: str, folder: Path, rounds: int, say: Say) -> dict[str, Any]:
    repository = restic_repository(program, folder)
    path = repository.path
    say("making a restic repository")
    repository.call("init")
    repository.call("backup", str(folder / "source"))
    say("checking it by restic, by a driven restic, and by the names of its packs")
    options = {"password-file": repository.variables["RESTIC_PASSWORD_FILE"]}
    times = _alternate(
        {
            "bare": lambda: repository.call("check", "--read-data", "--no-lock"),
            "driven": lambda: _check("restic", path, options, folder / "driven"),
            "names": lambda: _check("names", path, {"names": "sha256"}, folder / "names"),
        },
        rounds,
    )
    shutil.rmtree(path)
    return {
        "restic_bare_s": times["bare"],
        "restic_over_bare": times["driven"] / times["bare"],
        "names_over_restic": times["names"] / times["bare"],
    }


def _measure_borg(program: str, folder: Path, rounds: int, say: Say) -> dict[str, Any]:
    path = folder / "borg"
    variables = {"BORG_BASE_DIR": str(folder / "base"), "BORG_PASSPHRASE": SECRET}
    repository = ToolRepository(program, path, variables)
    say("making a borg repository")
    repository.call("init", "--encryption=repokey", str(path))
    options = ("--compression=none", "--chunker-params", f"fixed,{BORG_CHUNK_BYTES}")
    repository.call("create", *options, f"{path}::first", str(folder / "source"))
    say("checking it by borg, and by a driven borg")
    times = _alternate(
        {
            "bare": lambda: repository.call("check", "--repository-only", str(path)),
            "driven": lambda: _check("borg", path, {}, folder / "driven-borg"),
        },
        rounds,
    )
    shutil.rmtree(path)
    return {"borg_bare_s": times["bare"], "borg_over_bare": times["driven"] / times["bare"]}


def _check(kind: str, path: Path, options: Mapping[str, str], folder: Path) -> None:
    """Check all there is, as the service does: in a process of its own, which is polled."""
    checker = open_checker(kind, Place(str(path), options, folder))
    extent = checker.extent()
    groups = tuple(group.name for group in extent.groups)
    deadline = round(1000 * (time.time() + CHECK_SECONDS))
    pending = checker.start(Sample(os.urandom(16), extent.units, groups, deadline))
    try:
        while isinstance(report := checker.poll(pending), Running):
            time.sleep(POLL_SECONDS)
    finally:
        checker.cancel(pending)
    if report.finding is not Finding.INTACT or report.checked < extent.units:
        raise StorageError(f"a check by {kind} ended as {report.finding}: {report.reason}")


def _alternate(contenders: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """Return the median time of each; they take turns, so that a busy moment hits them alike."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, work in contenders.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(seconds)) for name, seconds in times.items()}
