"""The benchmark of the evidence measures logs that verify; how fast they do is not tested."""

from typing import Any

import pytest

from holdfast.bench import evidence
from holdfast.evidence.verification import Report, verify


def test_every_figure_is_given_for_every_number_of_sectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reports: list[Report] = []
    steps: list[str] = []

    def listened(*arguments: Any) -> None:
        reports.append(verify(*arguments))

    monkeypatch.setattr(evidence, "verify", listened)
    found = evidence.measure(rounds=1, say=steps.append, audits=5, sectors=(1, 4))
    assert len(steps) == 2
    assert all(report.fine and report.proofs == 5 for report in reports)
    assert [set(figures) for figures in found.values()] == [{"S1", "S4"}] * 3
    assert min(value for figures in found.values() for value in figures.values()) > 0
