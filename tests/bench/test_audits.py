"""The benchmark of whole audits, on few holdings."""

import pytest

from holdfast.bench import audits

pytestmark = pytest.mark.slow


@pytest.mark.slow(seconds=20)
@pytest.mark.timeout(300)
def test_every_figure_is_measured_on_real_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "NODES", 2)
    monkeypatch.setattr(audits, "HUNG_SECONDS", 1.0)
    steps: list[str] = []
    figures = audits.measure(
        count=16,
        many=24,
        rounds=1,
        cold_bytes=8 << 20,
        points=((2, 16),),
        main=(2, 16),
        say=steps.append,
    )
    main = figures["S2_s16"]
    assert figures["audits_per_second_per_core"] == main["audits_per_second"] > 0
    assert figures["worker_over_reference_prover"] == pytest.approx(
        main["worker_cpu_ms"] / main["reference_prover_cpu_ms"]
    )
    assert figures["node_over_prover"] >= 0
    assert figures["with_a_quarter_hung_over_all_well"] > 0
    assert figures["cpu_24_over_16_holdings"] > 0
    assert figures["cold_over_serial"] > 0
    assert len(steps) == 4
