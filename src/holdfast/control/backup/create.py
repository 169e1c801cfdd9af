"""One file with all that a home needs to go on elsewhere: a tar of copies, each of one moment.

The control plane's copy is taken first, the ledger's last: an intent is written down before its
effect, so whatever happens in between looks to the restored home like what a crash leaves, and is
reconciled as that. What the home has sealed stays sealed.
"""

import hashlib
import io
import os
import sqlite3
import tarfile
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import holdfast
from holdfast import atomic
from holdfast.control.backup.manifest import FORMAT, MANIFEST, Manifest, Member
from holdfast.control.backup.snapshot import copy_control, copy_file, copy_room
from holdfast.control.evidence.reader import VERIFIER
from holdfast.control.settings.models import read_control
from holdfast.errors import InputError
from holdfast.ledger import journal
from holdfast.node.identity import read_owner
from holdfast.owner import catalogue
from holdfast.owner.home import CATALOGUE, KEY, PUBLIC, check_home, place_of
from holdfast.owner.ledgers import JOURNAL, journal_of
from holdfast.owner.settings import Settings, read_settings
from holdfast.storage.database import Standing, connect, is_there, schema, transaction
from holdfast.tables import Place

CONTROL, SETTINGS = "control.db", "holdfast.toml"


@dataclass(frozen=True)
class Backup:
    manifest: Manifest
    left_out: tuple[Path, ...]  # what the home needs and has elsewhere, or keeps in the open


def back_up(folder: Path, out: Path, now: int) -> Backup:
    """Write the backup of a home, which may be at work meanwhile."""
    check_home(folder)
    atomic.check_output(out, overwrite=False)
    settings = read_settings(folder)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as name:
        draft = Path(name)
        revision = _copy_tables(folder, settings, draft)
        inside, outside = _files(folder, settings, draft / CATALOGUE)
        files = {path.relative_to(folder).as_posix(): path for path in inside}
        files |= {path.name: path for path in sorted(draft.iterdir())}
        members = tuple(_measured(name, path) for name, path in files.items())
        manifest = Manifest(FORMAT, holdfast.__version__, revision, now, members)
        with (
            atomic.replacing(out, mode=0o600, overwrite=False) as part,
            tarfile.open(part, "w") as tar,
        ):
            content = manifest.encode()
            tar.addfile(_entry(MANIFEST, len(content), now), io.BytesIO(content))
            for member in members:
                with files[member.name].open("rb") as file:
                    tar.addfile(_entry(member.name, member.bytes, now), file)
    return Backup(manifest, tuple(outside))


def _copy_tables(folder: Path, settings: Settings, draft: Path) -> str | None:
    """Copy all tables, in the order that a restored home can go on from; return their schema."""
    address, revision = read_control(folder).address(folder), None
    if is_there(address):
        revision = _revision(address)
        copy_control(address, draft / CONTROL)
    owner = read_owner(str(folder / PUBLIC)) if settings.database else b""
    _copy(place_of(folder, settings, owner), catalogue.SCHEMA, draft / CATALOGUE)
    if settings.evm is not None:
        _copy(journal_of(folder, settings), journal.SCHEMA, draft / JOURNAL)
    for path in sorted(folder.glob("ledger-*.db")):
        copy_file(path, draft / path.name)
    return revision


def _copy(place: Place, script: str, target: Path) -> None:
    if not isinstance(place, Path):
        copy_room(place, script, target)
    elif place.exists():
        copy_file(place, target)


def _revision(address: str) -> str | None:
    engine = connect(address, read_only=True)
    try:
        with transaction(engine) as connection:
            standing, revision = schema(connection)
    finally:
        engine.dispose()
    if standing is Standing.NEWER:
        raise InputError(
            f"the database was made by a newer Holdfast (schema {revision}): upgrade this one"
        )
    return revision


def _files(folder: Path, settings: Settings, copied: Path) -> tuple[list[Path], list[Path]]:
    """Return the files of the home that are no tables, and those it needs that are not taken."""
    named = [folder / KEY, folder / PUBLIC, folder / SETTINGS, folder / VERIFIER]
    named += sorted(folder.glob("evidence-*.bundle"))
    left = []
    if settings.evm is not None:
        named.append(settings.evm.keystore)
        left += [settings.evm.passphrase_file] if settings.evm.passphrase_file else []
    if copied.exists():
        with closing(sqlite3.connect(copied)) as tables:
            rows = tables.execute("SELECT DISTINCT ca FROM holdings WHERE ca IS NOT NULL")
            named += [Path(path) for (path,) in rows]
    there = [path for path in dict.fromkeys(named) if path.exists()]
    inside = [path for path in there if path.is_relative_to(folder)]
    return inside, [*left, *(path for path in there if path not in inside)]


def _measured(name: str, path: Path) -> Member:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Member(name, os.fstat(file.fileno()).st_size, digest)


def _entry(name: str, size: int, now: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, 0o600, now // 1000
    return entry
