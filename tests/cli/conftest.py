"""The command line as users run it: a shell in a directory, and a holding to try things on."""

import io
import random
import shutil
from contextlib import chdir, redirect_stdout
from pathlib import Path

import pytest
from tests.support.command_line import (
    BLOCK_BYTES,
    PASSPHRASE,
    Shell,
    Workplace,
    _workplace,
    new_key,
    snapshot,
)

from holdfast.cli.app import run
from holdfast.cli.terminal import PASSPHRASE_VARIABLE


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a holding of two files with a challenge of all blocks, its target and its proof."""
    directory = tmp_path_factory.mktemp("example")
    new_key(directory)
    (directory / "passphrase").write_text(PASSPHRASE + "\n")
    for seed, name in enumerate(("one.bin", "two.bin")):
        (directory / name).write_bytes(random.Random(seed).randbytes(40 * BLOCK_BYTES + 7))
    silence = io.TextIOWrapper(io.BytesIO())
    with chdir(directory), pytest.MonkeyPatch.context() as patch, redirect_stdout(silence):
        patch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE)
        for command in (
            "tag one.bin two.bin --key owner.key",
            "challenge --ratio 1 --out challenge.json --target target.json --key owner.key",
            "prove challenge.json one.bin two.bin --out proof.json",
            "verify challenge.json proof.json --key owner.key",
        ):
            assert run(["pdp", *command.split()]) == 0
    return directory


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def workplace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Workplace:
    """Return an empty directory, which is the working directory of the test too."""
    return _workplace(tmp_path, capsys, monkeypatch)


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shelf")


@pytest.fixture
def holding(
    shelf: Path,
    example: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Workplace:
    """Return a directory with a copy of the example.

    It is one directory for all tests, put in order before each: a thousand fresh ones take longer
    to remove than all tests take to run.
    """
    make_like(shelf, example)
    return _workplace(shelf, capsys, monkeypatch)


def make_like(directory: Path, model: Path) -> None:
    """Remove and write what differs from the model, which has no directories within."""
    wanted, found = snapshot(model), snapshot(directory)
    for path in directory.iterdir():
        if found[path.name] == wanted.get(path.name):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name in wanted:
        if found.get(name) != wanted[name]:
            shutil.copy(model / name, directory / name)
    assert snapshot(directory) == wanted
