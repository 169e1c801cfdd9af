"""Texts that a tool or a storage gave, as a leaf may hold them: of one line, and bounded.

What can't be printed is escaped as in Python, and so is the backslash. Two texts that differ never
look the same, unless they are cut off.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import accumulate, takewhile

from holdfast.evidence.codecs import LONGEST_TEXT

MAX_WORDS = 4096
CUT = "\N{HORIZONTAL ELLIPSIS}"
_DIGEST = 16  # hexadecimal digits by which two long names that begin alike differ
_LONGEST_ESCAPE = len(r"\U0010ffff")
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4})|([nrt\\]))"
)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}


def escape_words(words: str) -> str:
    """Return a tool's own words; the end of them, if a leaf can't hold them all."""
    escaped = _escape(words[-MAX_WORDS - 1 :])
    return escaped if len(escaped) <= MAX_WORDS else CUT + _escape_end(words, MAX_WORDS - 1)


def hash_words(words: str) -> bytes:
    return hashlib.sha256(_encode(words)).digest()


def are_words(escaped: str, digest: bytes) -> bool:
    """Return whether these may be the words with that hash: those that were cut off may always."""
    cut = escaped.startswith(CUT) and len(escaped) > MAX_WORDS - _LONGEST_ESCAPE
    return cut or hash_words(_unescape(escaped)) == digest


def escape_name(name: str) -> str:
    """Return a name. The end of a long one is its hash, so that no two are the same."""
    escaped = _escape(name[: LONGEST_TEXT + 1])
    if len(escaped) <= LONGEST_TEXT:
        return escaped
    digest = hash_words(name).hex()[:_DIGEST]
    return f"{_escape_start(name, LONGEST_TEXT - len(CUT) - _DIGEST)}{CUT}{digest}"


def hash_names(names: Iterable[str]) -> bytes:
    """Return the SHA-256 of names, escaped and each followed by a line break."""
    digest = hashlib.sha256()
    for name in names:
        digest.update(_encode(_escape(name)) + b"\n")
    return digest.digest()


def _escape(text: str) -> str:
    return "".join(_escape_each(text))


def _escape_start(text: str, length: int) -> str:
    """Return as much of a text as fits, without half an escape at its end."""
    return "".join(_fitting(list(_escape_each(text[:length])), length))


def _escape_end(text: str, length: int) -> str:
    """Return as much of the end of a text as fits, without half an escape at its beginning."""
    pieces = list(_escape_each(text[-length:]))
    return "".join(reversed(_fitting(pieces[::-1], length)))


def _fitting(pieces: list[str], length: int) -> list[str]:
    lengths = takewhile(length.__ge__, accumulate(map(len, pieces)))
    return pieces[: sum(1 for _ in lengths)]


def _escape_each(text: str) -> Iterator[str]:
    for char in text:
        plain = char.isprintable() and char != "\\"
        yield char if plain else char.encode("unicode_escape").decode()


def _unescape(text: str) -> str:
    def char(match: re.Match[str]) -> str:
        letter = match[match.lastindex or 0]
        return _LETTERS[letter] if match[4] else chr(int(letter, 16))

    return _ESCAPE.sub(char, text)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
