"""Direct holdings on a folder, and on a bucket."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.direct_env import DirectSite, direct_site


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DirectSite]:
    """Return a site on each kind of storage in turn, with some objects and no holding yet."""
    with direct_site(tmp_path, request.param) as site:
        site.fill()
        yield site


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[DirectSite]:
    """Return a site on a bucket, with some objects and no holding yet."""
    with direct_site(tmp_path, "bucket") as site:
        site.fill()
        yield site


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DirectSite]:
    """Return a site on a folder, with some objects and no holding yet."""
    with direct_site(tmp_path, "folder") as site:
        site.fill()
        yield site
