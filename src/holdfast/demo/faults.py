"""What is done to nodes behind the owner's back: blocks dropped, bytes that rot, a power cut.

Each harm is planned in full before the story begins, so that what other rules would have made of
the very same harm can be computed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.control.scheduling.guardrails import DAY, HOUR

SPAN = 28 * DAY  # of the story

Mark = Callable[[bytearray], None]  # what is done to a block


@dataclass(frozen=True)
class Blow:
    """Blocks that go bad at a moment, in milliseconds since the story began."""

    at: int
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class Decay:
    """Blocks that go bad, blow by blow."""

    kind: str
    node: str
    blows: tuple[Blow, ...]
    mark: Mark

    @property
    def begins(self) -> int:
        return self.blows[0].at

    def damaged(self, moment: int) -> set[int]:
        """Return which blocks would be bad by then, had nobody repaired any."""
        return {block for blow in self.blows if blow.at <= moment for block in blow.blocks}


@dataclass(frozen=True)
class Outage:
    """A node that is away for a while, and loses nothing."""

    node: str
    begins: int
    ends: int
    kind: str = "outage"

    def damaged(self, moment: int) -> set[int]:  # noqa: ARG002 - as that of a decay
        return set()


Harm = Decay | Outage


def dropper(node: str, blocks: int, luck: np.random.Generator, begins: int, ends: int) -> Decay:
    """Return a node that saves space at the owner's cost, every eight hours a tenth more."""
    blows = []
    for count, at in enumerate(range(begins, ends, 8 * HOUR)):
        size = min(round(1.1**count), 64)
        blows.append(Blow(at, tuple(luck.choice(blocks, size, replace=False).tolist())))
    return Decay("silent dropper", node, tuple(blows), erase)


def rot(node: str, blocks: int, luck: np.random.Generator, begins: int, ends: int) -> Decay:
    """Return a disc that goes bad: a byte is flipped every 16 hours, each in another block."""
    times = range(begins, ends, 16 * HOUR)
    hit = luck.permutation(blocks)[: len(times)].tolist()
    blows = (Blow(at, (block,)) for at, block in zip(times, hit, strict=True))
    return Decay("slow rot", node, tuple(blows), flip)


def erase(block: bytearray) -> None:
    block[:] = bytes(len(block))


def flip(block: bytearray) -> None:
    block[len(block) // 2] ^= 0x10


def strike(path: Path, blocks: tuple[int, ...], size: int, mark: Mark) -> None:
    """Damage these blocks where the node keeps them; it is not told."""
    with path.open("r+b") as file:
        for index in blocks:
            file.seek(index * size)
            block = bytearray(file.read(size))
            mark(block)
            file.seek(index * size)
            file.write(block)


def differing(path: Path, original: bytes, size: int) -> list[int]:
    """Return the blocks that are not what the owner put there."""
    ours, theirs = np.frombuffer(original, np.uint8), np.fromfile(path, np.uint8)
    found: list[int] = np.unique(np.flatnonzero(ours != theirs) // size).tolist()
    return found


def planned(blocks: int, seed: int) -> tuple[Harm, ...]:
    """Return what is done to whom in the four weeks."""
    luck = np.random.default_rng((seed, 1))
    return (
        rot("barn", blocks, luck, begins=2 * DAY, ends=20 * DAY),
        dropper("cellar", blocks, luck, begins=6 * DAY, ends=SPAN),
        # Longer than two audits ever lie apart, or it might be over before anyone can notice.
        Outage("loft", begins=11 * DAY + 6 * HOUR, ends=17 * DAY + 6 * HOUR),
    )
