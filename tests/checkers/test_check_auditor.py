"""Our own kinds pass the tests of an auditor, and whatever breaks the promise is caught."""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import fsspec
import pytest
from tests.support.faulty_auditors import FAULTS, Right
from tests.support.s3_server import S3Server

from holdfast.checkers.command import CommandChecker
from holdfast.checkers.hash_names import NamesChecker
from holdfast.checkers.interface import Place
from holdfast.checkers.manifest import ManifestChecker
from holdfast.testing import check_auditor

CONTENTS = {hashlib.sha256(content).hexdigest(): content for content in (b"a", b"b" * 100, b"c")}
# A command that checks the files of a folder, as an operator might write it.
COMMAND = """
import hashlib, json, os, pathlib, sys
root = pathlib.Path(os.environ["HOLDFAST_ADDRESS"])
if not root.exists():
    sys.exit(75)
names = os.environ.get("HOLDFAST_GROUPS_FILE")
names = open(names).read().split() if names else sorted(os.listdir(root))
bad = [name for name in names if hashlib.sha256((root / name).read_bytes()).hexdigest() != name]
print(json.dumps({"checked": len(names), "of": len(os.listdir(root)), "damaged": bad}))
sys.exit(1 if bad else 0)
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    for name, content in CONTENTS.items():
        (path / name).write_bytes(content)
    return path


def flip(path: Path) -> Callable[[], list[str]]:
    def damage() -> list[str]:
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        return [path.name]

    return damage


def absent(path: Path) -> Callable[[], AbstractContextManager[None]]:
    @contextmanager
    def away() -> Iterator[None]:
        elsewhere = path.rename(path.with_name("elsewhere"))
        yield
        elsewhere.rename(path)

    return away


@pytest.mark.slow
@pytest.mark.parametrize("deletions", ["allowed", "never"])
def test_names_pass(data: Path, folder: Path, deletions: str) -> None:
    place = Place(str(data), {"names": "sha256", "deletions": deletions}, folder)
    damage = flip(data / next(iter(CONTENTS)))
    check_auditor(NamesChecker, place, damage, away=absent(data))


@pytest.mark.slow
def test_a_manifest_passes(data: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "SUMS").write_text("".join(f"{name}  {name}\n" for name in CONTENTS))
    place = Place(str(data), {"manifest": str(tmp_path / "SUMS")}, folder)
    name = next(iter(CONTENTS))

    def damage() -> list[str]:
        (data / name).unlink()
        return [name]

    check_auditor(ManifestChecker, place, damage, away=absent(data))


@pytest.mark.slow
def test_a_command_passes(data: Path, folder: Path) -> None:
    command = json.dumps([sys.executable, "-c", COMMAND])
    place = Place(str(data), {"command": command, "units": "3"}, folder)
    damage = flip(data / next(iter(CONTENTS)))
    check_auditor(CommandChecker, place, damage, away=absent(data))


@pytest.mark.slow
def test_names_in_a_bucket_pass(
    folder: Path, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    prefix = f"{s3.address}/{tmp_path.name}"
    system, root = fsspec.url_to_fs(prefix)
    for name, content in CONTENTS.items():
        system.pipe_file(f"{root}/data/{name}", content)
    system.pipe_file(f"{root}/config", b"restic's")
    name = next(iter(CONTENTS))

    def damage() -> list[str]:
        system.pipe_file(f"{root}/data/{name}", b"other")
        return [f"data/{name}"]

    place = Place(prefix, {"names": "sha256"}, folder)
    check_auditor(NamesChecker, place, damage, away=s3.away)


def test_an_auditor_that_is_right_passes(folder: Path, tmp_path: Path) -> None:
    try_right(Right, folder, tmp_path)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_an_auditor_that_breaks_a_promise_is_caught(
    folder: Path, tmp_path: Path, fault: type[Right]
) -> None:
    with pytest.raises(AssertionError, match=FAULTS[fault]):
        try_right(fault, folder, tmp_path)


def try_right(checker: type[Right], folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in "abc":
        (data / name).write_bytes(b"good")

    def damage() -> str:
        (data / "b").write_bytes(b"evil")
        (data / "c").write_bytes(b"evil")
        return "bc"

    check_auditor(checker, Place(str(data), {}, folder), damage, away=absent(data))
