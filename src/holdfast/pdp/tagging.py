"""Tags a whole file: streamed, in bounded memory, over several processes.

The tag file appears whole or not at all, and only after the journal has bound the version to it.
"""

import hashlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import wait
from pathlib import Path

from holdfast import atomic
from holdfast.errors import InputError, StorageError
from holdfast.pdp.blocks import run_of_blocks
from holdfast.pdp.journal import TagJournal
from holdfast.pdp.keys import SecretKey
from holdfast.pdp.limbs import RUN_ROWS
from holdfast.pdp.readers import Location, Reader
from holdfast.pdp.tagfile import PAGE_TAGS, TagHeader, encode_pages
from holdfast.pdp.tags import Tagger

CHUNK_BYTES = 4 << 20
MAX_AHEAD = 256  # chunks tagged before an earlier one is done: 70 MB of tags at S = 16
WORTH_PROCESSES = 32 << 20  # below this a process takes longer to start than to tag the file

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Chunk:
    start: int
    blocks: int


def chunks_of(header: TagHeader) -> Iterator[Chunk]:
    """Divide a file into chunks of whole runs or, where blocks are large, of whole pages."""
    most = CHUNK_BYTES // header.layout.block_bytes
    size = max(PAGE_TAGS, most - most % (RUN_ROWS if most > RUN_ROWS else PAGE_TAGS))
    for start in range(0, header.blocks, size):
        yield Chunk(start, min(size, header.blocks - start))


def available_processes() -> int:
    return len(os.sched_getaffinity(0))


def tag_file(
    source: Location,
    key: SecretKey,
    *,
    file_id: bytes,
    version: int,
    out: Path,
    journal: TagJournal,
    processes: int | None = None,
    progress: Progress = lambda _bytes: None,
) -> TagHeader:
    """Write the tags of `source` to `out`; `progress` is told how many bytes are done so far."""
    if processes is not None and processes < 1:
        raise InputError(f"processes must be at least 1, not {processes}")
    with source.open() as reader:
        length = reader.size()
        header = TagHeader(key.public.id, file_id, version, key.sectors, length)
        if processes is None:
            processes = available_processes() if length >= WORTH_PROCESSES else 1
        work = _Work(source, key, header)
        tagged = work.here(reader) if processes == 1 else work.spread(reader, processes)
        digest = hashlib.sha256()
        with atomic.replacing(out) as draft:
            with draft.open("wb") as file:
                file.write(header.encode())
                for chunk, pages in tagged:
                    digest.update(pages)
                    file.write(pages)
                    progress(min((chunk.start + chunk.blocks) * key.layout.block_bytes, length))
            if reader.size() != _size_now(source):
                raise StorageError(f"{source.address} changed while it was being tagged: try again")
            journal.bind(file_id, version, digest.digest())
    return header


def _size_now(source: Location) -> int:
    with source.open() as reader:
        return reader.size()


@dataclass(frozen=True)
class _Work:
    """All chunks of one file, tagged in order."""

    source: Location
    key: SecretKey
    header: TagHeader

    def here(self, reader: Reader) -> Iterator[tuple[Chunk, bytes]]:
        desk = Desk(reader, self.key, self.header)
        for chunk in chunks_of(self.header):
            yield chunk, desk.pages(chunk)

    def spread(self, reader: Reader, processes: int) -> Iterator[tuple[Chunk, bytes]]:
        """Tag with helpers, and here too: a helper takes a third of a second to start."""
        helpers = processes - 1
        pool = ProcessPoolExecutor(
            helpers,
            multiprocessing.get_context("spawn"),
            _start_worker,
            (self.source, self.key, self.header),
        )
        desk = Desk(reader, self.key, self.header)
        chunks = chunks_of(self.header)
        in_order: deque[tuple[Chunk, Future[bytes]]] = deque()
        try:
            while True:
                asked = sum(not future.done() for _, future in in_order)
                for chunk in islice(chunks, 2 * helpers - asked):
                    in_order.append((chunk, pool.submit(_work_on, chunk)))
                while in_order and in_order[0][1].done():
                    yield _result(*in_order.popleft())
                own = next(chunks, None) if len(in_order) < MAX_AHEAD else None
                if own is not None:
                    finished: Future[bytes] = Future()
                    finished.set_result(desk.pages(own))
                    in_order.append((own, finished))
                elif in_order:
                    yield _result(*in_order.popleft())
                else:
                    return
        finally:
            pool.shutdown(cancel_futures=True)


def _result(chunk: Chunk, future: Future[bytes]) -> tuple[Chunk, bytes]:
    try:
        return chunk, future.result()
    except BrokenProcessPool as error:
        raise StorageError("a tagging process was killed, perhaps for want of memory") from error


class Desk:
    """Where chunks of one file are read and tagged."""

    def __init__(self, reader: Reader, key: SecretKey, header: TagHeader) -> None:
        self._reader = reader
        self._header = header
        self._tagger = Tagger(key, header.file_id, header.version)

    def pages(self, chunk: Chunk) -> bytes:
        header = self._header
        blocks = run_of_blocks(
            self._reader, header.length, header.layout, chunk.start, chunk.blocks
        )
        return encode_pages(chunk.start // PAGE_TAGS, self._tagger.tags(chunk.start, blocks))


_desk: Desk


def _start_worker(source: Location, key: SecretKey, header: TagHeader) -> None:
    global _desk  # noqa: PLW0603 - the one place where a pool's process keeps what it works with
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and stops us
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    _desk = Desk(source.open(), key, header)


def _work_on(chunk: Chunk) -> bytes:
    return _desk.pages(chunk)


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
