"""One setting of `holdfast.toml` changed, and every other line left as it is."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from holdfast import atomic
from holdfast.control.settings import MAX_SETTINGS_BYTES
from holdfast.errors import InputError

_TABLE = re.compile(r"\s*\[\s*control\s*\]\s*(#.*)?")
_ANY_TABLE = re.compile(r"\s*\[")
_POLICY = re.compile(r"""(\s*policy\s*=\s*)(?:"(?:[^"\\]|\\.)*"|'[^']*')(.*)""", re.DOTALL)


def set_policy(home: Path, policy: str) -> None:
    """Write `[control] policy`; a file whose lines don't tell where is refused."""
    path = home / "holdfast.toml"
    text = atomic.read(path, at_most=MAX_SETTINGS_BYTES).decode() if path.exists() else ""
    wanted = tomllib.loads(text)
    wanted["control"] = {**wanted.get("control", {}), "policy": policy}
    amended = _amended(text, json.dumps(policy, ensure_ascii=False))
    if _parsed(amended) != wanted:
        raise InputError(f"{path} has its policy in a form of its own: set it there by hand")
    atomic.write(path, amended.encode(), mode=atomic.PRIVATE)


def _amended(text: str, policy: str) -> str:
    lines = text.split("\n")  # which leaves every end of a line as it is
    table = next((at for at, each in enumerate(lines) if _TABLE.fullmatch(each)), None)
    if table is None:
        return f"{text.rstrip()}\n\n[control]\npolicy = {policy}\n".lstrip()
    for at in range(table + 1, len(lines)):
        if _ANY_TABLE.match(lines[at]):
            break
        if found := _POLICY.fullmatch(lines[at]):
            lines[at] = f"{found[1]}{policy}{found[2]}"
            return "\n".join(lines)
    lines.insert(table + 1, f"policy = {policy}")
    return "\n".join(lines)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
