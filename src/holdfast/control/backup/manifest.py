"""What a backup says of itself: its version, and the size and SHA-256 of all that is in it."""

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
    schema: str | None  # of the control plane's database, if there is one
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
            members = tuple(Member(**each) for each in fields.pop("members"))
            found = cls(**fields, members=members)
            sound = all(_is_relative(each.name) and each.bytes >= 0 for each in members)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise MalformedError(f"{name} is not a backup of Holdfast") from error
        if not sound or len({each.name for each in members}) != len(members):
            raise MalformedError(f"{name} has names in it that no backup has")
        return found


def _is_relative(name: str) -> bool:
    path = PurePosixPath(name)
    return (
        str(path) == name and bool(path.name) and not path.is_absolute() and ".." not in path.parts
    )
