"""Passphrases given by environment variables: taken out of the environment before anything starts.

A child inherits the environment, and any process of the same user can read that with which another
one was started, in `/proc/PID/environ`. So a command keeps them in memory, wipes them there, and
hands them to those children alone that need them, through a pipe.
"""

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

PASSPHRASE = "HOLDFAST_PASSPHRASE"  # noqa: S105 - the name of a variable
NEW_PASSPHRASE = "HOLDFAST_NEW_PASSPHRASE"  # noqa: S105 - as above
KEYSTORE_PASSPHRASE = "HOLDFAST_KEYSTORE_PASSPHRASE"  # noqa: S105 - as above
VARIABLES = (PASSPHRASE, NEW_PASSPHRASE, KEYSTORE_PASSPHRASE)

_withdrawn: dict[str, bytes] = {}


def secret(variable: str) -> bytes | None:
    """Return what a variable was set to, if it was."""
    value = os.environb.get(variable.encode())
    return _withdrawn.get(variable) if value is None else value


@contextmanager
def withdrawn() -> Iterator[None]:
    """Keep the secrets out of the environment for as long as a command runs."""
    found = {name: os.environb[name.encode()] for name in VARIABLES if name in os.environ}
    for name in found:
        _wipe(name)
        del os.environ[name]
    _withdrawn.update(found)
    try:
        yield
    finally:
        for name, value in found.items():
            del _withdrawn[name]
            os.environb[name.encode()] = value


def accept(secrets: Mapping[str, bytes]) -> None:
    """Take over, in a child, what its parent has handed to it."""
    _withdrawn.update(secrets)


def _wipe(name: str) -> None:
    """Overwrite a variable's value where the process was given it."""
    with suppress(OSError, AttributeError):  # where there is no such C library, it stays
        getenv = ctypes.CDLL(None).getenv
        getenv.argtypes, getenv.restype = [ctypes.c_char_p], ctypes.c_void_p
        place = getenv(name.encode())
        if place:
            ctypes.memset(place, 0, len(ctypes.string_at(place)))
