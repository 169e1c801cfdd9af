"""A folder full of invented results, made once."""

from pathlib import Path

import pytest
from tests.paper.invented import fill

from holdfast.paper import publication
from holdfast.paper.experiments import EXPERIMENTS, Effort
from holdfast.paper.result import Result, gather


@pytest.fixture(scope="session")
def jobs_done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which every job of every experiment is done."""
    folder = tmp_path_factory.mktemp("invented")
    fill(folder, Effort())
    return folder


@pytest.fixture(scope="session")
def results(jobs_done: Path) -> dict[str, Result]:
    return {name: gather(name, Effort(), jobs_done) for name in EXPERIMENTS}


@pytest.fixture(scope="session")
def published(results: dict[str, Result], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with data, tables and figures."""
    folder = tmp_path_factory.mktemp("published")
    publication.publish(list(results.values()), folder)
    return folder
