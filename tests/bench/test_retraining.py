"""The trial of retraining reports every seed, beside the planner and the champion."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import retraining
from benchmarks.__main__ import run

from holdfast.learn import dial_search, feasibility, training
from holdfast.model.scenario import PAPER
from holdfast.policy.lagrangian import Ceilings

SMALL = replace(retraining.TRUE, blocks=200, horizon=60)
WORDS = ("--nodes", "60", "--days", "42", "--seeds", "2", "--rounds", "3", "--validation", "5")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retraining, "TRUE", SMALL)
    monkeypatch.setattr(retraining, "BASE", replace(PAPER, blocks=200, horizon=60))
    monkeypatch.setattr(retraining, "TIGHT", Ceilings(0.95))
    monkeypatch.setattr(retraining, "DECLARED", Ceilings(0.97))
    monkeypatch.setattr(training, "VALIDATION_EPISODES", 10)
    monkeypatch.setattr(dial_search, "FIRST_ROUND", (4, 5))
    monkeypatch.setattr(dial_search, "REFINEMENTS", ())
    monkeypatch.setattr(feasibility, "LEVELS", 2)
    monkeypatch.setattr(feasibility, "LATENCY_SHARES", (1.0,))


@pytest.mark.slow(seconds=10)
@pytest.mark.usefixtures("small")
def test_every_way_is_tried_in_the_true_world(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("retraining", "--out", str(tmp_path), *WORDS, "--episodes", "20", "--json")
    assert run(list(words)) == 0
    found = json.loads(capsys.readouterr().out)
    rate = found["fit"]["honest_rate"]
    assert rate["true"] == SMALL.honest_rate
    assert rate["inside"] == (rate["low"] <= rate["true"] <= rate["high"])
    assert sum(found["log"]["actions"].values()) == found["log"]["audits"]
    for ceilings in found["ceilings"].values():
        rows = [ceilings["champion"], ceilings["belief in the true world"]]
        assert set(ceilings["fitted world"]) == {"seed-0", "seed-1"}, "none is left out"
        rows += [row for row in ceilings["fitted world"].values() if row]
        assert all(math.isfinite(row["gas"]["value"]) for row in rows)
    assert found["ceilings"]["tight"]["miss_rate"] == 0.95
