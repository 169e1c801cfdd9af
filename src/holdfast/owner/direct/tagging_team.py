"""Tags many objects: in threads of this process and, if there is much to read, in more processes.

In one process the threads that receive bytes and those that tag them take turns with Python's lock.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock, Thread

from holdfast.errors import HoldfastError, StorageError, UnreachableError
from holdfast.node.daemon_pool import DaemonPool
from holdfast.node.objects import LostError, StoredObject
from holdfast.owner.catalogue import FileRecord
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct.journal import Journal
from holdfast.owner.direct.storage import DirectStorage
from holdfast.owner.direct.tag_store import open_store
from holdfast.owner.direct.tagging import ObjectTagger, TaggedObject
from holdfast.pdp import SecretKey
from holdfast.processes import Child, cores, start_child

SMALL_BYTES = 64 << 10  # objects of which as many are read at once as the storage takes
MEDIUM_BYTES, MEDIUM_AT_ONCE = 1 << 20, 16
LARGE_AT_ONCE = 4  # each of which is read in several parts at once
WORTH_PROCESSES = 512 << 20  # bytes: below it, a process takes longer to start than it saves
BATCH_BYTES, BATCH_OBJECTS = 32 << 20, 256  # that a helping process is given at once
BATCHES = 2  # that it has at a time, so that it never waits for the next one

Job = tuple[StoredObject, FileRecord | None]  # an object, and its version that is audited now
Result = TaggedObject | str  # or the name of an object that was changed while it was read
Failure = tuple[bool, str]  # whether the storage can't be reached, and why tagging ended
Progress = Callable[[int], None]


@dataclass(frozen=True)
class TaggingTask:
    """What a process needs to know to tag objects of a direct holding."""

    address: DirectAddress
    owner: bytes
    key: SecretKey
    folder: Path

    def tag_all(self, jobs: Sequence[Job], on_progress: Progress) -> list[Result]:
        """Tag these objects; `on_progress` gets the bytes read since it was last called."""
        total = sum(found.size for found, _ in jobs)
        helpers = len(cores()) - 1 if total >= WORTH_PROCESSES else 0
        with ExitStack() as stack:
            children = [stack.enter_context(start_child(_help, self)) for _ in range(helpers)]
            team = [_Helper(child) for child in children]
            worker = _Worker(self, 1 if helpers else len(cores()))
            return [
                result
                for part, lanes in _divide(jobs, worker.storage.files_at_once)
                for result in _share(part, worker, lanes, team, on_progress)
            ]


class _Worker:
    """Tags objects in this process, and notes in the journal what is done."""

    def __init__(self, task: TaggingTask, threads: int) -> None:
        """Make a worker that tags in so many threads; more of them receive."""
        self.storage, self._journal = DirectStorage(task.address), Journal(task.folder)
        store = open_store(task.address, task.owner, task.key.public.id, task.folder)
        self._tagger = ObjectTagger(self.storage, store, task.key, threads)

    def tag(self, job: Job, on_progress: Progress) -> Result:
        try:
            tagged = self._tagger.tag(*job, on_progress)
        except LostError:
            return job[0].name
        self._journal.add(tagged)
        return tagged


class _Helper:
    """A process that tags batches of objects."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._sending, self._receiving = Lock(), Lock()

    def tag(self, batch: list[Job]) -> list[Result]:
        """Send a batch, and return the results of a batch, perhaps of another thread's."""
        try:
            with self._sending:
                self._child.pipe.send(batch)
            with self._receiving:
                answer: list[Result] | Failure = self._child.pipe.recv()
        except (EOFError, OSError) as error:
            reason = "a tagging process was killed, perhaps for want of memory"
            raise StorageError(reason) from error
        if isinstance(answer, list):
            return answer
        unreachable, reason = answer
        raise UnreachableError(reason) if unreachable else StorageError(reason)


def _divide(jobs: Sequence[Job], at_once: int) -> Iterator[tuple[list[Job], int]]:
    """Yield objects of about the same size, and how many of them are read side by side."""
    sizes = (SMALL_BYTES, MEDIUM_BYTES)
    classes: list[list[Job]] = [[], [], []]
    for job in jobs:
        classes[bisect_left(sizes, job[0].size)].append(job)
    lanes = (at_once, min(MEDIUM_AT_ONCE, at_once), LARGE_AT_ONCE)
    yield from zip(classes, lanes, strict=True)


def _share(
    jobs: Sequence[Job],
    worker: _Worker,
    lanes: int,
    team: Sequence[_Helper],
    on_progress: Progress,
) -> list[Result]:
    """Let threads and processes take jobs until there are no more."""
    waiting, lock = deque(jobs), Lock()
    results: list[Result] = []

    def take(count: int) -> list[Job]:
        with lock:
            batch: list[Job] = []
            size = 0
            while waiting and len(batch) < count and size <= BATCH_BYTES:
                batch.append(waiting.popleft())
                size += batch[-1][0].size
            return batch

    def tag_here() -> None:
        while batch := take(1):
            results.append(worker.tag(batch[0], on_progress))

    def tag_there(helper: _Helper) -> None:
        while batch := take(BATCH_OBJECTS):
            results.extend(helper.tag(batch))
            on_progress(sum(found.size for found, _ in batch))

    workers = [tag_here] * min(lanes, len(jobs))
    workers += [partial(tag_there, helper) for helper in team for _ in range(BATCHES)]
    DaemonPool(len(workers) or 1).map(lambda work: work(), workers, stall_seconds=inf)
    return results


def _help(pipe: Connection, task: TaggingTask) -> None:
    """Tag the batches that come in, side by side; answer with results, or why there are none."""
    worker, sending = _Worker(task, 1), Lock()

    def answer(batch: list[Job]) -> None:
        results = _tag_batch(worker, batch)
        with sending:
            pipe.send(results)

    while True:
        Thread(target=answer, args=(pipe.recv(),), daemon=True).start()


def _tag_batch(worker: _Worker, batch: list[Job]) -> list[Result] | Failure:
    results: list[Result] = []
    try:
        for jobs, lanes in _divide(batch, worker.storage.files_at_once):
            results += DaemonPool(lanes).map(
                lambda job: worker.tag(job, lambda _bytes: None), jobs, stall_seconds=inf
            )
    except (HoldfastError, OSError) as error:
        return isinstance(error, UnreachableError), str(error)
    return results
