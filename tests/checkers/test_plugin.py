"""A package of its own offers an auditor: built as a wheel, installed, and tried."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import parts
from tests.support.processes import end_with_tests

PLUGIN = Path(__file__).parents[1] / "plugin"
TRIAL = """
import sys, zipfile
from contextlib import contextmanager
from pathlib import Path
from holdfast.checkers.interface import Place
from holdfast.checkers.registry import kinds, open_checker
from holdfast.testing import check_auditor
from holdfast_zip import ZipChecker

root = Path(sys.argv[1])
data = root / "data"
data.mkdir()
for name in ("a", "b", "c"):
    with zipfile.ZipFile(data / f"{name}.zip", "w") as archive:
        archive.writestr("content", name * 1000)

def damage():
    path = data / "b.zip"
    path.write_bytes(path.read_bytes().replace(b"bbb", b"bxb", 1))
    return ["b.zip"]

@contextmanager
def away():
    data.rename(root / "elsewhere")
    try:
        yield
    finally:
        (root / "elsewhere").rename(data)

place = Place(str(data), {}, root / "state")
assert "zip" in kinds()
assert type(open_checker("zip", place)) is ZipChecker
check_auditor(ZipChecker, place, damage, away=away)
print("passed")
"""


@pytest.mark.slow
def test_a_package_of_its_own_passes_the_tests_of_an_auditor(tmp_path: Path) -> None:
    if importlib.util.find_spec("setuptools") is None:
        parts.skip("setuptools", "make test EXTRAS=dev,crosscheck")
    source, wheels, target = tmp_path / "source", tmp_path / "wheels", tmp_path / "installed"
    shutil.copytree(PLUGIN, source, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip"]
    offline = ["--quiet", "--no-deps", "--no-index"]
    build = [*pip, "wheel", *offline, "--no-build-isolation", f"--wheel-dir={wheels}", str(source)]
    subprocess.run(build, check=True)
    (wheel,) = wheels.glob("holdfast_zip-1.0-*.whl")
    install = [*pip, "install", *offline, f"--target={target}", str(wheel)]
    subprocess.run(install, check=True)
    release = end_with_tests(folder=tmp_path / "state")
    path = os.pathsep.join(filter(None, [str(target), os.environ.get("PYTHONPATH")]))
    ended = subprocess.run(
        [sys.executable, "-c", TRIAL, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.stdout, ended.returncode) == ("passed\n", 0), ended.stderr
    release()
