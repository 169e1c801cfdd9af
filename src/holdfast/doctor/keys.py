"""Checks the keys: the passphrase opens the secret, and nobody else can read secret files."""

from collections.abc import Iterator
from pathlib import Path

from holdfast.doctor.finding import Check, fault, ok, one_line, warning
from holdfast.errors import HoldfastError, PassphraseError
from holdfast.node.identity import read_owner
from holdfast.owner.home import KEY, PUBLIC
from holdfast.owner.keyring import Keyring, read_keyring

PART = "keys"


def open_keyring(folder: Path, passphrase: bytes | None) -> tuple[Keyring | None, list[Check]]:
    """Return the secret, if the passphrase opens it, and the checks of it."""
    path = folder / KEY
    if passphrase is None:
        message = f"no passphrase was given, so it is not known whether {path} can be opened"
        cure = "give --passphrase-file, set HOLDFAST_PASSPHRASE, or run doctor in a terminal"
        return None, [warning(PART, message, cure)]
    try:
        keyring = read_keyring(path, passphrase)
    except PassphraseError:
        cure = (
            "give the right passphrase by --passphrase-file or HOLDFAST_PASSPHRASE; if nobody "
            "knows it, make a new home by `holdfast init`: this one can't be recovered"
        )
        return None, [fault(PART, f"the passphrase does not open {path}", cure)]
    except HoldfastError as error:
        cure = "bring it back from a backup: `holdfast restore BACKUP --home DIR`"
        return None, [fault(PART, one_line(str(error)), cure)]
    return keyring, [ok(PART, f"the passphrase opens {path}"), *_public(folder, keyring)]


def _public(folder: Path, keyring: Keyring) -> Iterator[Check]:
    path, cure = folder / PUBLIC, "bring it back from a backup, or from another host of this owner"
    if not path.exists():
        yield warning(PART, f"there is no {path}, by which nodes and databases know you", cure)
    elif read_owner(str(path)) != keyring.owner:
        yield fault(PART, f"{path} is of another owner than {folder / KEY}", cure)


def check_modes(folder: Path, secrets: list[Path]) -> Iterator[Check]:
    """Report files that others on this machine can read."""
    for path, right in ((folder, 0o700), *((path, 0o600) for path in secrets)):
        if path.exists() and path.stat().st_mode & 0o077:
            message = f"others on this machine can read {path}, or write to it"
            yield warning(PART, message, f"chmod {right:o} {path}")
