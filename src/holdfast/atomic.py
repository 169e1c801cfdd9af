"""Files that appear whole or not at all, whatever interrupts their writing."""

import errno
import fcntl
import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom
from pathlib import Path

from holdfast.errors import InputError, StorageError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
MAX_DRAFT_NAME_BYTES = 200  # of the file's own name, in the name of its draft
PRIVATE, PRIVATE_FOLDER = 0o600, 0o700  # modes of what only its owner may read


@contextmanager
def replacing(
    path: Path,
    *,
    mode: int = 0o666,
    overwrite: bool = True,
    drafts: Path | None = None,
    sync_folder: bool = True,
) -> Iterator[Path]:
    """Yield a fresh path beside `path`; it takes the name `path` only if the block succeeds.

    `mode` is subject to the umask. Without `overwrite` an existing `path` is left as it is and
    `InputError` is raised, even if it appears while the block runs. `drafts` is another directory
    of the same file system for what is unfinished. Without `sync_folder` a loss of power may undo
    the new name, but never leaves half a file under it.
    """
    check_output(path, overwrite=overwrite)
    draft = (drafts or path.parent) / f".{path.name}.{secrets.token_hex(4)}.part"
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        yield draft
        sync(draft)
        if overwrite:
            draft.replace(path)
        else:
            _link(draft, path)
        if sync_folder:
            sync(path.parent)
    except OSError as error:
        raise StorageError(f"can't write {path}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def resuming(path: Path, mark: str) -> Iterator[BufferedRandom]:
    """Yield the draft of a new file, with what it got before something interrupted its writing.

    It takes the name `path` if the block succeeds; else it stays for the next attempt. The mark
    tells drafts of different contents apart.
    """
    check_output(path, overwrite=False)
    draft = path.parent / f".{_shortened(path.name)}.{mark}.part"
    try:
        with open(draft, "r+b", opener=_open_or_create) as file:
            status = os.fstat(file.fileno())
            if (status.st_uid, status.st_nlink) != (os.geteuid(), 1):
                raise InputError(f"{draft} is not ours alone: remove it, or name another output")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(f"another process is writing {path}: wait for it") from error
            check_output(path, overwrite=False)  # it may have been written until a moment ago
            yield file
            file.flush()
            os.fsync(file.fileno())
            _link(draft, path)
            draft.unlink()
        sync(path.parent)
    except OSError as error:
        raise StorageError(f"can't write {path}: {error.strerror}") from error


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether an error, or what caused it, is that a disk has no space left."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__
    return False


def check_output(path: Path, *, overwrite: bool = True) -> None:
    """Raise if a file can't come to stand at `path`; ask before long work, not after it."""
    if not path.name or path.is_dir():
        raise InputError(f"can't write {path}: it is a directory, name a file")
    if not path.parent.is_dir():
        raise InputError(f"can't write {path}: there is no directory {path.parent}")
    if not overwrite and path.exists():
        raise InputError(f"{path} exists already: choose another name or move it away")


def sweep(path: Path) -> None:
    """Remove drafts of `path` that a killed process left; call it while no other can write it."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.????????.part"):
        draft.unlink(missing_ok=True)


def write(
    path: Path,
    content: bytes | bytearray,
    *,
    mode: int = 0o666,
    overwrite: bool = True,
    drafts: Path | None = None,
) -> None:
    with replacing(path, mode=mode, overwrite=overwrite, drafts=drafts) as draft:
        draft.write_bytes(content)


def make_directory(path: Path, *, mode: int = 0o777) -> None:
    """Make a directory and those above it, so that they outlast a loss of power."""
    if path.is_dir():
        return
    make_directory(path.parent, mode=mode)
    try:
        path.mkdir(mode=mode, exist_ok=True)
        sync(path.parent)
    except OSError as error:
        raise StorageError(f"can't make the directory {path}: {error.strerror}") from error


def private(path: str, flags: int) -> int:
    """Open a file, as an `opener`; one that it makes is its owner's alone."""
    return os.open(path, flags, PRIVATE)


def make_private(path: Path) -> None:
    """Make an empty file that only its owner may read, unless there is one.

    SQLite gives its -wal and -shm files the mode of the database, and would make that for everyone.
    A file that is there is not even opened: closing it would drop the locks that SQLite holds on it
    in this process.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))


def read(path: Path, *, at_most: int) -> bytes:
    """Return the whole content, refusing to load what is larger than such a file can be."""
    try:
        with path.open("rb") as file:
            content = file.read(at_most + 1)
    except OSError as error:
        raise InputError(f"can't read {path}: {error.strerror}") from error
    if len(content) > at_most:
        raise InputError(f"{path} is larger than the {at_most} bytes such a file may have")
    return content


def _shortened(name: str) -> str:
    """Return a file's name, without its end if nothing could be added to it."""
    return os.fsdecode(os.fsencode(name)[:MAX_DRAFT_NAME_BYTES])


def _open_or_create(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o666)


def _link(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError as error:
        raise InputError(f"{path} appeared meanwhile: choose another name") from error


def sync(path: Path) -> None:
    """Make sure that a file's content, or the names in a folder, outlast a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
