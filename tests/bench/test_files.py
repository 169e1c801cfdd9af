"""The benchmark of files reports the ratios it promises; how large they are is not tested."""

import json

import pytest

from holdfast.bench.files import measure
from holdfast.cli.app import run


@pytest.mark.slow(seconds=10)
def test_ratios_are_those_of_the_times_beside_them() -> None:
    steps: list[str] = []
    figures = measure(size=1 << 20, encrypted=True, say=steps.append)
    for name in ("put", "get"):
        ratio = figures[f"{name}_seconds"] / figures["copy_seconds"]
        assert figures[f"{name}_over_copy"] == ratio > 0
    assert figures["node_cpu_s_per_gib"] > 0
    assert steps, "it says what it does"


@pytest.mark.slow
def test_the_figures_of_files_are_printed_as_data_and_as_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.bench.files.REPAIR", "holdfast.bench.no_such_benchmark")
    assert run(["bench", "files", "--size-mib", "1", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert {"put_over_copy", "get_over_copy", "node_cpu_s_per_gib"} <= figures.keys()
    assert run(["bench", "files", "--size-mib", "1"]) == 0
    assert "put_over_copy" in capsys.readouterr().out
