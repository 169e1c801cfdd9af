"""The gas of the contract's calls stays within what was promised."""

from holdfast.bench.ledger import measure


def test_gas_stays_within_its_limits() -> None:
    steps: list[str] = []
    gas = measure(say=steps.append, sectors=(1, 16))["gas"]
    assert gas["pass_s1"] <= 35_000
    assert gas["pass_s1_spread"] < 100
    assert gas["batch_100_per_proof"] <= 11_000
    assert gas["open_batch_1000_per_challenge"] <= 1_500
    assert gas["pass_S16"] <= 140_000
    assert gas["optimistic_per_verdict_1000"] <= 100
    assert steps, "it says what it does"
