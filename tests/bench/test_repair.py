"""The benchmark of localising and repairing, over a small file."""

import pytest

from holdfast.bench import repair


@pytest.mark.slow
def test_damage_is_localised_and_repaired_at_a_rate() -> None:
    figures = repair.measure(size=1 << 20, say=lambda _step: None)
    assert figures["blocks"] == (1 << 20) // 496 + 1
    rates = [name for name in figures if "blocks_per_s" in name]
    assert len(rates) == 3
    assert all(figures[name] > 0 for name in rates)
