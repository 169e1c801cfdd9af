"""The faults that strike nodes: blocks dropped, bytes that rot, a power cut.

They are planned in full before the run begins, so that the demo can compute how other rules would
have handled them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.durations import DAY, HOUR

SPAN = 28 * DAY  # of the run

Mark = Callable[[bytearray], None]  # what is done to a block


@dataclass(frozen=True)
class Damage:
    """Blocks that go bad at a moment, in milliseconds since the run began."""

    at: int
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class Corruption:
    """Blocks that go bad, step by step."""

    kind: str
    node: str
    steps: tuple[Damage, ...]
    mark: Mark

    @property
    def begins(self) -> int:
        return self.steps[0].at

    def damaged(self, moment: int) -> set[int]:
        """Return which blocks would be bad by then, had nobody repaired any."""
        return {block for step in self.steps if step.at <= moment for block in step.blocks}


@dataclass(frozen=True)
class Outage:
    """A node that is unreachable for a while, and loses nothing."""

    node: str
    begins: int
    ends: int
    kind: str = "outage"

    def damaged(self, moment: int) -> set[int]:  # noqa: ARG002 - as of a corruption
        return set()


Fault = Corruption | Outage


def dropper(node: str, blocks: int, rng: np.random.Generator, begins: int, ends: int) -> Corruption:
    """Return a node that saves space at the owner's cost, every eight hours a tenth more."""
    steps = []
    for count, at in enumerate(range(begins, ends, 8 * HOUR)):
        size = min(round(1.1**count), 64)
        steps.append(Damage(at, tuple(rng.choice(blocks, size, replace=False).tolist())))
    return Corruption("silent dropper", node, tuple(steps), erase)


def rot(node: str, blocks: int, rng: np.random.Generator, begins: int, ends: int) -> Corruption:
    """Return a disc that goes bad: a byte is flipped every 16 hours, always in another block."""
    times = range(begins, ends, 16 * HOUR)
    hit = rng.permutation(blocks)[: len(times)].tolist()
    steps = (Damage(at, (block,)) for at, block in zip(times, hit, strict=True))
    return Corruption("slow rot", node, tuple(steps), flip)


def erase(block: bytearray) -> None:
    block[:] = bytes(len(block))


def flip(block: bytearray) -> None:
    block[len(block) // 2] ^= 0x10


def corrupt(path: Path, blocks: tuple[int, ...], size: int, mark: Mark) -> None:
    """Damage these blocks in the node's files, without its knowledge."""
    with path.open("r+b") as file:
        for index in blocks:
            file.seek(index * size)
            block = bytearray(file.read(size))
            mark(block)
            file.seek(index * size)
            file.write(block)


def damaged_blocks(path: Path, original: bytes, size: int) -> list[int]:
    """Return the blocks that are not what the owner put there."""
    ours, theirs = np.frombuffer(original, np.uint8), np.fromfile(path, np.uint8)
    blocks: list[int] = np.unique(np.flatnonzero(ours != theirs) // size).tolist()
    return blocks


def plan_faults(blocks: int, seed: int) -> tuple[Fault, ...]:
    """Return the faults of the four weeks."""
    rng = np.random.default_rng((seed, 1))
    return (
        rot("barn", blocks, rng, begins=2 * DAY, ends=20 * DAY),
        dropper("cellar", blocks, rng, begins=6 * DAY, ends=SPAN),
        # Longer than two audits ever lie apart, or it might be over before anyone can notice.
        Outage("loft", begins=11 * DAY + 6 * HOUR, ends=17 * DAY + 6 * HOUR),
    )
