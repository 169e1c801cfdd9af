"""Ledgers of every kind to test on, seen by an owner and a stranger, and holdings to audit."""

import socket
import subprocess
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coincurve import PrivateKey
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_tester import EthereumTester, PyEVMBackend
from tests.support import parts
from tests.support.memory_holding import Holding
from tests.support.processes import running
from web3 import EthereumTesterProvider, Web3
from web3.types import RPCEndpoint

from holdfast.ledger import check, signing
from holdfast.ledger.artefact import Artefact
from holdfast.ledger.evm import EvmLedger, deploy
from holdfast.ledger.interface import (
    Answer,
    Batch,
    Entry,
    Ledger,
    Opened,
    Receipt,
    Registered,
    batch_seed,
    challenge_name,
    owner_of,
)
from holdfast.ledger.journal import Journal
from holdfast.ledger.keccak import address_of
from holdfast.ledger.local import LocalLedger
from holdfast.ledger.transactions import Node, Sender, Terms
from holdfast.pdp import Challenge, Proof, draw_challenge, target_of

TERMS = Terms(poll=0.05, gas=8_000_000)
NODE = PrivateKey(b"\x07" * 32)
NODE_ADDRESS = address_of(NODE.public_key)


@dataclass
class World:
    """A ledger as its owner and a stranger see it, and its time."""

    owner: Ledger
    stranger: Ledger
    now: Callable[[], int]
    advance: Callable[[int], None]
    exact: bool = True  # the next call happens at exactly `now()`


@dataclass
class Audit:
    """A challenge for a holding, with the target and the honest proof."""

    holding: int
    challenge: Challenge
    target: bytes
    proof: Proof
    deadline: int = 0

    @property
    def id(self) -> bytes:
        return challenge_name(self.holding, self.challenge, self.target, self.deadline)


@dataclass
class Kept:
    """A registered holding, small enough to be audited whole."""

    world: World
    sectors: int = 1
    seed: int = 0
    node: PrivateKey = NODE
    store: Holding = field(init=False)
    id: int = field(init=False)

    def __post_init__(self) -> None:
        self.store = Holding.of(31 * self.sectors * 5 - 1, sectors=self.sectors, seed=self.seed)
        receipt = self.world.owner.register(self.store.key.public, address_of(self.node.public_key))
        (event,) = receipt.events
        assert isinstance(event, Registered)
        self.id = event.holding

    @property
    def number(self) -> int:
        return self.id & 0xFFFFFFFF

    def audit(self, seed: int = 1) -> Audit:
        return self._audit(bytes([seed]) * 32)

    def _audit(self, seed: bytes, samples: int = 3) -> Audit:
        challenge = draw_challenge(self.store.inventory, samples, seed=seed)
        target = check.target_address(target_of(self.store.key, self.store.inventory, challenge))
        return Audit(self.id, challenge, target, self.store.prove(challenge))

    def open(self, seed: int = 1, *, seconds: int = 100) -> Audit:
        return self.opened(self.audit(seed), seconds=seconds)

    def opened(self, audit: Audit, *, seconds: int = 100) -> Audit:
        audit = replace(audit, deadline=self.world.now() + seconds)
        (event,) = self.world.owner.open(
            self.number, audit.challenge, audit.target, audit.deadline
        ).events
        assert isinstance(event, Opened)
        assert event.challenge == audit.id
        return audit

    def in_batch(self, seed: bytes, samples: int = 3) -> tuple[bytes, Audit]:
        """Return the word of a challenge in a batch, and what there is to know of it."""
        audit = self._audit(batch_seed(seed, self.id), samples)
        prefix = self.store.inventory.hash[:4]
        return Entry(audit.target, self.number, audit.challenge.samples, prefix).encode(), audit

    def signed(self, challenge: bytes, proof: Proof, key: PrivateKey | None = None) -> Answer:
        domain = self.world.owner.domain
        return Answer(proof, signing.sign(key or self.node, domain, self.id, challenge, proof))


def batch_of(
    world: World, kept: list[Kept], seed: bytes = b"b" * 32, seconds: int = 100
) -> tuple[Batch, list[Audit]]:
    """Return a batch of challenges for these holdings, and its audits in their order there.

    A holding that is named again is asked for fewer samples.
    """
    audits = dict(
        holding.in_batch(seed, 4 - kept[:place].count(holding))
        for place, holding in enumerate(kept)
    )
    words = tuple(sorted(audits))
    batch = Batch(owner_of(kept[0].id), seed, world.now() + seconds, words)
    return batch, [audits[word] for word in words]


def wrong(proof: Proof) -> Proof:
    return Proof(proof.challenge_id, proof.sigma ^ 1, proof.mu)


def names(receipt: Receipt) -> list[str]:
    return [type(event).__name__ for event in receipt.events]


def local_world(folder: Path, sectors: int = 1, clock: Callable[[], int] | None = None) -> World:
    time_now = [1_900_000_000]
    now = clock or (lambda: time_now[0])

    def ledger(number: int) -> LocalLedger:
        sender = bytes.fromhex(account_of(number).address[2:])
        return LocalLedger(folder / "ledger", sender, now, sectors=sectors)

    def advance(seconds: int) -> None:
        time_now[0] += seconds

    return World(ledger(1), ledger(2), now, advance)


def evm_world(folder: Path, sectors: int = 1, compiled: Artefact | None = None) -> World:
    tester = EthereumTester(PyEVMBackend())
    web3 = Web3(EthereumTesterProvider(tester))

    def now() -> int:
        return int(tester.get_block_by_number("pending")["timestamp"])

    def advance(seconds: int) -> None:
        tester.time_travel(now() + seconds)

    return _world(web3, folder, sectors, now, advance, compiled)


@contextmanager
def anvil() -> Iterator[str]:
    """Run a chain of our own and yield its address."""
    binary = parts.anvil()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(binary), "--port", str(port), "--silent"]
    with running(command, stdout=subprocess.DEVNULL) as process:
        while not _listens(port):
            assert process.poll() is None
            time.sleep(0.1)
        web3 = Web3(Node(f"http://127.0.0.1:{port}"))
        for number in (1, 2):
            request(web3, "anvil_setBalance", account_of(number).address, hex(10**20))
        yield f"http://127.0.0.1:{port}"


def anvil_world(url: str, folder: Path, sectors: int = 1) -> World:
    web3 = Web3(Node(url))

    def now() -> int:
        return int(web3.eth.get_block("latest")["timestamp"]) + 1

    def advance(seconds: int) -> None:
        request(web3, "evm_increaseTime", seconds)
        request(web3, "evm_mine")

    return _world(web3, folder, sectors, now, advance, None)


def request(web3: Web3, method: str, *params: Any) -> Any:
    return web3.provider.make_request(RPCEndpoint(method), list(params))["result"]


def account_of(number: int) -> LocalAccount:
    account: LocalAccount = Account.from_key(number.to_bytes(32, "big"))
    return account


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def sender_of(
    web3: Web3,
    storage: Path | str,
    number: int = 1,
    terms: Terms = TERMS,
    pause: Callable[[float], None] = time.sleep,
) -> Sender:
    """Return the sender with that number, its journal in a folder or in a database."""
    account = account_of(number)
    whose = web3.eth.chain_id, bytes.fromhex(account.address[2:])
    journal = (
        Journal.in_file(storage / "journal", *whose)
        if isinstance(storage, Path)
        else Journal.in_database(storage, *whose)
    )
    sender = Sender(web3, account, journal, terms, pause)
    weakref.finalize(sender, journal.close)
    return sender


def _world(
    web3: Web3,
    folder: Path,
    sectors: int,
    now: Callable[[], int],
    advance: Callable[[int], None],
    compiled: Artefact | None,
) -> World:
    senders = [sender_of(web3, folder, number) for number in (1, 2)]
    contract = deploy(senders[0], sectors, compiled)
    owner, stranger = (EvmLedger(sender, contract, sectors=sectors) for sender in senders)
    exact = isinstance(web3.provider, EthereumTesterProvider)
    return World(owner, stranger, now, advance, exact)
