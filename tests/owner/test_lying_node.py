"""A node whose unsigned answers are absurd: nothing is divided by zero, and nothing sent twice."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.support.owner_env import PASSPHRASE, QUICK, SECTORS
from tests.support.small_node import SEGMENT_BYTES

from holdfast.control.audit_now import audit_holdings
from holdfast.errors import NodeError
from holdfast.evidence.leaf import Outcome
from holdfast.node import serving
from holdfast.node.app import build_app
from holdfast.node.identity import NodeKey
from holdfast.node.node import Node
from holdfast.node.objects import open_objects
from holdfast.node.serving import RunningNode
from holdfast.node.signature import Gate
from holdfast.node.store import Store
from holdfast.node.wire import Limits
from holdfast.owner import Home, Original, Replica, add_holding, find_damage, get, put
from holdfast.owner import replica as replica_module
from holdfast.pdp import Location

CONTENT = random.Random(1).randbytes(3 * SEGMENT_BYTES + 1000)
Lie = Callable[[str, str, bytes], bytes]  # of method, path and the honest answer


def honest(_method: str, _path: str, content: bytes) -> bytes:
    return content


@dataclass
class Liar:
    """An honest node, behind something that changes its answers and counts the requests."""

    url: str = ""
    lie: Lie = honest
    requests: Counter[str] = field(default_factory=Counter)

    def wrap(self, app: Any) -> Any:
        async def lying(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            method, path = scope["method"], scope["path"]
            self.requests[f"{method} {path}"] += 1
            parts: list[dict[str, Any]] = []

            async def keep(message: dict[str, Any]) -> None:
                parts.append(message)

            await app(scope, receive, keep)
            start, *bodies = parts
            content = b"".join(body.get("body", b"") for body in bodies)
            if start["status"] < 300:
                content = self.lie(method, path, content)
            heads = [(k, v) for k, v in start["headers"] if k.lower() != b"content-length"]
            heads.append((b"content-length", str(len(content)).encode()))
            await send({**start, "headers": heads})
            await send({"type": "http.response.body", "body": content})

        return lying

    @property
    def segments_sent(self) -> dict[str, int]:
        sent = {k: n for k, n in self.requests.items() if k.startswith("PUT") and "/uploads/" in k}
        return {key.rpartition("/uploads/")[2]: count for key, count in sent.items()}


@dataclass(frozen=True)
class Scene:
    home: Home
    liar: Liar
    folder: Path

    def put(self, content: bytes = CONTENT, name: str = "file") -> None:
        path = self.folder / name
        path.write_bytes(content)
        original = Original.of(Location(str(path)), SEGMENT_BYTES)
        with self.home.changing("attic") as holding:
            put(holding, name, original, processes=1)

    def damaged(self) -> int:
        with self.home.changing("attic") as holding:
            return sum(damaged.blocks.count for damaged in find_damage(holding))

    def get(self) -> bytes | None:
        out = self.folder / "out"
        with self.home.holding("attic") as holding:
            get(Replica(holding, holding.file("file")), [], out)
        return out.read_bytes() if out.exists() else None


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    home, liar, key = Home.create(tmp_path / "home", PASSPHRASE, QUICK), Liar(), NodeKey.generate()
    owner = home.keyring.owner
    store = Store(
        open_objects(str(tmp_path / "store")),
        [owner],
        Limits(samples=100),
        time.time,
        segment_bytes=SEGMENT_BYTES,
    )
    gate = Gate(key.address, {owner.hex(): owner}, time.time)
    monkeypatch.setattr(serving, "build_app", lambda node: liar.wrap(build_app(node)))
    served = RunningNode(Node(key, store, gate), "127.0.0.1", 0)
    time.sleep(max(0.0, gate.opens - time.time()))
    thread = Thread(target=served.run)
    thread.start()
    try:
        liar.url = served.url
        add_holding(home, "attic", served.url, sectors=SECTORS, encrypted=False)
        yield Scene(home, liar, tmp_path)
    finally:
        served.stop()
        thread.join()
        store.close()


def in_facts(**changes: Any) -> Lie:
    """Return a node that says something else about itself."""

    def lie(_method: str, path: str, content: bytes) -> bytes:
        if path != "/v1/node":
            return content
        facts = json.loads(content)
        for name, value in changes.items():
            (facts["limits"] if name in facts["limits"] else facts)[name] = value
        return json.dumps(facts).encode()

    return lie


def in_missing(change: Callable[[list[int]], list[int]]) -> Lie:
    """Return a node that asks for other segments than it is missing."""

    def lie(method: str, path: str, content: bytes) -> bytes:
        if method != "POST" or not path.endswith("/uploads"):
            return content
        state = json.loads(content)
        state["missing"]["data"] = change(state["missing"]["data"])
        return json.dumps(state).encode()

    return lie


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, -1, -(2**70), 1, 999, (64 << 20) + 1, 2**70])
def test_absurd_segments_are_refused_before_anything_is_sent(scene: Scene, size: int) -> None:
    """Before: 0 was a ZeroDivisionError, -(2**70) an OverflowError, the others began an upload."""
    scene.liar.lie = in_facts(segment_bytes=size)
    with pytest.raises(NodeError, match=f"{scene.liar.url}.*segment_bytes"):
        scene.put()
    assert scene.liar.segments_sent == {}


@pytest.mark.slow
def test_a_file_is_never_cut_into_more_segments_than_the_longest_one_has(
    monkeypatch: pytest.MonkeyPatch, scene: Scene
) -> None:
    monkeypatch.setattr("holdfast.node.client.MAX_SEGMENTS", 3)
    with pytest.raises(
        NodeError, match=f"{scene.liar.url} wants segments of 4096 bytes, too small"
    ):
        scene.put()
    assert scene.liar.segments_sent == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda numbers: numbers * 750, id="3,000 times"),
        pytest.param(lambda numbers: [*numbers, numbers[-1]], id="twice"),
        pytest.param(lambda numbers: numbers[::-1], id="backwards"),
        pytest.param(lambda numbers: [*numbers, 4], id="one too many"),
        pytest.param(lambda numbers: [*numbers, 2**70], id="far beyond"),
        pytest.param(lambda numbers: [-1, *numbers], id="before the first"),
    ],
)
def test_a_segment_is_sent_once_whatever_the_node_asks_for(
    scene: Scene, change: Callable[[list[int]], list[int]]
) -> None:
    """Before: a list of 3,000 numbers made `put` send 3,000 segments, 2**70 an OverflowError."""
    scene.liar.lie = in_missing(change)
    with pytest.raises(NodeError, match=f"{scene.liar.url} asks for segments twice, out of order"):
        scene.put()
    assert scene.liar.segments_sent == {}
    scene.liar.lie = honest
    scene.put()
    assert set(scene.liar.segments_sent.values()) == {1}
    assert scene.get() == CONTENT


@pytest.mark.slow
def test_an_upload_goes_to_the_place_that_was_announced(scene: Scene) -> None:
    def lie(method: str, path: str, content: bytes) -> bytes:
        if method != "POST" or not path.endswith("/uploads"):
            return content
        return json.dumps({**json.loads(content), "upload": "0" * 64}).encode()

    scene.liar.lie = lie
    with pytest.raises(NodeError, match=f"{scene.liar.url} names another upload"):
        scene.put()
    assert scene.liar.segments_sent == {}


@pytest.mark.slow
@pytest.mark.parametrize("samples", [0, -1, -(2**70), 2**70])
def test_an_absurd_limit_on_samples_neither_hides_damage_nor_breaks_an_audit(
    scene: Scene, samples: int
) -> None:
    """Before: 0 was a ValueError, and with -1 a repair looked at nothing and reported no damage."""
    scene.put()
    scene.liar.lie = in_facts(samples=samples)
    with pytest.raises(NodeError, match=f"{scene.liar.url}.*limits.samples"):
        scene.damaged()
    (result,) = audit_holdings(scene.home, ["attic"], lambda _blocks: 9, deadline_seconds=30)
    assert (result.outcome, result.checked) == (Outcome.PASSED, 9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda content: content[:-1], id="a byte less"),
        pytest.param(lambda content: content + b"?", id="a byte more"),
        pytest.param(lambda content: content[:10], id="hardly any"),
        pytest.param(lambda _content: b"", id="nothing"),
    ],
)
def test_blocks_of_another_length_are_an_error_of_the_node(
    scene: Scene, change: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: the wrong length reached NumPy, and was a ValueError."""
    monkeypatch.setattr(replica_module, "NEAR_BYTES", 0)
    monkeypatch.setattr(replica_module, "SPARSE", 1)
    scene.put()

    def lie(method: str, path: str, content: bytes) -> bytes:
        return change(content) if (method, path[-7:]) == ("GET", "/blocks") else content

    scene.liar.lie = lie
    with scene.home.holding("attic") as holding:
        replica = Replica(holding, holding.file("file"))
        with pytest.raises(NodeError, match=f"{scene.liar.url} sent .* blocks were asked for"):
            replica.read([(0, 1), (5 * replica.block_bytes, 1)])


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, -1, 2**70])
def test_absurd_segments_break_no_get(scene: Scene, size: int) -> None:
    """Before: where a part was lost, 0 was a ZeroDivisionError."""
    scene.put()
    next((scene.folder / "store").rglob("data.00000001")).unlink()
    scene.liar.lie = in_facts(segment_bytes=size)
    with pytest.raises(NodeError, match=f"{scene.liar.url}.*segment_bytes"):
        scene.get()
