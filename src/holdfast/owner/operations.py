"""What an owner does with a whole home in one call: put, get, audit and repair.

The command line and `holdfast.open_home` are thin layers over these functions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Event, Lock

from holdfast.errors import HoldfastError, InputError, NodeError
from holdfast.owner.audit import Finding, LedgerVerdict, resume, run_audit, sample_cap
from holdfast.owner.catalogue import HoldingRecord
from holdfast.owner.fingerprint import Original
from holdfast.owner.home import Home
from holdfast.owner.repair import Copy, LocalCopy, find_damage, repair_file
from holdfast.owner.replica import Replica
from holdfast.owner.replica_sources import other_replicas
from holdfast.owner.upload import UploadResult, check_source, put
from holdfast.pdp import Location
from holdfast.processes import cores

OnProgress = Callable[[float], None]
OnUnreachable = Callable[[str, str], None]  # is given a holding and why its node can't be asked


@dataclass(frozen=True)
class RepairedFile:
    name: str
    damaged: list[int]  # blocks
    lost: list[int]  # of these, the blocks that no copy has


@dataclass(frozen=True)
class Repair:
    """What a repair put back, and the audit that followed it."""

    files: list[RepairedFile]
    audit: Finding

    @property
    def complete(self) -> bool:
        """Whether nothing is lost and the audit passed."""
        return (
            not any(file.lost for file in self.files) and self.audit.outcome is LedgerVerdict.PASSED
        )


def select_holdings(home: Home, names: Iterable[str]) -> list[HoldingRecord]:
    """Return the holdings of these names, or all of them if none is named."""
    with home.catalogue() as catalogue:
        known = catalogue.holdings()
        if not known:
            raise InputError("there are no holdings yet: create one with `holdfast holding add`")
        return [catalogue.holding(name) for name in dict.fromkeys(names)] or known


def put_file(
    home: Home,
    holdings: Sequence[str],
    name: str,
    original: Original,
    *,
    in_place: str | None = None,
    replace_other: bool = False,
    on_progress: OnProgress = lambda _bytes: None,
) -> dict[str, UploadResult]:
    """Put one file into these holdings at once, each in a thread.

    If one of them refuses the file by name, it goes to none. If an upload fails, the others still
    finish. `on_progress` counts the file's length twice per holding: for tagging and for sending.
    """
    if not replace_other:
        with home.catalogue() as catalogue:
            for holding in holdings:
                check_source(catalogue, holding, name, original)
    total = _SharedProgress(on_progress)
    # The processes of all threads together use the cores once.
    processes = None if len(holdings) == 1 else max(1, len(cores()) // len(holdings))

    def put_into(holding: str) -> UploadResult:
        with home.changing(holding) as place:
            return put(
                place,
                name,
                original,
                in_place=in_place,
                replace_other=replace_other,
                processes=processes,
                on_progress=total.progress_of(holding),
            )

    with ThreadPoolExecutor(len(holdings)) as pool:
        futures = {holding: pool.submit(put_into, holding) for holding in holdings}
        try:
            failures = {
                holding: error
                for holding, future in futures.items()
                if (error := future.exception())
            }
        except KeyboardInterrupt:
            total.stopped.set()
            raise
    for holding, error in failures.items():
        if not isinstance(error, HoldfastError) or len(holdings) == 1:
            raise error
        raise HoldfastError(f"{name} could not be put into holding {holding}: {error}") from error
    return {holding: future.result() for holding, future in futures.items()}


class _SharedProgress:
    """The progress of several threads as one number; setting `stopped` ends them all."""

    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress
        self._lock = Lock()
        self._done: dict[str, int] = {}
        self.stopped = Event()

    def progress_of(self, part: str) -> Callable[[int], None]:
        def reach(done: int) -> None:
            if self.stopped.is_set():
                raise KeyboardInterrupt
            with self._lock:
                self._done[part] = done
                self._on_progress(sum(self._done.values()))

        return reach


@contextmanager
def replicas(
    home: Home, name: str, first: str | None, on_unreachable: OnUnreachable
) -> Iterator[list[Replica]]:
    """Yield the file on every node that has the same content and can be reached, at least one."""
    with home.catalogue() as catalogue:
        files = {
            record.name: file
            for record in catalogue.holdings()
            if (file := catalogue.file(record.name, name))
        }
    if first is not None and first not in files:
        raise InputError(f"holding {first!r} has no file {name!r}")
    if not files:
        raise InputError(f"no holding has a file {name!r}")
    wanted = files[first or next(iter(files))]
    alike = [holding for holding, file in files.items() if file.sha256 == wanted.sha256]
    if first is None and len(alike) < len(files):
        raise InputError(
            f"{', '.join(files)} have different versions of {name!r}: choose one with --from"
        )
    with ExitStack() as stack:
        reachable = []
        trouble = None
        for holding in sorted(alike, key=lambda other: other != first):
            place = stack.enter_context(home.holding(holding))
            try:
                place.node.facts()
                reachable.append(Replica(place, files[holding]))
            except NodeError as error:
                on_unreachable(holding, str(error))
                trouble = error
        if not reachable:
            raise trouble or InputError(f"no holding has a file {name!r}")
        yield reachable


def audit_holding(
    home: Home,
    record: HoldingRecord,
    count_samples: Callable[[int], int],
    *,
    deadline_seconds: int,
    on_resumed: Callable[[Finding], None] = lambda _finding: None,
) -> Finding | None:
    """Audit a holding, after any audit of it that a crash left open; None if it is empty.

    `count_samples` takes the number of blocks and returns the sample size, before the node's limit.
    """
    with home.holding(record.name) as place, home.ledger(record.sectors) as ledger:
        for finding in resume(ledger, place):
            on_resumed(finding)
        blocks = place.inventory.blocks
        if not blocks:
            return None
        count = count_samples(blocks)
        count = min(count, sample_cap(place) or count)
        return run_audit(ledger, place, count, patience=deadline_seconds)


def repair_holding(
    home: Home,
    holding: str,
    sources: Iterable[str] = (),
    *,
    deadline_seconds: int,
    on_progress: OnProgress = lambda _share: None,
    on_unreachable: OnUnreachable = lambda _holding, _reason: None,
) -> Repair:
    """Find the damaged blocks of a holding, put them back, and audit it.

    Blocks come from `sources`, files of the owner's own, and from other holdings that have the
    same file. `on_progress` gets the share of the blocks that is searched.
    """
    own = {Original.of(Location(file)).content.sha256: Location(file) for file in sources}
    files = []
    with home.changing(holding) as place, home.ledger(place.record.sectors) as ledger:
        blocks = place.inventory.blocks
        if not blocks:
            raise InputError(f"holding {holding!r} is empty: there is nothing to repair")
        for damaged in find_damage(place, lambda done: on_progress(done / blocks)):
            file = damaged.replica.file
            copies: list[Copy] = [LocalCopy(own[file.sha256])] if file.sha256 in own else []
            with other_replicas(home, place, file) as others:
                for name, error in others.unreachable.items():
                    on_unreachable(name, error)
                lost = repair_file(damaged, [*copies, *others.replicas])
            files.append(RepairedFile(file.name, damaged.blocks, lost))
        count = min(blocks, sample_cap(place) or blocks)
        return Repair(files, run_audit(ledger, place, count, patience=deadline_seconds))
