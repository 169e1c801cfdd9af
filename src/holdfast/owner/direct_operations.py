"""What an owner does with a direct holding: add it, enrol new objects, accept changes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from holdfast.errors import InputError
from holdfast.node.identity import NodeKey
from holdfast.owner.catalogue import HoldingRecord
from holdfast.owner.direct.address import DirectAddress
from holdfast.owner.direct.client import DirectClient
from holdfast.owner.direct.enrolment import Enrolment, OnProgress, accept, enrol
from holdfast.owner.enrolment import add_direct
from holdfast.owner.holding import Holding
from holdfast.owner.home import Home


def add_direct_holding(
    home: Home,
    name: str,
    address: DirectAddress,
    *,
    sectors: int,
    on_total: OnProgress = lambda _bytes: None,
    on_progress: OnProgress = lambda _bytes: None,
) -> tuple[HoldingRecord, Enrolment]:
    """Make a direct holding and enrol all objects at its address; resume it if it was interrupted.

    Nothing is saved if there is nothing to enrol.
    """
    record = add_direct(home, name, address, sectors=sectors)
    return record, refresh_direct(home, name, on_total=on_total, on_progress=on_progress)


def refresh_direct(
    home: Home,
    name: str,
    *,
    on_total: OnProgress = lambda _bytes: None,
    on_progress: OnProgress = lambda _bytes: None,
) -> Enrolment:
    """Enrol new objects of a direct holding; return what was done and what has changed."""
    with _changing(home, name) as (holding, client):
        return enrol(holding, client, on_total=on_total, on_progress=on_progress)


def check_objects(home: Home, name: str, objects: Sequence[str]) -> None:
    """Raise if a holding is not direct, or audits no object of one of these names."""
    find_direct(home, name)
    with home.catalogue() as catalogue:
        for called in objects:
            if catalogue.file(name, called) is None:
                raise InputError(f"holding {name!r} audits no object {called!r}")


def accept_changes(
    home: Home,
    name: str,
    objects: Sequence[str] = (),
    *,
    on_progress: OnProgress = lambda _bytes: None,
) -> Enrolment:
    """Take changed objects of a direct holding as they are now, those that are named or all."""
    with _changing(home, name) as (holding, client):
        return accept(holding, client, objects, on_progress)


@dataclass(frozen=True)
class DirectPlace:
    """Where a direct holding's data and tags lie, and the key of its node."""

    data: str
    tags: str
    key: NodeKey


def find_direct(home: Home, name: str) -> DirectPlace:
    """Return what a real node needs to take over a direct holding."""
    with home.holding(name) as holding:
        address = DirectAddress.parse(holding.record.url)
        if address is None or not isinstance(holding.node, DirectClient):
            raise InputError(f"holding {name!r} is on a node already, and not direct")
        tags = holding.node.store.objects.address
        return DirectPlace(address.data, tags, home.keyring.node_key(holding.record.salt))


@contextmanager
def _changing(home: Home, name: str) -> Iterator[tuple[Holding, DirectClient]]:
    with home.changing(name) as holding:
        if not isinstance(holding.node, DirectClient):
            raise InputError(f"holding {name!r} is on a node, and not direct: `put` files into it")
        yield holding, holding.node
