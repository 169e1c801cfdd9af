"""The benchmark of the primitive reports what it promises; how large it is is not tested."""

import pytest

from holdfast.bench.pdp import measure


@pytest.mark.slow
def test_every_promised_figure_is_there() -> None:
    steps: list[str] = []
    found = measure(rounds=1, large_bytes=4 << 20, say=steps.append)
    assert found["tag_over_sha256"].keys() == {"S16", "S128"}
    assert found["prove_over_sha256"].keys() == {"S128_s460", "S128_s460_from_file"}
    ratios = [
        *found["tag_over_sha256"].values(),
        *found["prove_over_sha256"].values(),
        *found["challenge_over_sha256"].values(),
        *found["multiplication_over_sha256"].values(),
        found["tag_two_processes_over_one"],
    ]
    assert all(ratio > 0 for ratio in ratios)
    assert 20 < found["peak_rss_mb"] < 400, "tagging takes bounded memory"
    assert steps, "it says what it does"
