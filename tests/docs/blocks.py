"""The blocks of code in our documents."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCED = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    words: tuple[str, ...]  # what stands behind the language
    text: str
    line: int


def blocks_of(document: Path) -> Iterator[Block]:
    content = document.read_text()
    for found in FENCED.finditer(content):
        language, *words = found["info"].split() or [""]
        yield Block(language, tuple(words), found["text"], content[: found.start()].count("\n") + 1)
