"""A fleet for the control plane that lives in the simulator's world, on a clock of its own.

Keys, data, proofs, signatures and ledger are real; only time, and whether a sample meets damage,
are drawn. So an operation can be held against `holdfast evaluate`.
"""

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from coincurve import PrivateKey

from holdfast.durations import DAY
from holdfast.errors import NodeError, RefusedError, UnreachableError
from holdfast.ledger import signing
from holdfast.ledger.interface import Answer, Ledger
from holdfast.ledger.keccak import address_of
from holdfast.ledger.local import LocalLedger
from holdfast.model.action import GRID
from holdfast.model.detection import gas
from holdfast.model.scenario import Scenario
from holdfast.node.proof_messages import ProofQuestion
from holdfast.pdp import (
    Challenge,
    FileEntry,
    Inventory,
    Proof,
    Prover,
    PublicKey,
    SecretKey,
    StoredFile,
    TagFile,
    TagHeader,
)
from holdfast.pdp.readers import Memory
from holdfast.pdp.tagging import Chunk, TaggingPool
from holdfast.sim import fleet
from holdfast.sim.draws import KeyedDraws
from holdfast.sim.evaluation import types
from holdfast.sim.world import world_of

START = 1_800_000_000_000 - 1_800_000_000_000 % DAY
FILE_ID, NONCE = bytes(16), bytes(32)


class Clock:
    """Time that passes when it is told to; milliseconds since 1970."""

    def __init__(self, now: int = START) -> None:
        self.now = now
        self._own = threading.local()

    def __call__(self) -> int:
        lasted, self._own.lasted = getattr(self._own, "lasted", 0), 0
        return self.now + lasted

    def last(self, seconds: float) -> None:
        """Let what this thread waits for last so long, as it will see when it looks next."""
        self._own.lasted = round(1000 * seconds)

    def seconds(self) -> float:
        return self.now / 1000


@dataclass
class Tally:
    """What one holding's audits came to, counted where the truth is known."""

    gas: float = 0.0
    audits: int = 0
    detections: int = 0
    misses: int = 0


class Subject:
    """A holding on a simulated node; the node's fate is the world's."""

    def __init__(self, world: "World", index: int) -> None:
        draws = np.random.default_rng((world.seed, 7, index))
        self.index, self.number, self.name = index, index, f"holding-{index:06}"
        self.key = SecretKey(draws.bytes(32), 1)
        self.private = PrivateKey(draws.bytes(32))
        self.address = address_of(self.private.public_key)
        self.node = self
        self._world, self._draws = world, draws
        self.unreachable = 0.0  # how likely a request does not arrive
        self.tally = Tally()
        self._done: dict[bytes, Answer] = {}

    @cached_property
    def content(self) -> bytes:
        return self._draws.bytes(31 * self._world.scenario.blocks - 1)

    @cached_property
    def tags(self) -> TagFile:
        header = TagHeader(self.key.public.id, FILE_ID, 1, NONCE, 1, len(self.content))
        pages = TaggingPool(Memory(self.content), self.key, header).pages(Chunk(0, header.blocks))
        return TagFile(Memory(header.encode() + pages))

    @cached_property
    def inventory(self) -> Inventory:
        empty = Inventory(self.key.public.id, 1)
        return empty.with_file(FileEntry(FILE_ID, 1, NONCE, self._world.scenario.blocks))

    def prove_many(
        self,
        questions: Sequence[ProofQuestion],
        *,
        seconds: float,  # noqa: ARG002 - it answers at once
    ) -> list[Answer | Exception]:
        answers: list[Answer | Exception] = []
        for question in questions:
            try:
                answers.append(self.prove(question))
            except (NodeError, RefusedError) as error:
                answers.append(error)
        return answers

    def prove(self, question: ProofQuestion) -> Answer:
        challenge, to = question.challenge, question.to
        if self._draws.random() < self.unreachable:
            raise UnreachableError("can't reach the node: nobody listens")
        if challenge.id not in self._done:
            assert to is not None
            damaged = self._world.audited(self.index, challenge.samples)
            proof = self._proof(challenge, damaged=damaged)
            name = to.name_of(challenge)
            signature = signing.sign(self.private, to.domain, to.holding_id, name, proof)
            self._done = {challenge.id: Answer(proof, signature)}
        return self._done[challenge.id]

    def _proof(self, challenge: Challenge, *, damaged: bool) -> Proof:
        content = bytearray(self.content)
        if damaged:
            content[31 * int(challenge.sample.indices[0])] ^= 1
        stored = StoredFile(Memory(bytes(content)), self.tags)
        return Prover(self.inventory, {FILE_ID: stored}).prove(challenge)


class World:
    """Subjects whose data decays and is repaired as in the scenario, each in its own time."""

    def __init__(
        self,
        scenario: Scenario,
        count: int,
        seed: int,
        clock: Clock,
        others: int = 0,
        chain: Ledger | None = None,
    ) -> None:
        """Make as many subjects as an evaluation has episodes, and other honest ones."""
        self.scenario, self.seed, self.clock = scenario, seed, clock
        self._tables = world_of(scenario)
        drawn = types(scenario.malicious_share, count, seed)
        malicious = np.concatenate([drawn, np.zeros(others, np.bool_)])
        count += others
        self._draws = [KeyedDraws.of_episodes(seed, [k]) for k in range(count)]
        self._nodes = [
            fleet.start(self._tables, 1, draws, malicious[k : k + 1])
            for k, draws in enumerate(self._draws)
        ]
        self._last = [clock.now] * count
        self._over = [False] * count  # the year is: what follows is not counted
        self.subjects = [Subject(self, k) for k in range(count)]
        self._by_name = {subject.name: subject for subject in self.subjects}
        owner = np.random.default_rng((seed, 8)).bytes(20)
        self.chain: Ledger = chain or LocalLedger(Path(":memory:"), owner, clock.seconds, sectors=1)
        for subject in self.subjects:
            self.chain.register(subject.key.public, subject.address)
        self.price = 0

    def subject(self, name: str) -> Subject:
        return self._by_name[name]

    def holdings(self, names: Collection[str]) -> dict[str, Subject]:
        return {name: self._by_name[name] for name in names}

    def ledger(self, _sectors: int) -> Ledger:
        return self.chain

    def gas_price(self) -> int:
        return self.price

    def rows(self) -> list[tuple[str, int, PublicKey]]:
        return [(s.name, self.scenario.blocks, s.key.public) for s in self.subjects]

    def audited(self, index: int, sampled: int) -> bool:
        """Let the node live until now, and return whether so large a sample meets damage."""
        units = round((self.clock.now - self._last[index]) / DAY)
        ratio = sampled / self.scenario.blocks
        action = np.array([GRID.nearest(units, ratio)])
        nodes, outcome = fleet.step(self._tables, self._nodes[index], action, self._draws[index])
        self._nodes[index], self._last[index] = nodes, self.clock.now
        self.clock.last(float(np.squeeze(nodes.history.latency)))
        tally = self.subjects[index].tally
        if self._over[index]:
            return bool(outcome.detection[0])
        self._over[index] = bool(outcome.finished[0])
        tally.gas += float(gas(sampled, self.scenario.blocks))
        tally.audits += 1
        tally.detections += bool(outcome.detection[0])
        tally.misses += bool(outcome.miss[0])
        return bool(outcome.detection[0])
