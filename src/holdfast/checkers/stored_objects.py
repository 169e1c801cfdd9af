"""Objects that are only read: the files of a folder, or what an fsspec address holds.

A read fails in one of three ways. The object is gone (GoneError), the storage itself says that its
bytes are lost (UnreadableError), or nobody can tell, because the storage is away or lets nobody in
(UnreachableError).
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import local
from typing import Any, Protocol, TypeVar

from holdfast.errors import InputError, StorageError, UnreachableError
from holdfast.processes import cores
from holdfast.remote_systems import gives_ranges, lists_all, open_system

T = TypeVar("T")

LOCAL_PIECE_BYTES = 1 << 20
REMOTE_PIECE_BYTES = 8 << 20
REMOTE_THREADS = 16
SFTP_THREADS = 4  # each with a connection of its own
UNKNOWN = -1  # the size of an object, where a storage does not tell it
_NO_FILE = {errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR}  # links to nothing too
_LOST = {errno.EIO, errno.EBADMSG, errno.EUCLEAN, errno.EILSEQ}  # what a bad sector gives


class GoneError(StorageError):
    """There is no such object any more."""


class UnreadableError(StorageError):
    """The storage says that it can't read the bytes of an object."""


class StoredObjects(Protocol):
    @property
    def address(self) -> str: ...

    @property
    def threads(self) -> int:
        """How many objects are best read side by side."""
        ...

    def list_sizes(self) -> dict[str, int]:
        """Return the size of every object, by its name below the address; UNKNOWN is one, too."""
        ...

    def size(self, name: str) -> int: ...

    def pieces(self, name: str, size: int) -> Iterator[bytes | memoryview]:
        """Yield the bytes of an object; a piece is valid until the next one."""
        ...

    def requests(self, size: int) -> int:
        """Return how many requests it takes to read an object of that size."""
        ...

    def check_answers(self, name: str) -> None:
        """Raise UnreachableError if what the storage gives out is no part of the object."""


def open_objects(address: str) -> StoredObjects:
    path = address.removeprefix("file://")
    return Remote(address) if "://" in path else Folder(path)


class Folder:
    """Files of this machine."""

    def __init__(self, path: str) -> None:
        self.address = path
        self.threads = len(cores())

    def list_sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        prefixes = [""]
        while prefixes:
            self._list_one(prefixes, sizes)
        return sizes

    def _list_one(self, prefixes: list[str], sizes: dict[str, int]) -> None:
        """List one folder of those that are left; folders in it are added to them."""
        prefix = prefixes.pop()
        folder = Path(self.address, prefix)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    name = f"{prefix}/{entry.name}" if prefix else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        prefixes.append(name)
                    elif (size := _entry_size(entry)) is not None:
                        sizes[name] = size
        except PermissionError as error:
            raise InputError(f"can't list {folder}: we may not read it") from error
        except OSError as error:
            if prefix and error.errno in _NO_FILE:  # removed a moment ago
                return
            raise UnreachableError(f"can't list {folder}: {error.strerror}") from error

    def size(self, name: str) -> int:
        try:
            status = Path(self.address, name).stat()
        except OSError as error:
            raise self._failed(name, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise GoneError(f"{self.address}/{name} is no file")
        return status.st_size

    def pieces(self, name: str, size: int) -> Iterator[memoryview]:  # noqa: ARG002 - all is read
        buffer = memoryview(bytearray(LOCAL_PIECE_BYTES))
        try:
            # A named pipe without a writer would keep us waiting here for ever.
            handle = os.open(Path(self.address, name), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(handle, "rb", buffering=0) as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise GoneError(f"{self.address}/{name} is no file")
                while length := file.readinto(buffer):
                    yield buffer[:length]
        except OSError as error:
            raise self._failed(name, error) from error

    def requests(self, size: int) -> int:  # noqa: ARG002 - one file is opened
        return 1

    def check_answers(self, name: str) -> None:
        pass

    def _failed(self, name: str, error: OSError) -> Exception:
        said = f"can't read {self.address}/{name}: {error.strerror}"
        if error.errno in _NO_FILE:
            return GoneError(said)
        return UnreadableError(said) if error.errno in _LOST else UnreachableError(said)


class Remote:
    """Objects behind an fsspec address, such as s3://bucket/prefix."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._threads = local()
        self._shared, root = self._open()
        self._root = root.rstrip("/")
        self.threads = SFTP_THREADS if hasattr(self._shared, "ftp") else REMOTE_THREADS

    def list_sizes(self) -> dict[str, int]:
        try:
            leaves_out = not self._shared.async_impl and not lists_all(self._shared)
            strictly = {"on_error": "raise"} if leaves_out else {}
            entries = self._shared.find(self._root or "/", detail=True, **strictly)
        except FileNotFoundError as error:
            raise UnreachableError(f"can't list {self.address}: there is no such place") from error
        except PermissionError as error:
            raise InputError(f"can't list {self.address}: we may not read it: {error}") from error
        except Exception as error:  # fsspec's back ends raise whatever their libraries do
            raise UnreachableError(f"can't list {self.address}: {_said(error)}") from error
        start = len(self._root.strip("/")) + 1 if self._root.strip("/") else 0
        return {
            name.strip("/")[start:]: _size(entry)
            for name, entry in entries.items()
            if entry["type"] == "file" and not name.endswith("/")
        }

    def size(self, name: str) -> int:
        entry = self._call(name, lambda system, path: system.info(path))
        if entry["type"] == "directory":
            raise GoneError(f"{self.address}/{name} is no file")
        return _size(entry)

    def pieces(self, name: str, size: int) -> Iterator[bytes]:
        if size == UNKNOWN:
            yield self._call(name, lambda system, path: system.cat_file(path))
        for start in range(0, size, REMOTE_PIECE_BYTES):
            end = min(start + REMOTE_PIECE_BYTES, size)
            piece = self._read_range(name, start, end)
            yield piece
            if start == 0 and len(piece) == size:
                return  # a server may give all of it, whatever it is asked for
            if len(piece) > end - start:
                raise UnreachableError(f"{self.address} gives no ranges of {name}")

    def _read_range(self, name: str, start: int, end: int) -> bytes:
        piece: bytes = self._call(
            name, lambda system, path: system.cat_file(path, start=start, end=end)
        )
        return piece

    def requests(self, size: int) -> int:
        return max(1, -(-size // REMOTE_PIECE_BYTES))

    def check_answers(self, name: str) -> None:
        def ask(system: Any, path: str) -> bool:
            def call(method: str, *args: Any, **options: Any) -> Any:
                return getattr(system, method)(*args, **options)

            return gives_ranges(system, path, call)

        if not self._call(name, ask):
            raise UnreachableError(f"{self.address} answers with what is no part of {name}")

    def _call(self, name: str, ask: Callable[[Any, str], T]) -> T:
        system = self._system()
        try:
            return ask(system, f"{self._root}/{name}")
        except FileNotFoundError as error:
            raise GoneError(f"{self.address}/{name} is gone") from error
        except Exception as error:
            raise UnreachableError(f"can't read {self.address}/{name}: {_said(error)}") from error

    def _system(self) -> Any:
        """Return the file system for this thread: connections that block have only one user."""
        if self._shared.async_impl:
            return self._shared
        if not _is_connected(getattr(self._threads, "system", None)):
            self._threads.system, _ = self._open()
        return self._threads.system

    def _open(self) -> tuple[Any, str]:
        try:  # fsspec makes a file system for each thread
            return open_system(self.address)
        except (ImportError, ValueError) as error:
            raise InputError(f"can't use {self.address}: {_said(error)}") from error
        except Exception as error:
            raise UnreachableError(f"can't reach {self.address}: {_said(error)}") from error


def _is_connected(system: Any) -> bool:
    """Return whether a file system can be used; a connection of SFTP may have ended."""
    if system is None or not hasattr(system, "ftp"):
        return system is not None
    transport = system.client.get_transport()
    return transport is not None and transport.is_active()


def _entry_size(entry: os.DirEntry[str]) -> int | None:
    """Return the size of a file in a folder, or nothing if it is none; a link counts as its end."""
    try:
        return entry.stat().st_size if entry.is_file() else None
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        if error.errno in _LOST:
            return UNKNOWN
        raise


def _size(entry: dict[str, Any]) -> int:
    return UNKNOWN if entry["size"] is None else int(entry["size"])


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
