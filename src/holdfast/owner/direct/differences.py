"""How the objects of a direct holding differ from when they were tagged, by a listing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.errors import InputError
from holdfast.node.objects import StoredObject
from holdfast.node.record import FileRecord, HoldingRecord
from holdfast.node.wire import MAX_LENGTH, MAX_PATH
from holdfast.owner.names import check_name

MAX_NAMES = 5  # of objects in a sentence
MAX_LETTERS = 120  # of a name in a sentence


@dataclass(frozen=True)
class Changed:
    """An object that was written again since it was tagged."""

    file: FileRecord
    now: StoredObject

    @property
    def resized(self) -> bool:
        return self.now.size != self.file.length


@dataclass(frozen=True)
class Differences:
    """New objects, those that were written again, those that are gone, those that can't be audited.

    Whether an object that was written again has other content is not known from a listing.
    """

    new: tuple[StoredObject, ...]
    changed: tuple[Changed, ...]
    vanished: tuple[FileRecord, ...]
    left_out: tuple[str, ...]


def compare(
    record: HoldingRecord, stamps: Mapping[str, str], listed: Iterable[StoredObject]
) -> Differences:
    found = {entry.name: entry for entry in listed}
    usable = {name: entry for name, entry in found.items() if is_auditable(entry)}
    known = {name_of(file): file for file in record.files}
    return Differences(
        tuple(entry for name, entry in sorted(usable.items()) if name not in known),
        tuple(
            Changed(file, usable[name])
            for name, file in known.items()
            if name in usable
            and (usable[name].size, usable[name].stamp) != (file.length, stamps.get(name))
        ),
        tuple(file for name, file in known.items() if name not in usable),
        tuple(sorted(name for name in found if name not in usable and not _is_marker(found[name]))),
    )


def is_auditable(entry: StoredObject) -> bool:
    """Return whether an object can be enrolled: a plain one, with a name that a node takes."""
    try:
        check_name(entry.name)
    except InputError:
        return False
    named = entry.name.isprintable() and "\\" not in entry.name and len(entry.name) <= MAX_PATH
    return named and entry.regular and entry.size <= MAX_LENGTH


def name_of(file: FileRecord) -> str:
    """Return the name of an object below its address."""
    return file.in_place or ""


def describe_names(names: Sequence[str]) -> str:
    """Return some names in words, and how many more there are."""
    shown = [
        name if len(name) <= MAX_LETTERS else f"{name[:MAX_LETTERS]}…" for name in names[:MAX_NAMES]
    ]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def count_objects(count: int) -> str:
    return f"{count:,} object{'' if count == 1 else 's'}"


def _is_marker(entry: StoredObject) -> bool:
    """Return whether it is an empty object by which consoles show a folder."""
    return entry.name.endswith("/") and not entry.size
