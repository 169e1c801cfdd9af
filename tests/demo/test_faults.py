"""The harm is real: it is in the files, and only where it was planned."""

import os
from pathlib import Path

import pytest

from holdfast.demo.faults import SPAN, Decay, Mark, Outage, differing, erase, flip, planned, strike

SIZE = 100
BLOCKS = 40


@pytest.mark.parametrize("mark", [erase, flip])
def test_just_the_blocks_that_were_struck_differ(tmp_path: Path, mark: Mark) -> None:
    original = os.urandom(SIZE * BLOCKS - 30)
    path = tmp_path / "data"
    path.write_bytes(original)
    assert differing(path, original, SIZE) == []
    strike(path, (3, 17, BLOCKS - 1), SIZE, mark)
    assert differing(path, original, SIZE) == [3, 17, BLOCKS - 1]
    assert path.stat().st_size == len(original)


def test_a_seed_names_one_plan_and_no_rotten_byte_is_flipped_back() -> None:
    again, other = planned(4000, seed=1), planned(4000, seed=2)
    assert planned(4000, seed=1) == again != other
    rot, dropper, outage = again
    assert isinstance(rot, Decay)
    assert isinstance(dropper, Decay)
    assert isinstance(outage, Outage)
    assert len(rot.damaged(SPAN)) == len(rot.blows)
    assert len(dropper.blows[-1].blocks) > len(dropper.blows[0].blocks)
    assert len({harm.node for harm in again}) == 3  # so that each has its own trace
