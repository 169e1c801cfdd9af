"""One owner at two hosts, whose homes share their tables and nothing else."""

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.support.owner_env import PASSPHRASE, SECTORS, World
from tests.support.owner_site import Site
from tests.support.small_node import SEGMENT_BYTES

from holdfast.errors import InputError, RefusedError
from holdfast.owner import Home, Original, put
from holdfast.owner.settings import Settings
from holdfast.pdp import Location

CONTENT = random.Random(1).randbytes(2 * SEGMENT_BYTES + 100)


@dataclass(frozen=True)
class Hosts:
    one: World
    two: World


@pytest.fixture
def hosts(site: Site, tmp_path: Path, addresses: Iterator[str]) -> Hosts:
    settings = Settings(database=next(addresses))
    worlds = []
    for name in ("one", "two"):
        folder = tmp_path / name
        (folder / "home").mkdir(parents=True)
        shutil.copy(site.home / "owner.key", folder / "home")
        home = replace(Home.open(folder / "home", PASSPHRASE), settings=settings)
        worlds.append(World(home, site.one, site.two, folder))
    one, two = worlds
    one.add(f"shared-{tmp_path.name}", site.one, encrypted=True, sectors=SECTORS)
    return Hosts(one, two)


@pytest.fixture
def name(tmp_path: Path) -> str:
    return f"shared-{tmp_path.name}"


def interrupted(_done: int) -> None:
    raise KeyboardInterrupt


def test_a_file_that_one_host_began_to_put_is_finished_by_another(hosts: Hosts, name: str) -> None:
    path = hosts.one.file(CONTENT)
    original = Original.of(Location(str(path)), SEGMENT_BYTES)
    with hosts.one.home.changing(name) as place, pytest.raises(KeyboardInterrupt):
        put(place, "file", original, processes=1, on_progress=interrupted)
    stored = hosts.two.put(name, hosts.two.file(CONTENT)).file
    assert stored.version == 1
    with hosts.one.home.changing(name) as place:
        assert place.catalogue.files(name) == [stored]


def test_no_two_hosts_tag_different_content_under_one_nonce(hosts: Hosts, name: str) -> None:
    """Tags of two contents under one nonce would give the key away."""
    path = hosts.one.file(CONTENT)
    original = Original.of(Location(str(path)), SEGMENT_BYTES)
    with hosts.one.home.changing(name) as place, pytest.raises(KeyboardInterrupt):
        put(place, "file", original, processes=1, on_progress=interrupted)
    with hosts.one.home.changing(name) as place:
        (begun,) = place.catalogue.intents(name)
    other = hosts.two.file(CONTENT[::-1])
    with pytest.raises(InputError, match="is another file"):
        hosts.two.put(name, other)
    second = hosts.two.put(name, other, replace_other=True).file
    assert (begun.file.version, second.version) == (1, 2)
    assert begun.file.nonce != second.nonce


def test_a_holding_that_one_host_changes_is_refused_to_another(hosts: Hosts, name: str) -> None:
    with (
        hosts.one.home.changing(name),
        pytest.raises(RefusedError, match="being changed by another"),
        hosts.two.home.changing(name, wait=False),
    ):
        pass
    with hosts.two.home.changing(name, wait=False):
        pass
