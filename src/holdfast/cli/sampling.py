"""How many blocks an audit samples: given as a number, a share or a confidence."""

from typing import Annotated

import typer

from holdfast.errors import InputError
from holdfast.model.detection import samples, samples_for

SampleCount = Annotated[int | None, typer.Option("--samples", help="How many blocks to sample.")]
Ratio = Annotated[float | None, typer.Option(help="Share of the blocks to sample.")]
Confidence = Annotated[
    float, typer.Option(help="Sample enough to detect --damage with this probability.")
]
DamageShare = Annotated[float, typer.Option(help="Share of damaged blocks to detect.")]


def damaged_blocks(damage: float, blocks: int) -> int:
    if not 0 < damage <= 1:
        raise InputError(f"--damage must be above 0 and at most 1, not {damage:g}")
    return max(1, round(damage * blocks))


def sample_count(
    blocks: int, count: int | None, ratio: float | None, confidence: float, damaged: int
) -> int:
    if count is not None and ratio is not None:
        raise InputError("give --samples or --ratio, not both")
    if not 0 < confidence < 1:
        raise InputError(f"--confidence must be between 0 and 1, not {confidence:g}")
    if count is not None:
        if not 1 <= count <= blocks:
            raise InputError(f"--samples must be between 1 and {blocks}, not {count}")
        return count
    if ratio is not None:
        if not 0 < ratio <= 1:
            raise InputError(f"--ratio must be above 0 and at most 1, not {ratio:g}")
        return int(samples(ratio, blocks, blocks))
    return samples_for(confidence, damaged, blocks)
