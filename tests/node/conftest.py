"""Sites for the tests of the node: on a folder, in memory and on a real S3 server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.node_env import Site
from tests.support.recorded_wire import Wire, wire_to
from tests.support.s3_server import s3_server

from holdfast.node.objects import open_objects


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(open_objects(str(tmp_path / "store")))


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """Return a wire to one node for all tests of a file, to start and stop it once."""
    with wire_to(Site(open_objects(str(tmp_path_factory.mktemp("wire") / "store")))) as wire:
        yield wire


@pytest.fixture(scope="session")
def bucket() -> Iterator[str]:
    """Serve S3 on loopback, as the environment then says, and return a bucket's address."""
    with s3_server() as server:
        yield server.address


@pytest.fixture(params=["folder", "memory", "s3"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    """Return a site on each kind of storage in turn."""
    if request.param == "folder":
        address = str(tmp_path / "store")
    elif request.param == "memory":
        address = f"memory://{tmp_path.name}"
    else:
        address = f"{request.getfixturevalue('bucket')}/{tmp_path.name}"
    return Site(open_objects(address))
