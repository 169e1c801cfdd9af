"""The benchmark of inference counts what holds."""

import pytest
from benchmarks import inference


@pytest.mark.slow
def test_it_tells_how_often_intervals_hold_and_what_came_back() -> None:
    steps: list[str] = []
    found = inference.measure(
        fleets=1, nodes=10, recovered=50, say=steps.append, policies=("constant:7,0.10",)
    )
    assert set(found["coverage"]) == {"constant:7,0.10"}
    assert 0 <= found["coverage"]["constant:7,0.10"]["holding_damage"] <= 1
    assert set(found["recovery"]) >= {"malicious_share", "honest_rate", "malicious_rate"}
    assert len(steps) == 3
