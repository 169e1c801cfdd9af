"""`holdfast evaluate` compares policies, as a table, as data and as a picture."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.checkpoints import MANIFEST, random_weights

from holdfast.cli.app import run
from holdfast.policy.checkpoint import save

MEASURES = {
    *("gas", "latency", "miss_rate", "detections_per_100", "miss_rate_honest"),
    *("miss_rate_malicious", "detected_within", "time_to_detection_p95", "exposure"),
    *("undetected", "audits"),
}


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["evaluate", "--json", *arguments]) == 0
    shown = capsys.readouterr()
    assert not shown.err, "progress is for terminals"
    data: dict[str, Any] = json.loads(shown.out)
    return data


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["evaluate", *arguments]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert "Traceback" not in shown.err
    return shown.err


def test_every_measure_is_data_with_its_interval(capsys: pytest.CaptureFixture[str]) -> None:
    data = evaluated(capsys, "--policy", "constant:7,0.20", "--episodes", "40", "--seed", "3")
    assert (data["scenario"]["name"], data["episodes"], data["seed"]) == ("paper", 40, 3)
    assert data["malicious_share"] == 0.3
    found = data["policies"]["constant:7,0.20"]
    assert set(found) == MEASURES
    assert found.pop("detected_within").keys() == {"7", "14", "30"}
    for estimate in found.values():
        assert estimate["low"] <= estimate["value"] <= estimate["high"]
    assert data["gas"] == found["gas"], "a single policy's measures stand at the top as well"


def test_policies_stand_side_by_side_on_the_same_episodes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = ("--policy", "fixed-low", "--policy", "constant:14,0.20", "--episodes", "30")
    data = evaluated(capsys, *both, "--malicious-share", "0.5")
    alone = evaluated(capsys, *both[2:], "--malicious-share", "0.5")
    assert list(data["policies"]) == ["fixed-low", "constant:14,0.20"]
    assert "gas" not in data
    assert data["policies"]["constant:14,0.20"] == alone["policies"]["constant:14,0.20"]

    assert run(["evaluate", *both]) == 0
    table = capsys.readouterr().out
    assert "fixed-low" in table
    assert "constant:14,0.20" in table
    assert "miss rate" in table


def test_a_checkpoint_is_named_by_its_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    save(tmp_path / "run", MANIFEST, random_weights(MANIFEST.architecture))
    name = f"{tmp_path / 'run'}:rho=0.2"
    data = evaluated(capsys, "--policy", name, "--episodes", "5")
    assert list(data["policies"]) == [name]
    assert data["audits"]["value"] > 0
    assert "lowest miss rate" in refused(capsys, "--policy", name.replace("0.2", "0.001"))
    (tmp_path / "run" / "manifest.json").unlink()
    assert "can't read" in refused(capsys, "--policy", name)


@pytest.mark.slow
def test_a_checkpoint_is_served_without_the_frameworks_that_train_it(tmp_path: Path) -> None:
    save(tmp_path, MANIFEST, random_weights(MANIFEST.architecture))
    script = (
        "import sys; from holdfast.cli.app import run;"
        f"code = run(['evaluate', '--json', '--policy', {str(tmp_path)!r}, '--episodes', '2']);"
        "sys.exit(code or ', '.join({'jax', 'torch', 'optax'} & sys.modules.keys()) or 0)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (finished.returncode, finished.stderr) == (0, "")


def test_a_measure_without_a_figure_is_null(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "sound.toml"
    file.write_text("honest_rate = 0\nmalicious_share = 0\n")
    data = evaluated(capsys, "--policy", "fixed-low", "--scenario", str(file), "--episodes", "3")
    assert data["scenario"]["name"] == "sound"
    assert data["miss_rate"] == {"value": None, "low": None, "high": None}
    assert data["exposure"]["value"] == 0
    assert (
        run(["evaluate", "--policy", "fixed-low", "--scenario", str(file), "--episodes", "3"]) == 0
    )


def test_a_file_with_the_name_of_a_scenario_is_another_world(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "drift.toml"
    file.write_text('base = "drift"\nmalicious_share = 0.9\n')
    plus = "drqn-cmdp-plus"
    arguments = ["--scenario", str(file), "--episodes", "2"]
    reason = refused(capsys, "--policy", f"{plus}:rho=0.1", *arguments)
    assert "write drqn-cmdp-plus@drift:rho=0.1 to use it here" in reason

    assert run(["evaluate", "--json", "--policy", f"{plus}@drift", *arguments]) == 0
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1
    assert "was trained for scenario drift (68b1cdb98511), not for this one" in shown.err
    data = json.loads(shown.out)
    assert data["scenario"]["parameters"]["malicious_share"] == 0.9
    home = data["trained_for"][f"{plus}@drift"]
    assert (home["name"], home["this_scenario"]) == ("drift", False)
    assert home["hash"] != data["scenario"]["hash"]

    file.write_text('base = "drift"\n')
    data = evaluated(capsys, "--policy", plus, *arguments)
    assert data["trained_for"][plus]["this_scenario"]
    assert data["scenario"]["hash"] == home["hash"]


def test_several_policies_are_compared_with_the_baseline(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = ["--policy", "fixed-low", "--policy", "fixed-high", "--episodes", "40"]
    data = evaluated(capsys, *both)
    assert data["baseline"] == "fixed-low"
    difference = data["differences"]["fixed-high"]["gas"]
    gas = [data["policies"][name]["gas"]["value"] for name in ("fixed-high", "fixed-low")]
    assert difference["value"] == pytest.approx(gas[0] - gas[1])
    assert difference["probability_of_improvement"] == 0
    assert difference["p_value"] <= difference["p_holm"] < 0.05
    data = evaluated(capsys, *both, "--baseline", "fixed-high")
    assert data["differences"]["fixed-low"]["gas"]["value"] == pytest.approx(gas[1] - gas[0])

    assert run(["evaluate", *both]) == 0
    assert "differences from fixed-low" in capsys.readouterr().out
    assert "give it as --policy too" in refused(capsys, *both, "--baseline", "oracle")
    assert "differences" not in evaluated(capsys, "--policy", "fixed-low", "--episodes", "2")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_picture_is_drawn_and_reproducible(
    kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pictures = [tmp_path / f"first.{kind}", tmp_path / f"second.{kind}"]
    for picture in pictures:
        arguments = ["evaluate", "--policy", "fixed-low", "--policy", "oracle", "--episodes", "20"]
        assert run([*arguments, "--json", "--plot", str(picture)]) == 0
        json.loads(capsys.readouterr().out)
    first, second = (picture.read_bytes() for picture in pictures)
    assert first == second
    assert first.startswith(b"\x89PNG" if kind == "png" else b"<?xml")


def test_what_cannot_be_run_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ("--policy", "fixed-low", "--episodes", "1")
    file = tmp_path / "wrong.toml"
    for line, field in {
        "blokcs = 1": "blokcs",
        'blocks = "many"': "blocks",
        "blocks = 0": "blocks",
    }.items():
        file.write_text(line)
        assert f"scenario field {field}:" in refused(capsys, *one, "--scenario", str(file))
    assert "paper, drift, field" in refused(capsys, *one, "--scenario", "papyrus")
    assert "fixed-high" in refused(capsys, "--policy", "fixed-hihg", "--episodes", "1")
    assert ".svg or .png" in refused(capsys, *one, "--plot", str(tmp_path / "plot.pdf"))
    assert "not a folder" in refused(capsys, *one, "--plot", str(tmp_path / "no" / "plot.svg"))

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "holdfast[plot]" in refused(capsys, *one, "--plot", str(tmp_path / "plot.svg"))
    assert not (tmp_path / "plot.svg").exists()
