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

from holdfast.ledger import check, signing
from holdfast.ledger.interface import Answer, Batch, Entry, Registered, batch_seed
from holdfast.node.client import NodeClient
from holdfast.node.holding import Holding as Kept
from holdfast.node.identity import NodeKey
from holdfast.node.node import Node
from holdfast.node.objects import open_objects
from holdfast.node.proof_messages import ProofAnswer, ProofRequest, signed_part
from holdfast.node.serving import RunningNode
from holdfast.node.signature import Gate
from holdfast.node.store import Store
from holdfast.node.wire import Limits
from holdfast.owner import Finding, Holding, HoldingRecord, Original, put, run_audit
from holdfast.owner.audit import BatchPosition, Clock, Question, ask, id_on, open_on, settle
from holdfast.owner.catalogue import Catalogue
from holdfast.owner.keyring import Keyring
from holdfast.pdp import Challenge, Location, Proof, draw_challenge, target_of

SEGMENT = 1000  # bytes: small files have several
BLOCKS = 400
PATIENCE = 10  # seconds of the ledger's time

Way = Callable[["Turncoat", Kept, ProofRequest], ProofAnswer]


@dataclass(frozen=True)
class Turncoat(Node):
    """A node that is honest until it is shown another way."""

    ways: list[Way] = field(default_factory=list)

    def prove(self, holding: Kept, request: ProofRequest) -> ProofAnswer:
        if self.ways:
            return self.ways[-1](self, holding, request)
        return super().prove(holding, request)

    def turn(self, way: Way) -> None:
        self.ways.append(way)

    def kept(self, holding: Holding) -> Kept:
        return self.store.account(holding.owner).holding(holding.key_id)

    def signed(self, holding: Kept, request: ProofRequest, proof: Proof) -> ProofAnswer:
        """Sign whatever proof as the answer to a request, as any node can."""
        challenge = Challenge.decode(request.challenge.encode())
        asked = signed_part(holding.layout.key_id, challenge, request.answer_to)
        proof = replace(proof, challenge_id=challenge.id)
        signature = signing.sign(self.key.private, *asked, proof)
        return ProofAnswer(proof=proof.encode().decode(), signature=signature.hex())


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

    def audit(self, holding: Holding, samples: int) -> Finding:
        """Audit the whole way; pauses pass on the ledger's clock alone."""
        clock = Clock(self.world.now, lambda seconds: self.world.advance(math.ceil(seconds)))
        ledger = self.world.owner
        return run_audit(ledger, holding, samples, patience=PATIENCE, clock=clock)

    def question(self, holding: Holding, samples: int, seed: bytes) -> Question:
        challenge = draw_challenge(holding.inventory, samples, seed=seed)
        target = check.target_address(target_of(holding.key, holding.inventory, challenge))
        where = id_on(self.world.owner, holding)
        return Question(where, challenge, target, self.world.now() + PATIENCE)

    def batched(self, holding: Holding, samples: int, seed: bytes) -> Question:
        """Return a question that is the only one in its batch."""
        question = self.question(
            holding, samples, batch_seed(seed, id_on(self.world.owner, holding))
        )
        prefix = question.challenge.inventory_hash[:4]
        word = Entry(question.target, holding.number, samples, prefix).encode()
        batch = Batch(self.world.owner.sender, seed, question.deadline, (word,))
        return replace(question, position=BatchPosition(batch, 0))

    def asked(self, holding: Holding, question: Question) -> Answer:
        """Open the challenge and return the node's answer, which must be one."""
        open_on(self.world.owner, holding, question)
        answer = ask(self.world.owner, holding, question)
        assert isinstance(answer, Answer)
        return answer

    def seeded(self, holding: Holding, samples: int, seed: int) -> Finding:
        """Audit once by a known challenge."""
        question = self.question(holding, samples, (seed + 1).to_bytes(8, "big") * 4)
        answer = self.asked(holding, question)
        finding = settle(self.world.owner, holding, question, answer)
        assert isinstance(finding, Finding)
        return finding


def drop(node: Turncoat, holding: Holding, blocks: list[int]) -> None:
    """Free the space of these blocks; their tags stay."""
    kept = node.kept(holding)
    file = kept.record.files[0]
    lost = kept.blocks(file.file_id, blocks)
    kept.replace_blocks(file.file_id, blocks, b"".join(bytes(len(block)) for block in lost))
