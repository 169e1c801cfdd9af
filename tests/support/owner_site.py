"""Two nodes for all tests of an owner's commands, and a fresh home for each."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.command_line import Workplace
from tests.support.owner_env import (
    PASSPHRASE,
    QUICK,
    SECTORS,
    RunningNode,
    World,
    new_node_key,
    node_process,
)

from holdfast.cli.terminal import PASSPHRASE_VARIABLE
from holdfast.owner import Home


@dataclass(frozen=True)
class Site:
    home: Path
    one: RunningNode
    two: RunningNode


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    owner = Home.create(folder / "home", PASSPHRASE, QUICK).keyring.owner
    for name in ("one", "two"):
        new_node_key(folder / f"{name}.key")
    with (
        node_process(folder / "one", folder / "one.key", owner) as one,
        node_process(folder / "two", folder / "two.key", owner) as two,
    ):
        yield Site(folder / "home", one, two)


@pytest.fixture
def world(site: Site, tmp_path: Path) -> World:
    """Return a home with the holding `plain` on one node and `secret`, encrypted, on the other."""
    folder = tmp_path / "home"
    folder.mkdir()
    shutil.copy(site.home / "owner.key", folder)
    world = World(Home.open(folder, PASSPHRASE), site.one, site.two, tmp_path)
    world.add("plain", site.one, encrypted=False, sectors=SECTORS)
    world.add("secret", site.two, encrypted=True, sectors=3)
    return world


@pytest.fixture
def desk(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Workplace:
    """Return a place to run commands at, with the world's home as the owner's."""
    monkeypatch.chdir(world.folder)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE.decode())
    monkeypatch.setenv("HOLDFAST_HOME", str(world.home.folder))
    return Workplace(world.folder, capsys)
