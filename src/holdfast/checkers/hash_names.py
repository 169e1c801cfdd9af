"""Objects whose names are the SHA-256 of their bytes: the kind `names`.

So are the packs of restic and rustic repositories, the objects of Git LFS, and the blobs of OCI
images. A name does not say whether its object should be there. What is gone counts as damage only
where the operator says that nothing is ever deleted; then all names ever listed are kept.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast import atomic
from holdfast.checkers.hashed_objects import TOOL, Expected, check_hashes, draw, write_report
from holdfast.checkers.interface import Extent, Group, Place, Report, Sample
from holdfast.checkers.process_checker import ProcessChecker, Progress, now
from holdfast.checkers.stored_objects import StoredObjects, open_objects
from holdfast.checkers.tool_process import check_options
from holdfast.errors import InputError, UnreachableError

ALGORITHM = "sha256"
NEVER, ALLOWED = "never", "allowed"  # whether objects may be deleted
_HASH = re.compile(r"(?:.*/)?[0-9a-f]{64}")
_UNFINISHED = re.compile(r"(?:.*/)?(?:\.[^/]*|[0-9a-f]{64}[^/]+)")  # hidden, or yet to be renamed


@dataclass(frozen=True)
class Layout:
    """Where a store keeps its objects, and what it calls one."""

    prefix: str
    unit: str


RESTIC, LFS, OCI = Layout("data", "pack"), Layout("objects", "object"), Layout("blobs", "blob")
BARE = Layout("", "object")


class NamesChecker(ProcessChecker):
    kind = "names"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        check_options(self.kind, place.options, ("names", "deletions"))
        if place.options.get("names") != ALGORITHM:
            raise InputError(f"the names must be {ALGORITHM}, the only hash that we know as names")
        self._deletions = place.options.get("deletions", ALLOWED)
        if self._deletions not in {ALLOWED, NEVER}:
            raise InputError(f"deletions are {ALLOWED} or {NEVER}, not {self._deletions!r}")
        self._listing = place.folder / "listing.txt"

    def extent(self) -> Extent:
        objects = open_objects(self.place.address)
        layout, sizes = _list(objects)
        gone = self._remember(sizes) if self._deletions == NEVER else ()
        return Extent(
            unit=layout.unit,
            units=len(sizes),
            bytes=sum(max(size, 0) for size in sizes.values()),
            tool=TOOL,
            groups=tuple(Group(name, 1, max(size, 0)) for name, size in sorted(sizes.items())),
            vanished=tuple(gone),
        )

    def run(self, sample: Sample, on_progress: Progress) -> Report:
        began = now()
        objects = open_objects(self.place.address)
        layout, sizes = _list(objects)
        names = draw(sample, sizes)
        expected = (Expected(name, ALGORITHM, name[-64:]) for name in names)
        tally = check_hashes(objects, sizes, expected, len(names), on_progress)
        words = ""
        if self._deletions == NEVER:
            tally.count_missing()
        elif gone := len(tally.missing):
            words = f"of the sample {gone:,} are gone: deleted or lost, names can't say which"
        return write_report(tally, layout.unit, len(sizes), began, words)

    def _remember(self, sizes: Iterable[str]) -> list[str]:
        """Add the names to those that were ever listed; return which of them are gone."""
        before = self._read_listing()
        gone = sorted(set(before).difference(sizes))
        if names := sorted({*before, *sizes}):
            atomic.make_directory(self.place.folder, mode=atomic.PRIVATE_FOLDER)
            text = "".join(f"{name}\n" for name in names)
            atomic.write(self._listing, text.encode(errors="surrogateescape"), mode=atomic.PRIVATE)
        return gone

    def _read_listing(self) -> list[str]:
        if not self._listing.exists():
            return []
        return self._listing.read_bytes().decode(errors="surrogateescape").split("\n")[:-1]


def _list(objects: StoredObjects) -> tuple[Layout, dict[str, int]]:
    """Return the layout of a store and its objects; raise if their names are no hashes."""
    sizes = objects.list_sizes()
    layout = _layout(sizes)
    below = [name for name in sizes if not layout.prefix or name.startswith(f"{layout.prefix}/")]
    hashes = {name: sizes[name] for name in below if _HASH.fullmatch(name)}
    others = [name for name in below if name not in hashes and not _UNFINISHED.fullmatch(name)]
    if not sizes:
        raise UnreachableError(
            f"there is nothing at {objects.address}: see whether it is mounted, and spelled right"
        )
    if others and (not hashes or layout is BARE):
        raise InputError(
            f"{objects.address} does not name its objects by their SHA-256: {others[0]} is no "
            "hash. Give the address of a restic repository, of the objects of Git LFS, or of an "
            "OCI layout"
        )
    if not hashes:
        raise UnreachableError(f"{objects.address} holds no {layout.unit} yet: store one first")
    return layout, hashes


def _layout(names: Iterable[str]) -> Layout:
    names = set(names)
    tops = {name.partition("/")[0] for name in names}
    if "config" in names and ("data" in tops or {"keys", "snapshots"} & tops):
        return RESTIC
    if {"oci-layout", "index.json"} & names and "blobs" in tops:
        return OCI
    if "objects" in tops:
        return LFS
    return OCI if tops == {"blobs"} else BARE
