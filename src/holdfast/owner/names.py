"""Names of files in the catalogue: relative paths, so that `get` can restore folders."""

import os
from pathlib import Path

from holdfast.errors import InputError

MAX_NAME_BYTES = 1024
MAX_PART_BYTES = 255  # of a file's or folder's own name, on nearly every disk
_MAX_SHOWN = 60  # letters of a name in a message


def check_name(name: str) -> None:
    """Raise unless a file can have this name, and be restored by it below any folder."""
    fault = _fault(name)
    if fault:
        shown = repr(name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}…")
        raise InputError(f"{shown} can't be the name of a file: {fault}")


def _fault(name: str) -> str | None:
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode, so give the file another name with --name"
    parts = encoded.split(b"/")
    longest = max(map(len, parts))
    faults = {
        "it is empty": not name,
        "it contains a NUL": "\0" in name,
        "it is an absolute path, and names are relative": name.startswith("/"),
        "a part of it is empty, '.' or '..'": any(part in {b"", b".", b".."} for part in parts),
        f"it has {len(encoded)} bytes, and {MAX_NAME_BYTES} is the limit": (
            len(encoded) > MAX_NAME_BYTES
        ),
        f"a part of it has {longest} bytes, and {MAX_PART_BYTES} is the limit": (
            longest > MAX_PART_BYTES
        ),
    }
    return next((fault for fault, present in faults.items() if present), None)


def own_name(address: str) -> str:
    """Return the last part of a path or address: what a file is called unless you say otherwise."""
    return address.rstrip("/").rpartition("/")[2]


def list_folder(folder: str) -> dict[str, str]:
    """Return the paths of all files below a folder, by their names relative to it."""
    files = {}
    for place, folders, names in os.walk(folder, onerror=_raise):
        for name in folders:
            if Path(place, name).is_symlink():
                raise InputError(
                    f"{Path(place, name)} is a link to a folder: put that one by itself"
                )
        for name in names:
            path = Path(place, name)
            if not path.is_file():
                raise InputError(f"can't put {path}: it is not a regular file")
            files[path.relative_to(folder).as_posix()] = str(path)
    if not files:
        raise InputError(f"there are no files in {folder}")
    return dict(sorted(files.items()))


def _raise(error: OSError) -> None:
    raise InputError(f"can't read {error.filename}: {error.strerror}") from error
