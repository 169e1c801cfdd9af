"""Takes passphrases out of the environment before a command starts.

A child inherits the environment, and any process of the same user can read it in
`/proc/PID/environ`. So a command keeps the passphrases in memory, wipes them in the environment,
and hands them through a pipe to those children that need them.
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
def withdraw_secrets() -> Iterator[None]:
    """Keep the secrets out of the environment for as long as a command runs."""
    values = {name: os.environb[name.encode()] for name in VARIABLES if name in os.environ}
    for name in values:
        _wipe(name)
        del os.environ[name]
    _withdrawn.update(values)
    try:
        yield
    finally:
        for name, value in values.items():
            del _withdrawn[name]
            os.environb[name.encode()] = value


def accept(secrets: Mapping[str, bytes]) -> None:
    """Accept, in a child, the secrets that its parent handed over."""
    _withdrawn.update(secrets)


def _wipe(name: str) -> None:
    """Overwrite a variable's value in the process's memory."""
    with suppress(OSError, AttributeError):  # where there is no such C library, it stays
        getenv = ctypes.CDLL(None).getenv
        getenv.argtypes, getenv.restype = [ctypes.c_char_p], ctypes.c_void_p
        address = getenv(name.encode())
        if address:
            ctypes.memset(address, 0, len(ctypes.string_at(address)))
