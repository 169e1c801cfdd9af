"""The commands of ours that documents show."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.blocks import blocks_of

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])


@dataclass(frozen=True)
class Command:
    document: Path
    line: int
    words: tuple[str, ...]  # behind `holdfast`

    def __str__(self) -> str:
        return f"{self.document.stem}:{self.line}:{'-'.join(self.words[:2])}"


def commands_of(document: Path) -> Iterator[Command]:
    """Yield each line of a block that begins with our name, whatever it assigns before it."""
    for block in blocks_of(document):
        whole = block.text.replace("\\\n", "\\\0")  # so that lines keep their numbers
        for number, line in enumerate(whole.split("\n")):
            told = line.replace("\\\0", " ")
            if re.match(r"(?:\w+=\S* +)*holdfast ", told):
                words = shlex.split(told, comments=True)
                at = block.line + 1 + number + whole[: whole.index(line)].count("\0")
                yield Command(document, at, tuple(_plain(words[words.index("holdfast") + 1 :])))


def _plain(words: list[str]) -> list[str]:
    """Leave out where a shell sends the output."""
    for at, word in enumerate(words):
        if word in {">", "&", "&&", "|", "2>"}:
            return words[:at]
    return words
