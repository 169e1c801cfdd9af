"""The benchmark of the node reports the ratios it promises; how large they are is not tested."""

import pytest

from holdfast.bench.node import measure


@pytest.mark.slow
def test_ratios_are_those_of_the_rates_beside_them() -> None:
    steps: list[str] = []
    found = measure(rounds=1, size=1 << 20, say=steps.append)
    rates = {name: rate for name, rate in found.items() if name != "reference"}
    assert all(rate > 0 for rate in rates.values())
    for sampled in ("S16_s460", "S128_s265"):
        ratio = found[f"proofs_per_second_{sampled}"] / found[f"prover_per_second_{sampled}"]
        assert abs(found[f"proofs_over_prover_{sampled}"] / ratio - 1) < 1e-9
        cpu = found[f"node_cpu_ms_{sampled}"] / found[f"prover_cpu_ms_{sampled}"]
        assert abs(found[f"node_cpu_over_prover_{sampled}"] / cpu - 1) < 1e-9
    cold = found["cold_proof_ms"] / found["serial_reads_ms"]
    assert abs(found["cold_over_serial"] / cold - 1) < 1e-9
    ratio = found["upload_mb_per_second"] / found["copy_mb_per_second"]
    assert abs(found["upload_over_copy"] / ratio - 1) < 1e-9
    assert steps, "it says what it does"
