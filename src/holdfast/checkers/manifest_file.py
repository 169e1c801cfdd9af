"""Manifests: lists of files and their hashes, as other tools write them.

Read are the lines of GNU coreutils (`HASH  NAME`, `HASH *NAME`, escaped names), of BSD
(`SHA256 (NAME) = HASH`) and of `rclone hashsum`, and the manifests of a BagIt bag.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.checkers.hashed_objects import Expected
from holdfast.errors import InputError

ALGORITHMS = {32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}  # by digits of their hashes
BAG_MANIFEST = re.compile(r"(?:tag)?manifest-([a-z0-9]+)\.txt")
_GNU = re.compile(r"(?P<escaped>\\?)(?P<digest>[0-9a-fA-F]+) [ *](?P<name>.+)")
_BSD = re.compile(r"(?P<escaped>\\?)(?P<tag>[A-Z0-9]+) \((?P<name>.+)\) = (?P<digest>[0-9a-fA-F]+)")
_BAG = re.compile(r"(?P<digest>[0-9a-fA-F]+)[ \t]+\*?(?P<name>.+)")
_BACKSLASHED = {"\\\\": "\\", "\\n": "\n", "\\r": "\r"}


@dataclass(frozen=True)
class Line:
    """One line of a manifest, before anything in it is believed."""

    name: str
    digest: str
    algorithm: str | None = None  # if the line says it


def parse_manifest(content: bytes, source: str, bag_algorithm: str | None) -> dict[str, Expected]:
    """Return the files that a manifest lists, by their names; `source` names it in an error.

    `bag_algorithm` is that of a bag's manifest, which its file name says.
    """
    entries: dict[str, Expected] = {}
    numbers: dict[str, int] = {}
    text = content.decode(errors="surrogateescape").removeprefix("\N{BYTE ORDER MARK}")
    parse = _parse_bag_line(bag_algorithm) if bag_algorithm else _parse_line
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            entry = _expect(parse(line.removesuffix("\r")))
        except ValueError as error:
            raise InputError(f"line {number} of {source} {error}") from error
        first = entries.setdefault(entry.name, entry)
        if first != entry:
            raise InputError(
                f"lines {numbers[entry.name]} and {number} of {source} give two hashes for "
                f"{entry.name!r}: remove the wrong one"
            )
        numbers.setdefault(entry.name, number)
    if not entries:
        raise InputError(f"{source} lists no file: write it anew, with sha256sum for example")
    return entries


def _parse_line(line: str) -> Line:
    match = _GNU.fullmatch(line) or _BSD.fullmatch(line)
    if match is None:
        raise ValueError("is no hash and name, as sha256sum or rclone hashsum writes them")
    fields = match.groupdict()
    name = _unescape(fields["name"]) if fields["escaped"] else fields["name"]
    return Line(name, fields["digest"], fields["tag"].lower() if "tag" in fields else None)


def _parse_bag_line(algorithm: str) -> Callable[[str], Line]:
    def parse(line: str) -> Line:
        match = _BAG.fullmatch(line)
        if match is None:
            raise ValueError("is no hash and path, as a bag has them")
        # A bag encodes these three and nothing else.
        path = re.sub("%(0[AaDd]|25)", lambda found: chr(int(found[1], 16)), match["name"])
        return Line(path, match["digest"], algorithm)

    return parse


def _expect(line: Line) -> Expected:
    algorithm = ALGORITHMS.get(len(line.digest))
    if algorithm is None:
        known = ", ".join(ALGORITHMS.values())
        raise ValueError(f"has a hash of {len(line.digest)} digits: we know {known}")
    if line.algorithm not in {None, algorithm}:
        raise ValueError(f"says {line.algorithm}, but its hash has the length of {algorithm}")
    return Expected(_inside(line.name), algorithm, line.digest.lower())


def _inside(name: str) -> str:
    """Return the path as a listing has it; it may not leave the folder of the files."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    if name.startswith("/") or ".." in parts or "\0" in name or not parts:
        raise ValueError(f"names {name!r}, which is no path below the address")
    return "/".join(parts)


def _unescape(name: str) -> str:
    pieces = re.findall(r"\\.?|[^\\]+", name, re.DOTALL)
    if any(piece.startswith("\\") and piece not in _BACKSLASHED for piece in pieces):
        raise ValueError("has a backslash that stands for nothing")
    return "".join(_BACKSLASHED.get(piece, piece) for piece in pieces)
