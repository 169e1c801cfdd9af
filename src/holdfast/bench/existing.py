"""What audits of existing storage cost, against the tools themselves, in one run.

`restic_over_bare` and `borg_over_bare` are checks of everything as the service runs them, over the
bare call of the tool; read them where that call takes more than five seconds. `names_over_restic`
hashes all packs and compares them with their names, over restic's own reading of all data. The
rest is about direct holdings, on an object store on loopback. What a missing tool can't measure is
left out, with a word.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.bench.clock import Work
from holdfast.bench.direct import measure_direct
from holdfast.checkers.interface import Finding, Place, Running, Sample
from holdfast.checkers.registry import open_checker
from holdfast.errors import StorageError
from holdfast.model.detection import samples_for

FILE_BYTES = 8 << 20
DAMAGED_SHARE, CONFIDENCE = 0.01, 0.99
CHECK_SECONDS = 24 * 3600.0
POLL_SECONDS = 0.05
SECRET = "benchmark"  # noqa: S105 - of a repository that lasts as long as the benchmark

Say = Callable[[str], None]


def measure(
    *, size: int = 3 << 30, direct_size: int = 256 << 20, rounds: int = 3, say: Say
) -> dict[str, Any]:
    """Return the ratios, and in `left_out` what could not be measured and why."""
    figures: dict[str, Any] = {"bytes": size}
    left_out: dict[str, str] = {}
    direct = measure_direct(size=direct_size, rounds=rounds, say=say)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        tools = {tool: shutil.which(tool) for tool in ("restic", "borg")}
        if any(tools.values()):
            say(f"writing {size >> 20} MiB into {folder}")
            _write_source(folder / "source", size)
        for tool, measure_tool in (("restic", _measure_restic), ("borg", _measure_borg)):
            path = tools[tool]
            if path is None:
                left_out[tool] = "it is not installed"
            else:
                figures |= measure_tool(path, folder, rounds, say)
    if "restic_subset_bytes" in figures:
        ratio = direct["direct_bytes"] / figures["restic_subset_bytes"]
        direct["direct_over_restic_bytes"] = ratio
    return figures | direct | {"left_out": left_out}


@dataclass(frozen=True)
class _Repository:
    """A repository in the folder of the benchmark, and how its tool is called."""

    program: str
    path: Path
    variables: Mapping[str, str]

    def call(self, *arguments: str) -> None:
        ended = subprocess.run(  # noqa: S603 - a program that the operator has installed
            [self.program, *arguments],
            env={**os.environ, **self.variables},
            capture_output=True,
            check=False,
        )
        if ended.returncode:
            words = ended.stderr.decode(errors="replace").strip()[-500:]
            raise StorageError(f"{self.program} {arguments[0]} failed: {words}")


def _measure_restic(program: str, folder: Path, rounds: int, say: Say) -> dict[str, Any]:
    password = folder / "password"
    password.write_text(SECRET)
    path = folder / "restic"
    variables = {
        "RESTIC_REPOSITORY": str(path),
        "RESTIC_PASSWORD_FILE": str(password),
        "RESTIC_CACHE_DIR": str(folder / "cache"),
    }
    repository = _Repository(program, path, variables)
    say("making a restic repository")
    repository.call("init")
    repository.call("backup", str(folder / "source"))
    say("checking it by restic, by a driven restic, and by the names of its packs")
    options = {"password-file": str(password)}
    packs = _count_packs(path)
    times = _alternate(
        {
            "bare": lambda: repository.call("check", "--read-data", "--no-lock"),
            "driven": lambda: _check("restic", path, options, folder / "driven"),
            "names": lambda: _check("names", path, {"names": "sha256"}, folder / "names"),
        },
        rounds,
    )
    shutil.rmtree(path)
    drawn = samples_for(CONFIDENCE, max(1, round(DAMAGED_SHARE * len(packs))), len(packs))
    return {
        "restic_bare_s": times["bare"],
        "restic_over_bare": times["driven"] / times["bare"],
        "names_over_restic": times["names"] / times["bare"],
        "restic_packs": len(packs),
        "restic_subset_bytes": drawn * sum(packs) // len(packs),
    }


def _measure_borg(program: str, folder: Path, rounds: int, say: Say) -> dict[str, Any]:
    path = folder / "borg"
    variables = {"BORG_BASE_DIR": str(folder / "base"), "BORG_PASSPHRASE": SECRET}
    repository = _Repository(program, path, variables)
    say("making a borg repository")
    repository.call("init", "--encryption=repokey", str(path))
    repository.call("create", "--compression=none", f"{path}::first", str(folder / "source"))
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


def _count_packs(repository: Path) -> list[int]:
    """Return the sizes of all packs."""
    return [file.stat().st_size for file in (repository / "data").glob("*/*")]


def _write_source(folder: Path, size: int) -> None:
    folder.mkdir()
    rng = np.random.default_rng(1)
    for number, start in enumerate(range(0, size, FILE_BYTES)):
        (folder / f"{number:05}").write_bytes(rng.bytes(min(FILE_BYTES, size - start)))
