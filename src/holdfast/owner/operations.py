"""What an owner does with a whole home in one call: put, get, audit and repair.

The command line and `holdfast.open_home` are thin layers over these functions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Event, Lock

from holdfast.errors import HoldfastError, InputError, NodeError
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.owner.catalogue import FileRecord, HoldingRecord
from holdfast.owner.direct.address import is_direct
from holdfast.owner.direct.client import DirectClient
from holdfast.owner.fingerprint import Original, absolute_source
from holdfast.owner.holding import Holding
from holdfast.owner.home import Home
from holdfast.owner.localisation import find_damage
from holdfast.owner.losses import FileLoss
from holdfast.owner.names import check_name
from holdfast.owner.own_copies import OwnCopies
from holdfast.owner.reopening import reopen
from holdfast.owner.repair import Copy, repair_file
from holdfast.owner.repairable import check_repairable
from holdfast.owner.replica import Replica
from holdfast.owner.replica_sources import other_replicas
from holdfast.owner.upload import UploadResult, check_path, check_source, put
from holdfast.pdp import Location
from holdfast.pdp.spans import EMPTY, Spans
from holdfast.processes import cores

OnProgress = Callable[[float], None]
OnUnreachable = Callable[[str, str], None]  # is given a holding and why its node can't be asked


@dataclass(frozen=True)
class RepairProgress:
    """How many of the blocks have been searched or, after that, put back."""

    repairing: bool
    done: int
    total: int


@dataclass(frozen=True)
class RepairedFile:
    name: str
    damaged: Spans
    lost: Spans  # of these, the blocks that no copy has
    loss: FileLoss


def select_holdings(home: Home, names: Iterable[str]) -> list[HoldingRecord]:
    """Return the holdings of these names, or all of them if none is named."""
    with home.catalogue() as catalogue:
        named = [catalogue.holding(name) for name in dict.fromkeys(names)]
        selected = named or catalogue.holdings()
        if not selected:
            raise InputError("there are no holdings yet: create one with `holdfast holding add`")
        return selected


def select_for_put(home: Home, names: Iterable[str]) -> list[str]:
    """Return the names of the holdings that files are put into: if none is named, all on nodes."""
    named = list(names)
    records = select_holdings(home, named)
    direct = [record.name for record in records if is_direct(record.url)]
    if named and direct:
        raise InputError(
            f"holding {direct[0]!r} is direct: bring files to its storage by your own means, then "
            f"`holdfast holding refresh {direct[0]}`"
        )
    chosen = [record.name for record in records if record.name not in direct]
    if not chosen:
        raise InputError("all holdings are direct, and files are put on nodes: add one first")
    return chosen


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
    check_name(name)
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
        of_node = isinstance(error, NodeRefusedError) and error.code is Code.STORAGE
        if not isinstance(error, HoldfastError) or (len(holdings) == 1 and not of_node):
            raise error
        raise HoldfastError(f"{name} could not be put into holding {holding}: {error}") from error
    return {holding: future.result() for holding, future in futures.items()}


def check_sources(home: Home, holdings: Sequence[str], sources: Mapping[str, str]) -> None:
    """Raise if one of these files, by name, would take the place of a file from another path."""
    with home.catalogue() as catalogue:
        for name, source in sources.items():
            for holding in holdings:
                check_path(catalogue, holding, name, absolute_source(Location(source)))


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
    home: Home,
    name: str,
    first: str | None,
    on_unreachable: OnUnreachable,
    version: int | None = None,
) -> Iterator[list[Replica]]:
    """Yield the file on every node that has the same content and can be reached, at least one.

    If `version` is given, nodes that have another version are left out.
    """
    files = _holdings_of(home, name)
    if first is not None and first not in files:
        raise InputError(f"holding {first!r} has no file {name!r}")
    if not files:
        raise InputError(f"no holding has a file {name!r}")
    if version is not None:
        files = _of_version(files, version, name, first)
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


def _holdings_of(home: Home, name: str) -> dict[str, FileRecord]:
    """Return the file in each holding that has it."""
    check_name(name)
    with home.catalogue() as catalogue:
        return {
            record.name: file
            for record in catalogue.holdings()
            if (file := catalogue.file(record.name, name))
        }


def _of_version(
    files: Mapping[str, FileRecord], version: int, name: str, first: str | None
) -> dict[str, FileRecord]:
    same = {holding: file for holding, file in files.items() if file.version == version}
    if not same or (first is not None and first not in same):
        had = ", ".join(f"{holding} has version {file.version}" for holding, file in files.items())
        whose = f"the node of {first}" if first in files else "any node"
        raise InputError(
            f"version {version} of {name!r} is not on {whose}: {had}, and a node keeps a version "
            "only until the next one is complete"
        )
    return same


def list_files(home: Home, folder: str, holding: str | None = None) -> dict[str, FileRecord]:
    """Return the files below a folder of the catalogue, or all if it is ".", by their names."""
    prefix = "" if folder == "." else f"{folder}/"
    with home.catalogue() as catalogue:
        records = catalogue.holdings() if holding is None else [catalogue.holding(holding)]
        files = {
            file.name: file
            for record in records
            for file in catalogue.files(record.name)
            if file.name.startswith(prefix)
        }
    if not files:
        raise InputError(f"no holding has files below {folder!r}")
    return dict(sorted(files.items()))


def _restored(holding: Holding, file: FileRecord) -> RepairedFile:
    """Return what a repair says of a file that it put back whole."""
    replica = Replica(holding, file)
    blocks = replica.header.blocks
    damaged = Spans(((0, blocks),)) if blocks else EMPTY
    return RepairedFile(file.name, damaged, EMPTY, FileLoss.of(replica, EMPTY))


def repair_holding(
    home: Home,
    holding: str,
    sources: Iterable[str] = (),
    *,
    on_progress: Callable[[RepairProgress], None] = lambda _progress: None,
    on_unreachable: OnUnreachable = lambda _holding, _reason: None,
) -> list[RepairedFile]:
    """Find the damaged blocks of a holding, and put them back.

    Blocks come from `sources`, files of the owner's own or folders with files of the same names,
    and from other holdings that have the same file. It is said before anything is read if nothing
    can be put back.
    """
    given = list(sources)
    check_repairable(home, holding, given)
    own = OwnCopies(given)
    files: list[RepairedFile] = []

    def reopen_lost(place: Holding) -> None:
        reopen(home, place, own, lambda file: files.append(_restored(place, file)))

    with home.changing(holding, on_lost=reopen_lost) as place:
        blocks = place.inventory.blocks
        if not blocks:
            raise InputError(f"holding {holding!r} is empty: there is nothing to repair")
        damage = find_damage(place, lambda done: on_progress(RepairProgress(False, done, blocks)))
        done, total = 0, sum(damaged.blocks.count for damaged in damage)
        for damaged in damage:
            file = damaged.replica.file
            copies: list[Copy] = own.copies_of(file)

            def report(more: int, before: int = done) -> None:
                on_progress(RepairProgress(True, before + more, total))

            with other_replicas(home, place, file) as others:
                for name, error in others.unreachable.items():
                    on_unreachable(name, error)
                lost = repair_file(damaged, [*copies, *others.replicas], report)
            if isinstance(place.node, DirectClient) and not lost:
                place.node.finish_repair(file.file_id)
            done += damaged.blocks.count
            loss = FileLoss.of(damaged.replica, lost)
            files.append(RepairedFile(file.name, damaged.blocks, lost, loss))
    return files
