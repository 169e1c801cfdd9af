"""The world is the paper's: its rules come out with the rows of the paper's own table."""

import json
from dataclasses import dataclass

import pytest

from holdfast.cli.app import run


@dataclass(frozen=True)
class Row:
    """A row of the paper's main comparison, and how near it must be met."""

    gas: float
    latency: float
    miss: float  # in percent
    detections: float
    gas_within: float = 0.015
    miss_within: float = 1.2


ROWS = {
    "fixed-high": Row(49.7, 2.0, 50.4, 16_387),
    "fixed-low": Row(2.6, 16.1, 58.0, 2_224),
    "oracle": Row(5.0, 14.7, 40.1, 2_498),
    "constant:14,0.20": Row(6.3, 14.7, 5.1, 2_562),  # what A2C had collapsed to
    "constant:7,0.20": Row(12.3, 8.4, 17.3, 4_381),  # and PPO
    "heuristic": Row(49.3, 2.0, 50.4, 16_272, gas_within=0.04, miss_within=1.5),
}
ROUNDING = 0.05  # the paper gives one decimal


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_the_papers_table_comes_out(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = ROWS[name]
    arguments = ["evaluate", "--policy", name, "--episodes", "2000", "--json"]
    assert run([*arguments, "--malicious-share", "0.28"]) == 0
    measures = json.loads(capsys.readouterr().out)
    gas, latency = measures["gas"]["value"], measures["latency"]["value"]
    assert gas == pytest.approx(row.gas, abs=max(row.gas_within * row.gas, ROUNDING))
    assert 100 * measures["miss_rate"]["value"] == pytest.approx(row.miss, abs=row.miss_within)
    if name != "heuristic":
        assert latency == pytest.approx(row.latency, rel=0.03)
        assert measures["detections_per_100"]["value"] == pytest.approx(row.detections, rel=0.03)
