"""Checks arguments of the public API, so that a wrong one is an InputError in one sentence."""

from os import PathLike, fspath
from pathlib import Path
from typing import Any

from holdfast.errors import InputError

MAX_NAME_CHARACTERS = 255  # of a file or folder
MAX_PATH_CHARACTERS = 4095
SHOWN_CHARACTERS = 40

Pathname = str | PathLike[str]


def check_text(value: Any, what: str) -> str:
    """Return a name or path as a text that the system can handle."""
    text = fspath(value) if isinstance(value, PathLike) else value
    if not isinstance(text, str) or not text:
        raise InputError(f"{what} must be a text, not {_shown(value)}")
    if "\0" in text or not _is_encodable(text):
        raise InputError(f"{what} has a character that no name can have: {_shown(text)}")
    longest = max(map(len, text.split("/")))
    if longest > MAX_NAME_CHARACTERS or len(text) > MAX_PATH_CHARACTERS:
        raise InputError(f"{what} is too long, with {len(text):,} characters: {_shown(text)}")
    return text


def check_path(value: Any, what: str) -> Path:
    return Path(check_text(value, what)).expanduser()


def check_seed(seed: Any) -> int:
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"a seed is a whole number from 0 on, not {_shown(seed)}")
    return seed


def check_passphrase(passphrase: Any) -> bytes:
    """Return a passphrase as bytes; no message shows it."""
    if isinstance(passphrase, bytes):
        return passphrase
    if not isinstance(passphrase, str) or not _is_encodable(passphrase):
        raise InputError("a passphrase must be a text or bytes")
    return passphrase.encode()


def _is_encodable(text: str) -> bool:
    """Return whether UTF-8 can write a text, also one that stands for a name of other bytes."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
