"""What the contract's calls cost in gas, on an EVM in this process.

Gas does not depend on the machine: the figures are those of any chain with the rules of Prague.
"""

import os
import secrets
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.errors import InputError
from holdfast.ledger import artefact, check
from holdfast.ledger.interface import (
    Answer,
    Batch,
    Entry,
    Ledger,
    Registered,
    challenge_name,
    fresh_seed,
    max_answers,
)
from holdfast.ledger.keccak import address_of
from holdfast.pdp import (
    Challenge,
    Inventory,
    Proof,
    Prover,
    SecretKey,
    StoredFile,
    TagFile,
    TagHeader,
    curve,
    draw_challenge,
    target_of,
)
from holdfast.pdp.field import Q
from holdfast.pdp.keys import draw_nonce
from holdfast.pdp.readers import Memory
from holdfast.pdp.tagging import Chunk, TaggingPool

BLOCKS = 250
SAMPLED = (10, 50, 100, 200)
OPENED = 1000
SETTLED = 100
FILE_ID = bytes(16)
GAS_LIMIT = 16_000_000
DEADLINE = 2**40

Say = Callable[[str], None]


def measure(*, say: Say, sectors: tuple[int, ...] = artefact.SECTORS) -> dict[str, Any]:
    """Return the gas of each call, of passing audits for several S, and what S costs in storage."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        say("auditing one sector a block, singly and in batches")
        one = _Stand(_ledger(Path(folder), 1), 1)
        passes = [one.pass_gas(samples) for samples in SAMPLED]
        gas: dict[str, float] = {
            "pass_s1": max(passes),
            "pass_s1_spread": max(passes) - min(passes),
            f"batch_{SETTLED}_per_proof": one.settle_gas(),
            f"open_batch_{OPENED}_per_challenge": one.open_many_gas(),
            **one.other_gas(),
        }
        for width in sectors:
            say(f"passing an audit of {width} sectors a block")
            stand = one if width == 1 else _Stand(_ledger(Path(folder), width), width)
            gas[f"pass_S{width}"] = stand.pass_gas(SAMPLED[0])
            if width > 1:
                gas[f"batch_S{width}_per_proof"] = stand.settle_gas()
    overhead = {f"S{width}": 32 / (31 * width) for width in sectors}
    return {"gas": gas, "storage_overhead": overhead}


def _ledger(folder: Path, sectors: int) -> Ledger:
    try:
        from eth_account import Account  # noqa: PLC0415 - parts that only this benchmark needs
        from web3 import EthereumTesterProvider, Web3  # noqa: PLC0415

        from holdfast.ledger.evm import EvmLedger, deploy  # noqa: PLC0415
        from holdfast.ledger.journal import Journal  # noqa: PLC0415
        from holdfast.ledger.transactions import Sender, Terms  # noqa: PLC0415

        web3 = Web3(EthereumTesterProvider())
    except ImportError as error:
        raise InputError(
            "the benchmark of the ledger needs an EVM: install eth-tester[py-evm] and web3"
        ) from error
    account = Account.from_key((1).to_bytes(32, "big"))  # the one that eth-tester gives funds
    address = bytes.fromhex(account.address[2:])
    journal = Journal.in_file(folder / f"journal-{sectors}", web3.eth.chain_id, address)
    sender = Sender(web3, account, journal, Terms(gas=GAS_LIMIT))
    return EvmLedger(sender, deploy(sender, sectors), sectors=sectors)


class _Stand:
    """A ledger with one registered holding, whose data lie in memory."""

    def __init__(self, ledger: Ledger, sectors: int) -> None:
        self.ledger, self.key = ledger, SecretKey.generate(sectors)
        content = os.urandom((BLOCKS - 1) * self.key.layout.block_bytes)
        header = TagHeader(self.key.public.id, FILE_ID, 1, draw_nonce(), sectors, len(content))
        pages = TaggingPool(Memory(content), self.key, header).pages(Chunk(0, header.blocks))
        tags = TagFile(Memory(header.encode() + pages))
        self.inventory = Inventory(self.key.public.id, sectors).with_file(header.entry)
        files = {FILE_ID: StoredFile(Memory(content), tags)}
        self.prover = Prover(self.inventory, files)
        self.registered = ledger.register(self.key.public, os.urandom(20))
        (event,) = self.registered.events
        assert isinstance(event, Registered)  # noqa: S101 - tells mypy what the contract does
        self.holding = event.holding

    def audit(self, samples: int) -> tuple[Challenge, bytes, Proof]:
        seed = fresh_seed(self.ledger, 0, time.time_ns() // 10**6, os.urandom(32))
        challenge = draw_challenge(self.inventory, samples, seed=seed)
        target = check.target_address(target_of(self.key, self.inventory, challenge))
        return challenge, target, self.prover.prove(challenge)

    def pass_gas(self, samples: int) -> int:
        challenge, target, proof = self.audit(samples)
        self.ledger.open(0, challenge, target, DEADLINE)
        name = challenge_name(self.holding, challenge, target, DEADLINE)
        return self.ledger.submit(self.holding, name, Answer(proof)).gas

    def other_gas(self) -> dict[str, float]:
        challenge, target, _ = self.audit(SAMPLED[0])
        opened = self.ledger.open(0, challenge, target, DEADLINE)
        return {
            "register_s1": self.registered.gas,
            "open": opened.gas,
            "anchor": self.ledger.anchor(os.urandom(32), 1).gas,
        }

    def open_many_gas(self) -> float:
        words = sorted(_word(os.urandom(20), number) for number in range(OPENED))
        batch = Batch(self.ledger.sender, os.urandom(32), DEADLINE, tuple(words))
        return self.ledger.open_many(batch).gas / OPENED

    def settle_gas(self) -> float:
        """Settle proofs of as many holdings, for a second one of the same holding costs less."""
        answers = {}
        for index in range(min(SETTLED, max_answers(self.key.sectors))):
            public = SecretKey.generate(self.key.sectors).public
            self.ledger.register(public, os.urandom(20))
            sigma, *mu = (secrets.randbelow(Q - 1) + 1 for _ in range(1 + self.key.sectors))
            sectors = [curve.times(A, m) for A, m in zip(public.points, mu, strict=True)]
            point = curve.total([*sectors, curve.times_base(Q - sigma)])
            assert point is not None  # noqa: S101 - so unlikely that it never happens
            word = _word(address_of(point), index + 1)
            answers[word] = Answer(Proof(bytes(32), sigma, tuple(mu)))
        words = sorted(answers)
        batch = Batch(self.ledger.sender, os.urandom(32), DEADLINE, tuple(words))
        self.ledger.open_many(batch)
        brought = {index: answers[word] for index, word in enumerate(words)}
        return self.ledger.settle(batch, brought).gas / len(brought)


def _word(target: bytes, number: int) -> bytes:
    return Entry(target, number, SAMPLED[-1], os.urandom(4)).encode()
