"""Byte ranges of many objects behind fsspec, asked for side by side and within the caller's time.

What is still asked for when the time is over is cancelled.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from threading import local
from typing import Any, NamedTuple, Protocol, TypeVar

from holdfast.node.daemon_pool import STALL_SECONDS, DaemonPool
from holdfast.node.time_limit import seconds_left
from holdfast.remote_systems import REQUESTS_AT_ONCE

R = TypeVar("R")

THREADS = 16  # where they do
CONNECTIONS = 4  # of SFTP, each of which carries many requests
LONG_CALLS = {"find", "put_file", "pipe_file", "rm"}
MAX_LONG_CALL_SECONDS = 24 * 3600.0


class ObjectRange(NamedTuple):
    """Bytes of one object, from `start` up to `stop`."""

    path: str
    start: int
    stop: int


class RangeError(Exception):
    """A range could not be read; its cause is whatever the back end raised."""

    def __init__(self, wanted: ObjectRange) -> None:
        super().__init__(wanted.path)
        self.wanted = wanted


class Fetcher(Protocol):
    """Asks a storage for things side by side, within the time that the caller has."""

    at_once: int

    def fetch(self, ranges: Sequence[ObjectRange]) -> list[bytes]:
        """Return these ranges, or raise `RangeError` or `TimeoutError`."""

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        """Return what a method of the file system returns; what it raises is passed on."""


def fetcher_of(system: Any, reopen: Callable[[], Any]) -> Fetcher:
    """Return the fetcher for a file system of fsspec; `reopen` returns one for another thread."""
    if getattr(system, "async_impl", False):
        return AsyncFetcher(system)
    if hasattr(system, "ftp"):
        return SftpFetcher(reopen)
    return ThreadFetcher(system)


class AsyncFetcher:
    """Asks by coroutines, which are cancelled when the time is over."""

    at_once = REQUESTS_AT_ONCE

    def __init__(self, system: Any) -> None:
        self._system = system
        self._slots = asyncio.Semaphore(self.at_once)  # for all threads together

    def fetch(self, ranges: Sequence[ObjectRange]) -> list[bytes]:
        return self._run(lambda: self._gather(ranges), STALL_SECONDS)

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        method = getattr(self._system, f"_{name}")
        limit = MAX_LONG_CALL_SECONDS if name in LONG_CALLS else STALL_SECONDS
        return self._run(lambda: method(*args, **options), limit)

    async def _gather(self, ranges: Sequence[ObjectRange]) -> list[bytes]:
        async def fetch(wanted: ObjectRange) -> bytes:
            path, start, stop = wanted
            try:
                async with self._slots:
                    # The name that fsspec gives it.
                    return bytes(await self._system._cat_file(path, start=start, end=stop))  # noqa: SLF001
            except Exception as error:
                raise RangeError(wanted) from error

        tasks = [asyncio.ensure_future(fetch(wanted)) for wanted in ranges]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    def _run(self, begin: Callable[[], Awaitable[R]], limit_seconds: float) -> R:
        async def run() -> R:
            return await begin()

        future = asyncio.run_coroutine_threadsafe(run(), self._system.loop)
        try:
            return future.result(min(seconds_left(), limit_seconds))
        finally:
            future.cancel()


class ThreadFetcher:
    """Asks in threads, one request each."""

    at_once = THREADS

    def __init__(self, system: Any) -> None:
        self._system = system
        self._pool = DaemonPool(self.at_once)

    def fetch(self, ranges: Sequence[ObjectRange]) -> list[bytes]:
        return self._pool.map(self._fetch, ranges)

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        return self._pool.call(lambda: getattr(self._system, name)(*args, **options))

    def _fetch(self, wanted: ObjectRange) -> bytes:
        path, start, stop = wanted
        try:
            return bytes(self._system.cat_file(path, start=start, end=stop))
        except Exception as error:
            raise RangeError(wanted) from error


class SftpFetcher:
    """Asks over a few connections of SFTP, and for all ranges of an object at once."""

    at_once = CONNECTIONS

    def __init__(self, reopen: Callable[[], Any]) -> None:
        self._reopen = reopen
        self._pool = DaemonPool(self.at_once)
        self._thread = local()  # a connection must not be used by two threads

    def fetch(self, ranges: Sequence[ObjectRange]) -> list[bytes]:
        by_path: dict[str, list[int]] = {}
        for index, wanted in enumerate(ranges):
            by_path.setdefault(wanted.path, []).append(index)

        def fetch(path: str) -> list[bytes]:
            return self._read(path, [ranges[index] for index in by_path[path]])

        parts: list[bytes] = [b""] * len(ranges)
        for indices, contents in zip(by_path.values(), self._pool.map(fetch, by_path), strict=True):
            for index, content in zip(indices, contents, strict=True):
                parts[index] = content
        return parts

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        return self._pool.call(lambda: getattr(self._connected(), name)(*args, **options))

    def _connected(self) -> Any:
        system = getattr(self._thread, "system", None)
        transport = system and system.client.get_transport()
        if transport is None or not transport.is_active():
            system = self._thread.system = self._reopen()
        return system

    def _read(self, path: str, ranges: Sequence[ObjectRange]) -> list[bytes]:
        try:
            with self._connected().ftp.open(path, "rb") as file:
                chunks = [(wanted.start, wanted.stop - wanted.start) for wanted in ranges]
                return [bytes(part) for part in file.readv(chunks)]
        except Exception as error:
            raise RangeError(ranges[0]) from error
