"""The benchmark of existing storage reports the ratios it promises; how large they are is free."""

import json

import pytest
from tests.support import parts

from holdfast.cli.app import run

RATIOS = {
    "restic_over_bare",
    "names_over_restic",
    "borg_over_bare",
    "enrol_bytes",
    "enrol_over_download",
    "locate_bytes",
    "scattered_460_s",
    "direct_over_restic_bytes",
}


@pytest.mark.slow(seconds=10)
@pytest.mark.timeout(900)
def test_the_figures_of_existing_storage_are_measured_on_real_repositories(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts.program("restic")
    parts.program("borg", "borgbackup")
    parts.package("s3fs")
    sizes = ["--size-mib", "8", "--direct-mib", "4", "--rounds", "1"]
    sizes += ["--detection-mib", "64", "--detection-runs", "3"]
    assert run(["bench", "existing", *sizes, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures.keys() >= RATIOS
    assert all(figures[name] > 0 for name in RATIOS)
    assert not figures["left_out"]


@pytest.mark.slow
def test_what_a_missing_tool_can_not_measure_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.package("s3fs")
    monkeypatch.setenv("PATH", "")
    assert run(["bench", "existing", "--direct-mib", "1", "--rounds", "1", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["left_out"].keys() == {"restic", "borg"}
    assert "restic_over_bare" not in figures
    assert figures["enrol_bytes"] > 0
