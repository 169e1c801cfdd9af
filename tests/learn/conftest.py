"""Trainings that end at once: few episodes of validation, and a snapshot after each unit."""

import pytest

from holdfast.learn import dial_search, training


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "SECONDS", 0.0)
    monkeypatch.setattr(training, "VALIDATION_EPISODES", 20)
    monkeypatch.setattr(dial_search, "FIRST_ROUND", (8, 10))
    monkeypatch.setattr(dial_search, "REFINEMENTS", ((1, 2, 0.1, 0.0, 10),))
