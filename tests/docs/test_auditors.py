"""The tutorial for an auditor of another package is the package that the tests install."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.docs.blocks import blocks_of
from tests.support.processes import end_with_tests

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "auditors.md"
PLUGIN = ROOT / "tests" / "plugin"


def shown(name: str) -> str:
    """Return the blocks of the page that show a file, as one."""
    return "\n".join(block.text for block in blocks_of(PAGE) if block.words == (name,))


@pytest.mark.parametrize("name", ["holdfast_zip.py", "pyproject.toml"])
def test_the_page_shows_the_whole_package(name: str) -> None:
    expected = (PLUGIN / name).read_text().splitlines()
    assert list(filter(None, shown(name).splitlines())) == list(filter(None, expected))


@pytest.mark.slow
def test_the_test_on_the_page_passes(tmp_path: Path) -> None:
    """Run it where the package is installed, as far as an interpreter can tell."""
    site, file = tmp_path / "site", tmp_path / "test_holdfast_zip.py"
    info = site / "holdfast_zip-1.0.dist-info"
    info.mkdir(parents=True)
    project = tomllib.loads(shown("pyproject.toml"))["project"]
    (points,) = project["entry-points"].items()
    lines = [f"[{points[0]}]", *(f"{name} = {value}" for name, value in points[1].items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    (site / "holdfast_zip.py").write_text(shown("holdfast_zip.py"))
    file.write_text(shown("test_holdfast_zip.py"))
    release = end_with_tests(folder=tmp_path)
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file.name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 passed" in ended.stdout
    release()
