"""Jobs that leave files in a folder, run by an executor whose workers may lack our disk."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from holdfast import atomic
from holdfast.errors import InputError
from holdfast.executor import LocalExecutor, sweep

R = TypeVar("R")

Files = dict[str, bytes]


@dataclass(frozen=True)
class FolderJob(Generic[R]):
    """A job that leaves files in a folder and resumes from them; `last` is written when it ends."""

    work: Callable[[Path], R]
    folder: Path
    last: str


def sweep_folders(
    executor: Executor | None,
    jobs: Sequence[FolderJob[R]],
    on_progress: Callable[[FolderJob[R], Any], None],
) -> Iterator[tuple[FolderJob[R], Future[R]]]:
    """Run the jobs in their folders, as `sweep` does.

    An executor other than ours may run them on another machine. There a job works in a temporary
    folder: it is given the files of its own folder, and its files come back here when it ends.
    """
    if executor is None or isinstance(executor, LocalExecutor):
        yield from sweep(executor, _run_here, jobs, on_progress)
        return
    packed = {_Packed(job.work, _read_files(job.folder)): job for job in jobs}
    for moved, future in sweep(executor, _run_in_temporary_folder, list(packed)):
        job, ended = packed[moved], Future[R]()
        try:
            result, files = future.result()
            _write_files(job, moved.files, files)
            ended.set_result(result)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - the future tells it
            ended.set_exception(error)
        yield job, ended


@dataclass(frozen=True, eq=False)
class _Packed(Generic[R]):
    work: Callable[[Path], R]
    files: Files


def _run_here(job: FolderJob[R]) -> R:
    return job.work(job.folder)


def _run_in_temporary_folder(job: _Packed[R]) -> tuple[R, Files]:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as name:
        folder = Path(name, "job")
        for path, content in job.files.items():
            _write_file(folder / path, content)
        return job.work(folder), _read_files(folder)


def _read_files(folder: Path) -> Files:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _write_files(job: FolderJob[Any], before: Files, after: Files) -> None:
    for path in sorted(after, key=lambda path: (path == job.last, path)):
        if not (job.folder / path).resolve().is_relative_to(job.folder.resolve()):
            raise InputError(f"a worker returned a file outside of its folder: {path}")
        _write_file(job.folder / path, after[path])
    for path in before.keys() - after.keys():
        (job.folder / path).unlink(missing_ok=True)


def _write_file(path: Path, content: bytes) -> None:
    atomic.make_directory(path.parent)
    atomic.write(path, content)
