"""The manifest of a backup: its version, and the size and SHA-256 of every file in it."""

import json
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, Self

from holdfast import jsontext
from holdfast.errors import InputError, MalformedError

FORMAT = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Member:
    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a backup holds, so that a restore can refuse it before it writes anything."""

    format: int
    holdfast: str
    schema: str | None  # of the database, if there is one
    made: int
    members: tuple[Member, ...]

    def encode(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def decode(cls, content: bytes, name: str) -> Self:
        try:
            fields: dict[str, Any] = jsontext.loads(content.decode())
            if fields["format"] > FORMAT:
                raise InputError(
                    f"{name} was made by a newer Holdfast ({fields['holdfast']}): upgrade this one"
                )
            members = tuple(Member(**member) for member in fields.pop("members"))
            manifest = cls(**fields, members=members)
            valid = all(_is_relative(member.name) and member.bytes >= 0 for member in members)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise MalformedError(f"{name} is not a backup of Holdfast") from error
        if not valid or len({member.name for member in members}) != len(members):
            raise MalformedError(f"{name} has names in it that no backup has")
        return manifest


def _is_relative(name: str) -> bool:
    path = PurePosixPath(name)
    return (
        str(path) == name and bool(path.name) and not path.is_absolute() and ".." not in path.parts
    )
