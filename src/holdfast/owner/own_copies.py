"""The owner's own copies, from which a repair takes blocks: files, or folders of files."""

from collections.abc import Iterable
from pathlib import Path

from holdfast.errors import InputError, StorageError
from holdfast.owner.catalogue import FileRecord
from holdfast.owner.fingerprint import Original
from holdfast.owner.repair import Copy, LocalCopy
from holdfast.pdp import Location


class OwnCopies:
    """Copies whose SHA-256 is checked before they are used."""

    def __init__(self, sources: Iterable[str]) -> None:
        """Read the files among the sources; those in folders are read when they are needed."""
        self._folders, self._files = [], {}
        for source in sources:
            if source.endswith("/") or Path(source).is_dir():
                self._folders.append(source.rstrip("/"))
            else:
                location = Location(source)
                self._files[Original.of(location).content.sha256] = location

    def copies_of(self, file: FileRecord) -> list[Copy]:
        """Return the copies of a file: with its content, whatever their names in a folder."""
        return [LocalCopy(location) for location in self.locations_of(file)]

    def locations_of(self, file: FileRecord) -> list[Location]:
        """Return where the copies of a file are."""
        known = self._files.get(file.sha256)
        found = [known] if known is not None else []
        found += [location for folder in self._folders if (location := _find(folder, file))]
        return found


def _find(folder: str, file: FileRecord) -> Location | None:
    """Return the file of the same name in a folder, if it has the same content."""
    location = Location(f"{folder}/{file.name}")
    try:
        original = Original.of(location)
    except (InputError, StorageError):
        return None
    return location if original.content.sha256 == file.sha256 else None
