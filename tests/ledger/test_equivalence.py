"""Local ledger and contract, driven by the same random calls, tell and refuse the same."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.ledger_env import NODE, NODE_ADDRESS, Audit, Kept, evm_world, local_world, wrong

from holdfast.ledger import signing
from holdfast.ledger.interface import (
    Answer,
    Batch,
    Entry,
    Event,
    Failed,
    Ledger,
    LedgerRefusedError,
    Passed,
    Reason,
    Receipt,
    TimedOut,
)
from holdfast.pdp import PublicKey
from holdfast.pdp.field import Q

pytestmark = pytest.mark.slow

Outcome = tuple[Event, ...] | Reason
ANSWERS = st.sampled_from(("honest", "wrong", "signed", "of q", "too wide", "of more than a word"))
HOLDINGS = st.integers(0, 1)
SEEDS = st.integers(0, 2)
OPENINGS = st.sampled_from(("anew", "again", "for longer"))
BATCHES = st.sampled_from(("in order", "in order", "unsorted", "twice", "stray"))
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
        self.serials = count(1)
        self.audits = {
            (k, s): self.kept[k].audit(next(self.serials)) for k in (0, 1) for s in range(3)
        }
        self.batches: list[tuple[Batch, dict[bytes, Audit]]] = []
        self.names: set[tuple[int, bytes]] = set()

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

    @rule(by_owner=st.booleans(), k=HOLDINGS, s=SEEDS, seconds=SECONDS, way=OPENINGS)
    def open(self, by_owner: bool, k: int, s: int, seconds: int, way: str) -> None:
        audit = self.audits[k, s]
        if way == "anew":
            audit = self.kept[k].audit(next(self.serials))
        if way != "again":
            audit = replace(audit, deadline=self.chain.now() + seconds)
        question = (self.kept[k].number, audit.challenge, audit.target, audit.deadline)
        if isinstance(self.both(by_owner, lambda it: it.open(*question)), tuple):
            assert (k, audit.id) not in self.names, "a name is used once"
            self.names.add((k, audit.id))
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

    @rule(seed=st.binary(min_size=1, max_size=1), seconds=SECONDS, way=BATCHES)
    def open_many(self, seed: bytes, seconds: int, way: str) -> None:
        audits = dict(kept.in_batch(32 * seed, n) for kept in self.kept for n in (1, 2, 3))
        words = sorted(audits)
        if way == "unsorted":
            words[1:3] = words[2:0:-1]
        elif way == "twice":
            words[1] = words[0]
        elif way == "stray":
            entry = replace(Entry.decode(words[1]), number=2**32 - 1)
            words[1] = entry.encode()
        deadline = self.chain.now() + seconds
        self.open_batch(Batch(self.chain.owner.sender, 32 * seed, deadline, tuple(words)), audits)

    @rule(data=st.data(), words=st.integers(1, 6), seconds=st.integers(0, 1))
    def open_many_again(self, data: st.DataObject, words: int, seconds: int) -> None:
        if self.batches:
            batch, audits = data.draw(st.sampled_from(self.batches))
            again = replace(
                batch, words=batch.words[:words], deadline=batch.deadline + 20 * seconds
            )
            self.open_batch(again, audits)

    @rule(data=st.data())
    def open_many_as_another(self, data: st.DataObject) -> None:
        if self.batches:
            batch, audits = data.draw(st.sampled_from(self.batches))
            self.open_batch(replace(batch, owner=self.chain.stranger.sender), audits)

    def open_batch(self, batch: Batch, audits: dict[bytes, Audit]) -> None:
        by_owner = batch.owner == self.chain.owner.sender
        if isinstance(self.both(by_owner, lambda it: it.open_many(batch)), tuple):
            names = [(-1, batch.challenge_id(index)) for index in range(len(batch.words))]
            assert len(set(names) - self.names) == len(names), "a name is used once"
            self.names.update(names)
        self.batches.append((batch, audits))

    @rule(data=st.data(), kind=ANSWERS)
    def settle(self, data: st.DataObject, kind: str) -> None:
        if self.batches:
            batch, audits = data.draw(st.sampled_from(self.batches))
            places = st.integers(0, len(batch.words) - 1)
            chosen = data.draw(st.lists(places, min_size=1, unique=True))
            spare = next(iter(audits.values()))

            def answers(it: Ledger) -> dict[int, Answer]:
                return {
                    i: self.answer(
                        it,
                        batch.holding(i),
                        batch.challenge_id(i),
                        audits.get(batch.words[i], spare),
                        kind,
                    )
                    for i in chosen
                }

            self.both(False, lambda it: it.settle(batch, answers(it)))

    @rule(data=st.data())
    def expire_many(self, data: st.DataObject) -> None:
        if self.batches:
            batch, _ = data.draw(st.sampled_from(self.batches))
            places = st.integers(0, len(batch.words) - 1)
            chosen = data.draw(st.lists(places, min_size=1, max_size=8))
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
            reasons = [
                [receipt.events for receipt in world.owner.receipts()]
                for world in (self.local, self.chain)
            ]
            assert reasons[0] == reasons[1]

    @invariant()
    def a_name_has_one_verdict(self) -> None:
        if hasattr(self, "chain"):
            verdicts = [
                (event.holding, event.challenge)
                for receipt in self.chain.owner.receipts()
                for event in receipt.events
                if isinstance(event, (Passed, Failed, TimedOut))
            ]
            assert len(verdicts) == len(set(verdicts))

    @invariant()
    def the_newest_serials_are_the_same(self) -> None:
        if hasattr(self, "chain"):
            for kept in self.kept:
                newest = [it.owner.newest_serial(kept.number) for it in (self.local, self.chain)]
                assert newest[0] == newest[1]


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
