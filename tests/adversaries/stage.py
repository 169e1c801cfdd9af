"""A stage for adversaries: nodes on real ports that may turn, their owner, and a ledger."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from threading import Thread

import numpy as np
from tests.support.ledger_env import World
from tests.support.single_audit import Clock, SingleAudit, draw

from holdfast.control.audits.types import AuditResult
from holdfast.ledger import signing
from holdfast.ledger.interface import Answer, Batch, Registered
from holdfast.node.client import NodeClient
from holdfast.node.holding import Holding as Kept
from holdfast.node.identity import NodeKey
from holdfast.node.node import Node
from holdfast.node.objects import open_objects
from holdfast.node.proof_messages import ProofQuestion
from holdfast.node.serving import RunningNode
from holdfast.node.signature import Gate
from holdfast.node.store import Store
from holdfast.node.wire import Limits
from holdfast.owner import Holding, HoldingRecord, Original, put
from holdfast.owner.catalogue import Catalogue
from holdfast.owner.keyring import Keyring
from holdfast.pdp import Location, Proof

SEGMENT = 1000  # bytes: small files have several
BLOCKS = 400
PATIENCE = 10  # seconds of the ledger's time

Way = Callable[["Turncoat", Kept, ProofQuestion], Answer]


@dataclass(frozen=True)
class Turncoat(Node):
    """A node that is honest until it is shown another way."""

    ways: list[Way] = field(default_factory=list)

    def prove(self, holding: Kept, question: ProofQuestion) -> Answer:
        if self.ways:
            return self.ways[-1](self, holding, question)
        return super().prove(holding, question)

    def turn(self, way: Way) -> None:
        self.ways.append(way)

    def kept(self, holding: Holding) -> Kept:
        return self.store.account(holding.owner).holding(holding.key_id)

    def signed(self, question: ProofQuestion, proof: Proof) -> Answer:
        """Sign whatever proof as the answer to a question, as any node can."""
        proof = replace(proof, challenge_id=question.challenge.id)
        return Answer(proof, signing.sign(self.key.private, *question.signed_part, proof))


@dataclass
class Stage:
    """One owner, whose holdings lie on as many nodes as are started."""

    folder: Path
    world: World
    open: ExitStack
    keyring: Keyring = field(default_factory=lambda: Keyring(b"k" * 32))
    time: float = 1_000_000.5  # for requests; the ledger has a time of its own

    def __post_init__(self) -> None:
        self.catalogue = Catalogue.open(str(self.folder / "holdfast.db"))
        self.open.callback(self.catalogue.close)
        self._numbers = count(1)

    def node(self) -> tuple[Turncoat, str]:
        """Start a node; return it and its address."""
        number = next(self._numbers)
        store = Store(
            open_objects(str(self.folder / f"store-{number}")),
            [self.keyring.owner],
            Limits(),
            lambda: self.time,
            segment_bytes=SEGMENT,
        )
        self.open.callback(store.close)
        key = NodeKey(bytes([number]) * 32)
        owners = {self.keyring.owner.hex(): self.keyring.owner}
        node = Turncoat(key, store, Gate(key.address, owners, lambda: self.time))
        self.time += 1  # the gate opens with the next second
        serving = RunningNode(node, "127.0.0.1", 0)
        thread = Thread(target=serving.run)
        thread.start()
        self.open.callback(thread.join)
        self.open.callback(serving.stop)
        return node, serving.url

    def holding(
        self,
        node: Turncoat,
        url: str,
        content: bytes,
        *,
        salt: bytes | None = None,
        encrypted: bool = False,
    ) -> Holding:
        """Register a holding and put one file in it."""
        name, sectors = f"holding-{next(self._numbers)}", self.world.owner.sectors
        salt = salt or name.encode()
        key = self.keyring.audit_key(salt, sectors)
        (event,) = self.world.owner.register(key.public, node.key.address).events
        assert isinstance(event, Registered)
        number = event.holding & 0xFFFFFFFF
        record = HoldingRecord(name, url, node.key.address, None, salt, sectors, encrypted, number)
        self.catalogue.add_holding(record)
        client = self.client(url, node.key.address)
        client.create(key.public)
        folder = self.folder / name
        (folder / "tags").mkdir(parents=True)
        secret = self.keyring.cipher_secret(salt) if encrypted else None
        holding = Holding(record, key, secret, folder, self.catalogue, client, self.keyring.owner)
        path = self.folder / f"{name}.bin"
        path.write_bytes(content)
        put(holding, "file", Original.of(Location(str(path)), SEGMENT), processes=1)
        return holding

    def client(
        self, url: str, address: bytes, proof_seconds: float = 60, behind: float = 0
    ) -> NodeClient:
        client = NodeClient(
            url,
            self.keyring.request_key,
            address,
            clock=lambda: self.time - behind,
            sleep=lambda _seconds: None,
            proof_seconds=proof_seconds,
        )
        self.open.callback(client.close)
        return client

    def content(self, blocks: int = BLOCKS, seed: int = 0) -> bytes:
        """Return random bytes that fill that many blocks but for the padding."""
        length = 31 * self.world.owner.sectors * blocks - 1
        return np.random.default_rng(seed).bytes(length)

    def audit(self, holding: Holding, samples: int) -> AuditResult:
        """Audit the whole way; pauses pass on the ledger's clock alone."""
        return self.draw(holding, samples).finish()

    def draw(self, holding: Holding, samples: int, seed: bytes | None = None) -> SingleAudit:
        return self._draw(holding, samples, seed=seed)

    def draw_batch(self, holding: Holding, samples: int, seed: bytes) -> tuple[SingleAudit, Batch]:
        """Return an audit that is the only one in its batch, and the batch."""
        audit = self._draw(holding, samples, batch=seed)
        assert audit.batch is not None
        return audit, audit.batch

    def _draw(self, holding: Holding, samples: int, **seeds: bytes | None) -> SingleAudit:
        clock = Clock(self.world.now, lambda seconds: self.world.advance(math.ceil(seconds)))
        ledger = self.world.owner
        return draw(ledger, holding, samples, clock, deadline_seconds=PATIENCE, **seeds)

    def audit_by_seed(self, holding: Holding, samples: int, seed: int) -> AuditResult:
        """Audit once by a known challenge."""
        result = self.draw(holding, samples, (seed + 1).to_bytes(8, "big") * 4).try_once()
        assert isinstance(result, AuditResult)
        return result


def drop(node: Turncoat, holding: Holding, blocks: list[int]) -> None:
    """Free the space of these blocks; their tags stay."""
    kept = node.kept(holding)
    file = kept.record.files[0]
    spans = [(block, block + 1) for block in blocks]
    lost = kept.blocks(file.file_id, spans)
    kept.replace_blocks(file.file_id, spans, b"".join(bytes(len(block)) for block in lost))
