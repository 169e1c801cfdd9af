"""Refuses secrets in addresses, options and arguments: all of them are stored and shown."""

import re
from collections.abc import Sequence
from itertools import pairwise

from holdfast.checkers.interface import Place
from holdfast.errors import InputError

CURE = "leave it out, and give it in the environment or in a file that the storage's own tools read"
_IN_ADDRESS = re.compile(r"://[^/@]*:[^/@]+@")
_SENSITIVE = (
    r"(?:[\w.-]*[-_.])?(?:pass|passw(?:or)?d|passphrase|secret|token|(?:api|access|secret)[-_]?key)"
)
_NAME = re.compile(_SENSITIVE, re.IGNORECASE)
_FLAG = re.compile(rf"--?{_SENSITIVE}", re.IGNORECASE)
_WITH_VALUE = re.compile(rf"-{{0,2}}({_SENSITIVE})=.+", re.IGNORECASE | re.DOTALL)


def refuse_secrets(place: Place) -> None:
    """Raise if the address or an option holds a secret; it is not repeated."""
    if _IN_ADDRESS.search(place.address):
        raise InputError(f"the address holds a password, which would be shown and stored: {CURE}")
    for name, value in place.options.items():
        if _NAME.fullmatch(name):
            raise InputError(f"the option {name} holds a secret, which would be stored: {CURE}")
        if _IN_ADDRESS.search(value):
            raise InputError(
                f"the option {name} holds an address with a password, which would be shown and "
                f"stored: {CURE}"
            )


def refuse_secret_arguments(command: Sequence[str]) -> None:
    """Raise if an argument of a program is plainly a secret, such as that of `--password`."""
    flags = [
        flag for flag, value in pairwise(command) if _FLAG.fullmatch(flag) and value[:1] != "-"
    ]
    flags += [match[1] for match in map(_WITH_VALUE.fullmatch, command) if match]
    if flags:
        raise InputError(
            f"the command has a secret as its argument {flags[0].lstrip('-')}, which would be "
            "shown and stored: have the program read it from its environment or from a file"
        )
