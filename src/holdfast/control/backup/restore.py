"""Makes a home from a backup, in which nothing can happen twice.

What the old home did after the backup is lost. So the evidence continues under a new key, unless
the operator knows that nothing came after. Tags need no such care: every tagging draws a new nonce.
"""

import hashlib
import os
import secrets
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast import atomic
from holdfast.control.backup.create import SETTINGS
from holdfast.control.backup.manifest import MANIFEST, Manifest
from holdfast.control.backup.snapshot import fill_database
from holdfast.control.evidence.reader import VERIFIER
from holdfast.control.evidence.signer import begin_anew, current_signer
from holdfast.control.settings.configuration import configuration_hash
from holdfast.control.settings.models import read_control
from holdfast.control.settings.show import recorded_settings
from holdfast.errors import InputError, MalformedError, StorageError
from holdfast.evidence.note import Verifier
from holdfast.owner.home import KEY, database_address
from holdfast.owner.keyring import Keyring, read_keyring
from holdfast.owner.settings import DATABASE, Settings, read_settings
from holdfast.settings_file import MAX_SETTINGS_BYTES
from holdfast.storage.database import known_revisions, migrate, open_engine

MAX_MANIFEST_BYTES = 1 << 20
PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Restored:
    manifest: Manifest
    verifier: Verifier | None  # of the evidence from now on, if there is a database


def restore(
    backup: Path,
    home: Path,
    passphrase: bytes,
    *,
    now: int,
    moved: bool = False,
    settings: Path | None = None,
) -> Restored:
    """Make a home from a backup, whole or not at all.

    `moved` says that the old home did nothing after the backup. `settings` replace those in the
    backup.
    """
    check_absent(home)
    replaced = None if settings is None else atomic.read(settings, at_most=MAX_SETTINGS_BYTES)
    with _opened(backup) as tar, _draft(home) as draft:
        manifest = _check(tar, str(backup))
        _extract(tar, manifest, draft, str(backup))
        before = read_settings(draft)
        if replaced is not None:
            atomic.write(draft / SETTINGS, replaced, mode=atomic.PRIVATE)
        after = read_settings(draft)
        _check_ledger(before, after)
        keyring = read_keyring(draft / KEY, passphrase)
        verifier = _fence(draft, keyring, now, moved=moved)
        _place(draft, home, after, keyring)
    return Restored(manifest, verifier)


def check_absent(home: Path) -> None:
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise InputError(f"{home} exists already: name another --home")


@contextmanager
def _opened(backup: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(backup, "r:") as tar:
            yield tar
    except tarfile.TarError as error:
        raise MalformedError(f"{backup} is not a backup of Holdfast: {error}") from error
    except OSError as error:
        raise StorageError(f"can't restore {backup}: {error.strerror or error}") from error


def _check(tar: tarfile.TarFile, name: str) -> Manifest:
    """Compare everything in the backup with its manifest; return the manifest."""
    first = tar.next()
    if first is None or first.name != MANIFEST or first.size > MAX_MANIFEST_BYTES:
        raise MalformedError(f"{name} is not a backup of Holdfast")
    manifest = Manifest.decode(b"".join(_pieces(tar, MANIFEST)), name)
    if manifest.schema not in {None, *known_revisions()}:
        raise InputError(
            f"{name} was made by a newer Holdfast (schema {manifest.schema}): upgrade this one"
        )
    entries = [(entry.name, entry.size, entry.isreg()) for entry in tar.getmembers()[1:]]
    if entries != [(member.name, member.bytes, True) for member in manifest.members]:
        raise MalformedError(f"{name} is damaged: it has not what its manifest says")
    for member in manifest.members:
        digest = hashlib.sha256()
        for piece in _pieces(tar, member.name):
            digest.update(piece)
        if digest.hexdigest() != member.sha256:
            raise MalformedError(f"{name} is damaged: {member.name} is not what was backed up")
    return manifest


def _pieces(tar: tarfile.TarFile, name: str) -> Iterator[bytes]:
    content = tar.extractfile(name)
    if content is None:
        raise MalformedError(f"{name} in the backup is no file")
    with content:
        while piece := content.read(PIECE_BYTES):
            yield piece


def _extract(tar: tarfile.TarFile, manifest: Manifest, draft: Path, name: str) -> None:
    for member in manifest.members:
        path = draft / member.name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with (
            atomic.replacing(path, mode=0o600, overwrite=False) as part,
            part.open("wb") as file,
        ):
            for piece in _pieces(tar, member.name):
                digest.update(piece)
                file.write(piece)
        if digest.hexdigest() != member.sha256:
            raise MalformedError(f"{name} changed while it was read")


@contextmanager
def _draft(home: Path) -> Iterator[Path]:
    """Yield a folder beside the home, which is removed if it didn't become the home."""
    atomic.make_directory(home.parent)
    draft = home.with_name(f".{home.name}.{secrets.token_hex(4)}.part")
    try:
        draft.mkdir(mode=0o700)
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _check_ledger(before: Settings, after: Settings) -> None:
    """Refuse another ledger: holdings stay registered where they are."""
    contracts = [settings.evm.contract if settings.evm else None for settings in (before, after)]
    if contracts[0] != contracts[1]:
        raise InputError("the settings name another ledger than the backup: it must be the same")


def _fence(draft: Path, keyring: Keyring, now: int, *, moved: bool) -> Verifier | None:
    """Fence off what the old home may have done after the backup; return who signs from now on."""
    if not (draft / DATABASE).exists():
        return None
    with open_engine(str(draft / DATABASE)) as engine:
        migrate(engine)
        if moved:
            signer = current_signer(keyring, engine)
        else:
            settings, key = read_settings(draft), keyring.settings_key()
            values = recorded_settings(draft, settings, read_control(draft), key)
            signer = begin_anew(engine, keyring, configuration_hash(values), draft, now)
    atomic.write(draft / VERIFIER, f"{signer.verifier}\n".encode(), mode=atomic.PRIVATE)
    return signer.verifier


def _place(draft: Path, home: Path, settings: Settings, keyring: Keyring) -> None:
    """Bring the database where the settings have it, and give the home its name."""
    copy, shared = draft / DATABASE, "://" in settings.database
    if copy.exists() and not shared:
        path = draft / settings.database
        if not path.is_relative_to(draft):
            raise InputError(
                "the settings name a database outside the home: give others by --settings"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        copy.rename(path)
    elif copy.exists():
        copy = copy.rename(draft / f"{DATABASE}.copy")
        address = database_address(draft, settings.database, keyring.owner)
        fill_database(copy, address)
        copy.unlink()
    try:
        os.rename(draft, home)  # noqa: PTH104 - it replaces an empty folder, too
    except OSError as error:
        raise InputError(f"{home} appeared meanwhile: name another --home") from error
