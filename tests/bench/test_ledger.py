"""The gas of the contract's calls stays within what was promised."""

import pytest

from holdfast.bench.ledger import measure
from holdfast.ledger import price


@pytest.mark.slow
def test_gas_stays_within_its_limits() -> None:
    steps: list[str] = []
    gas = measure(say=steps.append, sectors=(1, 16))["gas"]
    assert gas["pass_s1"] <= 31_700
    assert gas["pass_s1_spread"] < 100
    assert gas["batch_100_per_proof"] <= 10_600
    assert gas["open_batch_1000_per_challenge"] <= 1_250
    assert gas["pass_S16"] <= 133_000
    assert steps, "it says what it does"

    # Plans count with these prices: random values make gas differ by a hundred or so.
    assert gas["pass_S1"] == pytest.approx(price.PASSING[1], rel=0.01)
    assert gas["pass_S16"] == pytest.approx(price.PASSING[16], rel=0.01)
    assert gas["open"] == pytest.approx(price.OPENING, rel=0.01)
    assert gas["batch_100_per_proof"] == pytest.approx(price.PASSING_IN_A_BATCH[1], rel=0.01)
    assert gas["batch_S16_per_proof"] == pytest.approx(price.PASSING_IN_A_BATCH[16], rel=0.01)
    assert gas["open_batch_1000_per_challenge"] == pytest.approx(price.OPENING_IN_A_BATCH, rel=0.01)
