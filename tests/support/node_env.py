"""A node on a real port, an owner who may use it, and a small holding to keep there."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.memory_holding import Holding

from holdfast.node.client import NodeClient, upload_request
from holdfast.node.identity import NodeKey, RequestKey
from holdfast.node.node import Node
from holdfast.node.objects import Objects
from holdfast.node.serving import RunningNode
from holdfast.node.signature import Gate
from holdfast.node.store import Store
from holdfast.node.wire import Limits
from holdfast.pdp import Inventory
from holdfast.pdp.readers import Memory

SEGMENT = 1000  # bytes: small files have several


@dataclass
class Clock:
    """Time that passes only when it is told to."""

    now: float = 1_000_000.5

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Running:
    """A node that serves in a thread of the test."""

    node: Node
    url: str

    def client(self, key: RequestKey, clock: Callable[[], float]) -> NodeClient:
        return NodeClient(self.url, key, self.node.key.address, clock=clock, sleep=lambda _s: None)


@dataclass
class Site:
    """Where nodes are started, with the same key, owners and clock, on objects that stay."""

    objects: Objects
    clock: Clock = field(default_factory=Clock)
    node_key: NodeKey = field(default_factory=NodeKey.generate)
    owner: RequestKey = field(default_factory=RequestKey.generate)
    other: RequestKey = field(default_factory=RequestKey.generate)
    limits: Limits = field(default_factory=Limits)
    data: Objects | None = None
    segment_bytes: int = SEGMENT

    @contextmanager
    def node(self) -> Iterator[Node]:
        owners = {key.owner.hex(): key.owner for key in (self.owner, self.other)}
        store = Store(
            self.objects,
            owners.values(),
            self.limits,
            self.clock,
            data=self.data,
            segment_bytes=self.segment_bytes,
        )
        gate = Gate(self.node_key.address, owners, self.clock)
        self.clock.now += 1  # the gate opens with the next second
        try:
            yield Node(self.node_key, store, gate)
        finally:
            store.close()

    @contextmanager
    def running(self, port: int = 0) -> Iterator[Running]:
        with self.node() as node, serving(RunningNode(node, "127.0.0.1", port)) as url:
            yield Running(node, url)

    @contextmanager
    def client(self, key: RequestKey | None = None) -> Iterator[NodeClient]:
        with self.running() as running, running.client(key or self.owner, self.clock) as client:
            yield client


@contextmanager
def serving(served: RunningNode) -> Iterator[str]:
    thread = threading.Thread(target=served.run)
    thread.start()
    try:
        yield served.url
    finally:
        served.stop()
        thread.join()


def put(client: NodeClient, kept: Holding) -> Inventory:
    """Bring a whole holding to a node; return the inventory after it."""
    client.create(kept.key.public)
    inventory = Inventory(kept.key.public.id, kept.key.sectors)
    for number in range(len(kept.contents)):
        inventory = put_file(client, kept, number, inventory)
    return inventory


def put_file(client: NodeClient, kept: Holding, number: int, inventory: Inventory) -> Inventory:
    data, tags = Memory(bytes(kept.contents[number])), Memory(bytes(kept.tags[number]))
    entry = kept.inventory.files[number]
    after = inventory.with_file(entry)
    request = upload_request(data, tags, SEGMENT)
    client.upload(kept.key.public.id, request, data, tags, after.hash)
    return after
