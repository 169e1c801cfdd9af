"""Tags a whole file: streamed, in bounded memory, over several processes.

The tag file appears whole or not at all, and only after the journal, if there is one, has an entry
of its version.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path

from holdfast import atomic
from holdfast.errors import HoldfastError, InputError, StorageError
from holdfast.pdp.blocks import run_of_blocks
from holdfast.pdp.journal import TagJournal
from holdfast.pdp.keys import MAX_VERSION, SecretKey, draw_nonce
from holdfast.pdp.limbs import RUN_ROWS
from holdfast.pdp.readers import Reader, Source
from holdfast.pdp.tagfile import HEADER_BYTES, PAGE_BYTES, PAGE_TAGS, TagHeader, encode_pages
from holdfast.pdp.tags import Tagger
from holdfast.processes import Child, cores, start_child

CHUNK_BYTES = 8 << 20
WORTH_PROCESSES = 2 << 30  # below it, a helper takes longer to start than it saves
AHEAD = 3  # chunks that a helper is given at once, so that it never waits for us

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


def tag_file(
    source: Source,
    key: SecretKey,
    *,
    file_id: bytes,
    version: int,
    out: Path,
    nonce: bytes | None = None,
    journal: TagJournal | None = None,
    processes: int | None = None,
    progress: Progress = lambda _bytes: None,
) -> TagHeader:
    """Write the tags of `source` to `out`; `progress` gets the number of bytes done so far.

    Without a `nonce` one is drawn. A caller that encrypts the source under the nonce draws it, and
    for this call alone: two contents that are tagged under one nonce give the key away.
    """
    if processes is not None and processes < 1:
        raise InputError(f"processes must be at least 1, not {processes}")
    if not 1 <= version <= MAX_VERSION:
        raise InputError(f"a version must be between 1 and {MAX_VERSION}, not {version}")
    with source.open() as reader:
        length = reader.size()
    nonce = nonce or draw_nonce()
    header = TagHeader(key.public.id, file_id, version, nonce, key.sectors, length)
    if processes is None:
        processes = len(cores()) if length >= WORTH_PROCESSES else 1
    with atomic.replacing(out) as draft:
        draft.write_bytes(header.encode())
        task = Task(source, key, header, draft)
        done = 0
        for chunk in task.finished(processes - 1):
            done += chunk.blocks * key.layout.block_bytes
            progress(min(done, length))
        with source.open() as reader:
            if reader.size() != length:
                raise StorageError(f"{source.address} changed while it was being tagged: try again")
        if journal is not None:
            journal.add(file_id, version)
    return header


class TaggingPool:
    """Where chunks of one file are read and tagged."""

    def __init__(self, reader: Reader, key: SecretKey, header: TagHeader) -> None:
        self._reader = reader
        self._header = header
        self._tagger = Tagger(key, header.file_id, header.version, header.nonce)

    def pages(self, chunk: Chunk) -> bytes:
        header = self._header
        blocks = run_of_blocks(
            self._reader, header.length, header.layout, chunk.start, chunk.blocks
        )
        return encode_pages(chunk.start // PAGE_TAGS, self._tagger.tags(chunk.start, blocks))


@dataclass(frozen=True)
class Task:
    """One file to be tagged into one draft, by any number of processes."""

    source: Source
    key: SecretKey
    header: TagHeader
    draft: Path

    @contextmanager
    def opened(self) -> Iterator[Callable[[Chunk], None]]:
        """Yield a function that tags a chunk and puts its tags in their place in the draft."""
        with self.source.open() as reader, self.draft.open("r+b") as out:
            desk = TaggingPool(reader, self.key, self.header)

            def tag(chunk: Chunk) -> None:
                pages = desk.pages(chunk)
                out.seek(HEADER_BYTES + chunk.start // PAGE_TAGS * PAGE_BYTES)
                out.write(pages)
                out.flush()

            yield tag

    def finished(self, helpers: int) -> Iterator[Chunk]:
        """Tag all chunks and yield each when it is done.

        We work ourselves, too: a helper takes a third of a second to start.
        """
        chunks = chunks_of(self.header)
        with self.opened() as tag, _helped(self, helpers) as team:
            while True:
                for helper in team:
                    for chunk in islice(chunks, AHEAD - len(helper.asked)):
                        helper.ask(chunk)
                own = next(chunks, None)
                if own is not None:
                    tag(own)
                    yield own
                else:
                    busy = [helper.child.pipe for helper in team if helper.asked]
                    if not busy:
                        return
                    wait(busy)
                for helper in team:
                    while helper.asked and helper.child.pipe.poll():
                        yield helper.answer()


@dataclass(frozen=True)
class Helper:
    """A process that tags chunks, and the chunks that it was given."""

    child: Child
    asked: deque[Chunk] = field(default_factory=deque)

    def ask(self, chunk: Chunk) -> None:
        try:
            self.child.pipe.send(chunk)
        except OSError as error:
            raise _killed() from error
        self.asked.append(chunk)

    def answer(self) -> Chunk:
        try:
            complaint = self.child.pipe.recv()
        except (EOFError, OSError) as error:
            raise _killed() from error
        if complaint is not None:
            raise StorageError(complaint)
        return self.asked.popleft()


def _killed() -> StorageError:
    return StorageError("a tagging process was killed, perhaps for want of memory")


@contextmanager
def _helped(task: Task, count: int) -> Iterator[list[Helper]]:
    with ExitStack() as stack:
        yield [Helper(stack.enter_context(start_child(_help, task))) for _ in range(count)]


def _help(connection: Connection, task: Task) -> None:
    """Tag the chunks that come in, and answer each with nothing or with a complaint."""
    try:
        with task.opened() as tag:
            while True:
                tag(connection.recv())
                connection.send(None)
    except HoldfastError as error:
        connection.send(str(error))
    except OSError as error:
        connection.send(f"can't write the tags: {error.strerror}")
