"""Writes a backup: one file, a tar, with all that a home needs to go on elsewhere.

The database is copied first, the ledger's files last. Every step is saved before it takes effect,
so whatever happens in between looks to the restored home like a crash, and is resumed as one. What
the home has sealed stays sealed.
"""

import hashlib
import io
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import holdfast
from holdfast import atomic
from holdfast.control.backup.manifest import FORMAT, MANIFEST, Manifest, Member
from holdfast.control.backup.snapshot import copy_database, copy_file
from holdfast.control.evidence.reader import VERIFIER
from holdfast.errors import InputError, StorageError
from holdfast.owner.checked import HOLDINGS
from holdfast.owner.direct.tag_store import TAGS
from holdfast.owner.home import KEY, PUBLIC, address_in, check_home
from holdfast.owner.settings import DATABASE, Settings, read_settings
from holdfast.storage.database import Standing, exists, standing_of

SETTINGS = "holdfast.toml"


@dataclass(frozen=True)
class Backup:
    manifest: Manifest
    left_out: tuple[Path, ...]  # what the home needs and has elsewhere, or doesn't seal


def back_up(folder: Path, out: Path, now: int) -> Backup:
    """Write the backup of a home, whose service may be running."""
    check_home(folder)
    atomic.check_output(out, overwrite=False)
    settings = read_settings(folder)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as name:
        draft = Path(name)
        revision = _copy_databases(folder, settings, draft)
        inside, outside = _files(folder, settings, draft / DATABASE)
        outside += _copy_memories(folder, draft)
        files = {path.relative_to(folder).as_posix(): path for path in inside}
        copied = sorted(path for path in draft.rglob("*") if path.is_file())
        files |= {path.relative_to(draft).as_posix(): path for path in copied}
        members = tuple(_member(name, path) for name, path in files.items())
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


def _copy_databases(folder: Path, settings: Settings, draft: Path) -> str | None:
    """Copy database and local ledgers, in that order; return the database's revision."""
    address, revision = address_in(folder, settings.database), None
    if exists(address):
        revision = _revision(address)
        copy_database(address, draft / DATABASE)
    for path in sorted(folder.glob("ledger-*.db")):
        copy_file(path, draft / path.name)
    return revision


def _copy_memories(folder: Path, draft: Path) -> list[Path]:
    """Copy what checkers remember between checks; return files that they need and have elsewhere.

    A check that runs may write there, so a copy is what the backup's manifest describes.
    """
    if not (draft / DATABASE).exists():
        return []
    with closing(sqlite3.connect(draft / DATABASE)) as copy:
        if not copy.execute(_HAS_CHECKED).fetchone():
            return []
        rows = copy.execute("SELECT folder, options FROM checked_holdings").fetchall()
    for name, _ in rows:
        for path in sorted((folder / HOLDINGS / name).glob("*")):
            if path.is_file():
                target = draft / HOLDINGS / name / path.name
                atomic.make_directory(target.parent, mode=atomic.PRIVATE_FOLDER)
                shutil.copyfile(path, target)
    named = (json.loads(options).get(key) for _, options in rows for key in _NAMED_FILES)
    paths = dict.fromkeys(Path(path) for path in named if path)
    return [path for path in paths if path.is_file()]


_HAS_CHECKED = "SELECT 1 FROM sqlite_master WHERE name = 'checked_holdings'"
_NAMED_FILES = ("password-file", "manifest", "groups")  # options that name a file of the owner's


def _revision(address: str) -> str | None:
    standing, revision = standing_of(address)
    if standing is Standing.NEWER:
        raise InputError(
            f"the database was made by a newer Holdfast (schema {revision}): upgrade this one"
        )
    return revision


def _files(folder: Path, settings: Settings, database: Path) -> tuple[list[Path], list[Path]]:
    """Return the home's other files, and those that it needs and the backup leaves out."""
    named = [folder / KEY, folder / PUBLIC, folder / SETTINGS, folder / VERIFIER]
    named += sorted(folder.glob("evidence-*.bundle"))
    left_out = sorted(folder.glob(f"{HOLDINGS}/*/{TAGS}"))  # of direct holdings, which may be large
    if settings.evm is not None:
        named.append(settings.evm.keystore)
        left_out += [settings.evm.passphrase_file] if settings.evm.passphrase_file else []
    if database.exists():
        try:
            with closing(sqlite3.connect(database)) as copy:
                rows = copy.execute("SELECT DISTINCT ca FROM catalogue WHERE ca IS NOT NULL")
                named += [Path(path) for (path,) in rows]
        except sqlite3.Error as error:
            raise StorageError(f"can't write the backup: {error}; is the disk full?") from error
    existing = [path for path in dict.fromkeys(named) if path.exists()]
    inside = [path for path in existing if path.is_relative_to(folder)]
    return inside, [*left_out, *(path for path in existing if path not in inside)]


def _member(name: str, path: Path) -> Member:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Member(name, os.fstat(file.fileno()).st_size, digest)


def _entry(name: str, size: int, now: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, 0o600, now // 1000
    return entry
