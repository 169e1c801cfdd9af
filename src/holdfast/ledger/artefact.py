"""The compiled contract, as it ships: one artefact per number of sectors a block."""

import hashlib
import json
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from holdfast.errors import InputError

SECTORS = (1, 4, 16, 64, 128)
_FOLDER = files("holdfast.ledger") / "contract"


@dataclass(frozen=True)
class Artefact:
    sectors: int
    compiler: str
    source_sha256: str
    abi: list[Any]
    bytecode: str
    code_sha256: str  # of what a chain keeps of it

    def encode(self) -> bytes:
        return json.dumps(vars(self), indent=1).encode() + b"\n"


def sources(sectors: int) -> dict[str, str]:
    """Return the contract's files for that number of sectors."""
    check = "one.vy" if sectors == 1 else "many.vy"
    return {
        name: re.sub(
            r"(?m)^SECTORS: .*$",
            f"SECTORS: constant(uint256) = {sectors}",
            (_FOLDER / file).read_text(),
        )
        for name, file in (("audit.vy", "audit.vy"), ("check.vy", check))
    }


def source_hash(contract: dict[str, str]) -> str:
    return hashlib.sha256("\0".join(contract.values()).encode()).hexdigest()


def file_name(sectors: int) -> str:
    return f"audit_{sectors}.json"


def load(sectors: int) -> Artefact:
    if sectors not in SECTORS:
        known = ", ".join(map(str, SECTORS))
        raise InputError(f"there is no contract for {sectors} sectors a block, only for {known}")
    return Artefact(**json.loads((_FOLDER / file_name(sectors)).read_text()))
