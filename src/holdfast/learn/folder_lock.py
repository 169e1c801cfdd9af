"""A lock on a folder, so that no two processes train in it at once.

The kernel releases the lock of a process that dies. The lock's file is removed in the end, so that
a folder holds nothing but results.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from holdfast import atomic
from holdfast.errors import ConflictError, StorageError

TRAINING = ".training.lock"


@contextmanager
def hold_folder(folder: Path, name: str = TRAINING) -> Iterator[None]:
    """Make the folder and hold its lock; raise `ConflictError` if another process has it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"can't make the folder {folder}: {error.strerror}") from error
    path = folder / name
    with _lock(path):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # while it is locked: see `_lock`


def _lock(path: Path) -> IO[Any]:
    while True:
        try:
            file = open(path, "ab", opener=atomic.private)  # noqa: SIM115 - it is returned
        except OSError as error:
            raise StorageError(f"can't lock {path.parent}: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise ConflictError(
                f"another process is training in {path.parent}: wait until it ends, or choose"
                " another folder"
            ) from None
        # The one who held the lock may have removed the file after it was opened here.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()
