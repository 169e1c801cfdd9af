"""Files whose hashes a manifest lists: the kind `manifest`."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from holdfast.checkers.hashed_objects import TOOL, Expected, check_hashes, draw, write_report
from holdfast.checkers.interface import Extent, Group, Place, Report, Sample
from holdfast.checkers.manifest_file import BAG_MANIFEST, parse_manifest
from holdfast.checkers.process_checker import ProcessChecker, Progress, now
from holdfast.checkers.stored_objects import GoneError, StoredObjects, open_objects
from holdfast.checkers.tool_process import check_options
from holdfast.errors import InputError, UnreachableError

MAX_MANIFEST_BYTES = 1 << 30
MAX_ASKED = 1000  # files that are asked for by name before a check; a check asks for the others
UNIT = "file"


class ManifestChecker(ProcessChecker):
    """Its option `manifest` is a path or an address; a relative path is one below the files'."""

    kind = "manifest"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        check_options(self.kind, place.options, ("manifest",))
        manifest = place.options.get("manifest", "")
        if not manifest or manifest.endswith("/"):
            raise InputError("name the manifest: a file that lists hashes, such as SHA256SUMS")
        is_whole = manifest.startswith("/") or "://" in manifest
        self._manifest = manifest if is_whole else f"{place.address.rstrip('/')}/{manifest}"

    def extent(self) -> Extent:
        entries, sizes = self._read()
        gone = self._confirm_gone(entries.keys() - sizes.keys())
        lengths = {name: max(sizes.get(name, 0), 0) for name in sorted(entries)}
        return Extent(
            unit=UNIT,
            units=len(entries),
            bytes=sum(lengths.values()),
            tool=TOOL,
            groups=tuple(Group(name, 1, length) for name, length in lengths.items()),
            vanished=tuple(gone),
        )

    def run(self, sample: Sample, on_progress: Progress) -> Report:
        began = now()
        entries, sizes = self._read()
        objects = open_objects(self.place.address)
        names = draw(sample, entries)
        expected = (entries[name] for name in names if name in entries)  # the manifest may change
        tally = check_hashes(objects, sizes, expected, len(names), on_progress)
        tally.count_missing()
        return write_report(tally, UNIT, len(entries), began)

    def _confirm_gone(self, unlisted: Iterable[str]) -> list[str]:
        """Return which files are gone of those that a listing left out."""
        objects, names = open_objects(self.place.address), sorted(unlisted)
        asked, rest = names[:MAX_ASKED], names[MAX_ASKED:]
        with ThreadPoolExecutor(objects.threads) as pool:
            there = pool.map(lambda name: _exists(objects, name), asked)
            return [name for name, exists in zip(asked, there, strict=True) if not exists] + rest

    def _read(self) -> tuple[Mapping[str, Expected], Mapping[str, int]]:
        """Return the files that should be there, and the sizes of those that are."""
        objects = open_objects(self.place.address)
        sizes = objects.list_sizes()
        if not sizes:
            raise UnreachableError(
                f"there is nothing at {objects.address}: see whether it is mounted, and spelled "
                "right"
            )
        folder, _, name = self._manifest.rpartition("/")
        beside = open_objects(folder or "/")
        bag = BAG_MANIFEST.fullmatch(name)
        algorithm = bag[1] if bag and _exists(beside, "bagit.txt") else None
        content = _read_file(beside, name, self._manifest)
        return parse_manifest(content, self._manifest, algorithm), sizes


def _read_file(objects: StoredObjects, name: str, address: str) -> bytes:
    try:
        size = objects.size(name)
        if size > MAX_MANIFEST_BYTES:
            raise InputError(f"{address} has more than the {MAX_MANIFEST_BYTES} bytes we read")
        return b"".join(bytes(piece) for piece in objects.pieces(name, size))
    except GoneError as error:
        raise InputError(f"there is no manifest {address}") from error


def _exists(objects: StoredObjects, name: str) -> bool:
    try:
        objects.size(name)
    except GoneError:
        return False
    return True
