"""Local ledger and contract, driven by the same random calls, tell and refuse the same."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.ledger.world import (
    NODE,
    NODE_ADDRESS,
    Audit,
    Kept,
    evm_world,
    local_world,
    wrong,
)

from holdfast.ledger import signing
from holdfast.ledger.interface import (
    Answer,
    Batch,
    Event,
    Ledger,
    LedgerRefusedError,
    Posted,
    Reason,
    Receipt,
    Verdict,
)
from holdfast.ledger.keccak import Tree
from holdfast.pdp import PublicKey
from holdfast.pdp.field import Q

Outcome = tuple[Event, ...] | Reason
ANSWERS = st.sampled_from(("honest", "wrong", "signed", "of q", "too wide", "of more than a word"))
HOLDINGS = st.integers(0, 1)
SEEDS = st.integers(0, 2)
SECONDS = st.integers(-1, 12)
OFF_CURVE = 5  # no point has this x


class TwoLedgers(RuleBasedStateMachine):
    """Two holdings, a few challenges, and every call with good, bad and untimely arguments."""

    sectors: ClassVar[int]

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-test-"))
        self.chain = evm_world(self.folder, self.sectors)
        self.local = local_world(self.folder, self.sectors, clock=self.chain.now)
        self.kept = [Kept(self.chain, self.sectors, seed) for seed in (0, 1)]
        for kept in self.kept:
            self.local.owner.register(kept.store.key.public, NODE_ADDRESS)
        self.audits = {(k, s): self.kept[k].audit(s) for k in (0, 1) for s in range(3)}
        self.posted: dict[tuple[int, int], tuple[Verdict, int]] = {}
        self.batches: list[tuple[Batch, list[Audit]]] = []
        self.trees: list[tuple[list[Verdict], Tree]] = []

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def both(self, by_owner: bool, call: Callable[[Ledger], Receipt]) -> Outcome:
        local, chain = (  # the local call comes first: it takes no time
            attempted(call, world.owner if by_owner else world.stranger)
            for world in (self.local, self.chain)
        )
        assert local == chain
        return chain

    def answer(self, ledger: Ledger, holding: int, name: bytes, audit: Audit, kind: str) -> Answer:
        proof = audit.proof
        if kind == "of q":
            proof = replace(proof, sigma=Q)
        elif kind == "of more than a word":
            proof = replace(proof, sigma=2**256)
        elif kind == "too wide":
            proof = replace(proof, mu=(*proof.mu, 1))
        elif kind in {"wrong", "signed"}:
            proof = wrong(proof)
        if kind == "signed":
            return Answer(proof, signing.sign(NODE, ledger.domain, holding, name, proof))
        return Answer(proof)

    @rule(by_owner=st.booleans(), node=st.sampled_from([NODE_ADDRESS, bytes(20)]), k=HOLDINGS)
    def register(self, by_owner: bool, node: bytes, k: int) -> None:
        public = self.kept[k].store.key.public
        self.both(by_owner, lambda it: it.register(public, node))

    @rule(place=st.integers(0, 3), x=st.sampled_from([0, OFF_CURVE, Q]))
    def register_badly(self, place: int, x: int) -> None:
        points = list(self.kept[0].store.key.public.abscissas)
        points[place % self.sectors] = x.to_bytes(32, "big")
        self.both(True, lambda it: it.register(PublicKey(tuple(points)), NODE_ADDRESS))

    @rule(by_owner=st.booleans(), k=HOLDINGS, s=SEEDS, seconds=SECONDS, again=st.booleans())
    def open(self, by_owner: bool, k: int, s: int, seconds: int, again: bool) -> None:
        audit = self.audits[k, s]
        if not again:
            audit = replace(audit, deadline=self.chain.now() + seconds)
        question = (self.kept[k].number, audit.challenge, audit.target, audit.deadline)
        if isinstance(self.both(by_owner, lambda it: it.open(*question)), tuple):
            self.audits[k, s] = audit

    @rule(k=HOLDINGS, s=SEEDS, t=SEEDS, kind=ANSWERS)
    def submit(self, k: int, s: int, t: int, kind: str) -> None:
        holding, name, audit = self.kept[k].id, self.audits[k, s].id, self.audits[k, t]
        self.both(
            True, lambda it: it.submit(holding, name, self.answer(it, holding, name, audit, kind))
        )

    @rule(k=HOLDINGS, s=SEEDS)
    def expire(self, k: int, s: int) -> None:
        self.both(False, lambda it: it.expire(self.kept[k].id, self.audits[k, s].id))

    @rule(by_owner=st.booleans(), k=HOLDINGS, s=SEEDS, passed=st.booleans())
    def post(self, by_owner: bool, k: int, s: int, passed: bool) -> None:
        kept, audit = self.kept[k], self.audits[k, s]
        verdict = kept.verdict(audit, audit.proof, passed=passed)
        outcome = self.both(
            by_owner, lambda it: it.post(kept.number, audit.id, verdict.digest, passed=passed)
        )
        if isinstance(outcome, tuple) and isinstance(outcome[0], Posted):
            self.posted[k, s] = verdict, outcome[0].until

    @rule(data=st.data(), kind=ANSWERS)
    def contest(self, data: st.DataObject, kind: str) -> None:
        if self.posted:
            where = data.draw(st.sampled_from(sorted(self.posted)))
            verdict, until = self.posted[where]
            self.both(
                False,
                lambda it: it.contest(
                    verdict, until, self.answer(it, 0, b"", self.audits[where], kind).proof
                ),
            )

    @rule(by_owner=st.booleans(), truths=st.lists(st.booleans(), min_size=1, max_size=6))
    def post_many(self, by_owner: bool, truths: list[bool]) -> None:
        verdicts = [
            self.kept[k].verdict(audit, audit.proof if true else wrong(audit.proof), passed=true)
            for ((k, _), audit), true in zip(self.audits.items(), truths, strict=False)
        ]
        tree = Tree([verdict.leaf for verdict in verdicts])
        self.both(by_owner, lambda it: it.post_many(tree.root))
        self.trees.append((verdicts, tree))

    @rule(data=st.data(), kind=ANSWERS, beside=st.integers(0, 1))
    def contest_many(self, data: st.DataObject, kind: str, beside: int) -> None:
        if self.trees:
            verdicts, tree = data.draw(st.sampled_from(self.trees))
            index = data.draw(st.integers(0, len(verdicts) - 1))
            audit, path = list(self.audits.values())[index], tree.path(index)
            self.both(
                False,
                lambda it: it.contest_many(
                    verdicts[index],
                    index + beside,
                    path,
                    self.answer(it, 0, b"", audit, kind).proof,
                ),
            )

    @rule(seed=st.binary(min_size=1, max_size=1), seconds=SECONDS, stray=st.booleans())
    def open_many(self, seed: bytes, seconds: int, stray: bool) -> None:
        pairs = [kept.in_batch(32 * seed) for kept in (*self.kept, self.kept[0])]
        entries = [entry for entry, _ in pairs]
        if stray:
            entries[1] = replace(entries[1], number=2**32 - 1)
        words = tuple(entry.encode() for entry in entries)
        batch = Batch(self.chain.owner.sender, 32 * seed, self.chain.now() + seconds, words)
        self.both(True, lambda it: it.open_many(batch))
        self.batches.append((batch, [audit for _, audit in pairs]))

    @rule(data=st.data(), kind=ANSWERS)
    def settle(self, data: st.DataObject, kind: str) -> None:
        if self.batches:
            batch, audits = data.draw(st.sampled_from(self.batches))
            chosen = data.draw(st.lists(st.integers(0, 2), min_size=1, unique=True))

            def answers(it: Ledger) -> dict[int, Answer]:
                return {
                    i: self.answer(it, batch.holding(i), batch.challenge_id(i), audits[i], kind)
                    for i in chosen
                }

            self.both(False, lambda it: it.settle(batch, answers(it)))

    @rule(data=st.data())
    def expire_many(self, data: st.DataObject) -> None:
        if self.batches:
            batch, _ = data.draw(st.sampled_from(self.batches))
            chosen = data.draw(st.lists(st.integers(0, 2), min_size=1, unique=True))
            self.both(False, lambda it: it.expire_many(batch, chosen))

    @rule(by_owner=st.booleans(), root=st.binary(min_size=32, max_size=32), size=SEEDS)
    def anchor(self, by_owner: bool, root: bytes, size: int) -> None:
        self.both(by_owner, lambda it: it.anchor(root, size))

    @rule(seconds=st.sampled_from([3, 15, 2000]))
    def wait(self, seconds: int) -> None:
        self.chain.advance(seconds)

    @invariant()
    def the_histories_are_the_same(self) -> None:
        if hasattr(self, "chain"):
            told = [
                [receipt.events for receipt in world.owner.receipts()]
                for world in (self.local, self.chain)
            ]
            assert told[0] == told[1]


def attempted(call: Callable[[Ledger], Receipt], ledger: Ledger) -> Outcome:
    try:
        return call(ledger).events
    except LedgerRefusedError as refusal:
        return refusal.reason


class OneSector(TwoLedgers):
    sectors = 1


class FourSectors(TwoLedgers):
    sectors = 4


TestOneSector = OneSector.TestCase
TestOneSector.settings = settings(
    max_examples=10, stateful_step_count=25, deadline=None, derandomize=True
)
TestFourSectors = FourSectors.TestCase
TestFourSectors.settings = settings(
    max_examples=5, stateful_step_count=25, deadline=None, derandomize=True
)
