"""The damage is real: it is in the files, and only where it was planned."""

import os
from pathlib import Path

import pytest

from holdfast.demo.faults import (
    SPAN,
    Corruption,
    Mark,
    Outage,
    corrupt,
    damaged_blocks,
    erase,
    flip,
    plan_faults,
)

SIZE = 100
BLOCKS = 40


@pytest.mark.parametrize("mark", [erase, flip])
def test_just_the_corrupted_blocks_differ(tmp_path: Path, mark: Mark) -> None:
    original = os.urandom(SIZE * BLOCKS - 30)
    path = tmp_path / "data"
    path.write_bytes(original)
    assert damaged_blocks(path, original, SIZE) == []
    corrupt(path, (3, 17, BLOCKS - 1), SIZE, mark)
    assert damaged_blocks(path, original, SIZE) == [3, 17, BLOCKS - 1]
    assert path.stat().st_size == len(original)


def test_a_seed_names_one_plan_and_no_rotten_byte_is_flipped_back() -> None:
    again, other = plan_faults(4000, seed=1), plan_faults(4000, seed=2)
    assert plan_faults(4000, seed=1) == again != other
    rot, dropper, outage = again
    assert isinstance(rot, Corruption)
    assert isinstance(dropper, Corruption)
    assert isinstance(outage, Outage)
    assert len(rot.damaged(SPAN)) == len(rot.steps)
    assert len(dropper.steps[-1].blocks) > len(dropper.steps[0].blocks)
    assert len({fault.node for fault in again}) == 3  # one fault per node
