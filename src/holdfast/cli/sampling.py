"""How many blocks an audit samples, as users say it: a number, a share, or a confidence."""

from typing import Annotated

import typer

from holdfast.errors import InputError
from holdfast.model.detection import samples, samples_for

SampleCount = Annotated[int | None, typer.Option("--samples", help="How many blocks to sample.")]
Ratio = Annotated[float | None, typer.Option(help="Share of the blocks to sample.")]
Confidence = Annotated[
    float, typer.Option(help="Sample enough to find --damage with this probability.")
]
DamageShare = Annotated[float, typer.Option(help="Share of damaged blocks to be found.")]


def damaged_blocks(damage: float, blocks: int) -> int:
    if not 0 < damage <= 1:
        raise InputError(f"--damage must lie above 0 and at most at 1, not at {damage:g}")
    return max(1, round(damage * blocks))


def sample_count(
    blocks: int, count: int | None, ratio: float | None, confidence: float, damaged: int
) -> int:
    if count is not None and ratio is not None:
        raise InputError("give --samples or --ratio, not both")
    if not 0 < confidence < 1:
        raise InputError(f"--confidence must lie between 0 and 1, not at {confidence:g}")
    if count is not None:
        if not 1 <= count <= blocks:
            raise InputError(f"--samples must lie between 1 and {blocks}, not at {count}")
        return count
    if ratio is not None:
        if not 0 < ratio <= 1:
            raise InputError(f"--ratio must lie above 0 and at most at 1, not at {ratio:g}")
        return int(samples(ratio, blocks, blocks))
    return samples_for(confidence, damaged, blocks)
