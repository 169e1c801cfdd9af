"""Local ledger and contract, driven by the same random calls, tell and refuse the same."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

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
from holdfast.pdp import Proof
from holdfast.pdp.field import Q

Outcome = tuple[Event, ...] | Reason
KINDS = ("honest", "wrong", "signed", "malformed")
SEEDS = st.integers(0, 2)


class TwoLedgers(RuleBasedStateMachine):
    """Two holdings, a few challenges, and every call with good, bad and untimely arguments."""

    @initialize()
    def begin(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="holdfast-test-"))
        self.chain = evm_world(folder)
        self.local = local_world(folder, clock=self.chain.now)
        self.kept = [Kept(self.chain, seed=seed) for seed in (0, 1)]
        for kept in self.kept:
            self.local.owner.register(kept.store.key.public, NODE_ADDRESS)
        self.audits = {(k, s): self.kept[k].audit(s) for k in (0, 1) for s in range(3)}
        self.posted: dict[tuple[int, int], tuple[Verdict, int]] = {}
        self.batches: list[tuple[Batch, list[Audit]]] = []

    def both(self, by_owner: bool, call: Callable[[Ledger], Receipt]) -> Outcome:
        local, chain = (  # the local call comes first: it takes no time
            attempted(call, world.owner if by_owner else world.stranger)
            for world in (self.local, self.chain)
        )
        assert local == chain
        return chain

    def answer(self, ledger: Ledger, holding: int, name: bytes, audit: Audit, kind: str) -> Answer:
        proof = audit.proof
        if kind == "malformed":
            return Answer(Proof(proof.challenge_id, Q, proof.mu))
        if kind == "wrong":
            return Answer(wrong(proof))
        if kind == "signed":
            bad = wrong(proof)
            return Answer(bad, signing.sign(NODE, ledger.domain, holding, name, bad))
        return Answer(proof)

    @rule(by_owner=st.booleans(), k=st.integers(0, 1), s=SEEDS, seconds=st.integers(-1, 12))
    def open(self, by_owner: bool, k: int, s: int, seconds: int) -> None:
        audit = replace(self.audits[k, s], deadline=self.chain.now() + seconds)
        question = (self.kept[k].number, audit.challenge, audit.target, audit.deadline)
        if isinstance(self.both(by_owner, lambda it: it.open(*question)), tuple):
            self.audits[k, s] = audit

    @rule(k=st.integers(0, 1), s=SEEDS, t=SEEDS, kind=st.sampled_from(KINDS))
    def submit(self, k: int, s: int, t: int, kind: str) -> None:
        holding, name, audit = self.kept[k].id, self.audits[k, s].id, self.audits[k, t]
        self.both(
            True, lambda it: it.submit(holding, name, self.answer(it, holding, name, audit, kind))
        )

    @rule(k=st.integers(0, 1), s=SEEDS)
    def expire(self, k: int, s: int) -> None:
        self.both(False, lambda it: it.expire(self.kept[k].id, self.audits[k, s].id))

    @rule(by_owner=st.booleans(), k=st.integers(0, 1), s=SEEDS, passed=st.booleans())
    def post(self, by_owner: bool, k: int, s: int, passed: bool) -> None:
        kept, audit = self.kept[k], self.audits[k, s]
        verdict = kept.verdict(audit, audit.proof, passed=passed)
        outcome = self.both(
            by_owner, lambda it: it.post(kept.number, audit.id, verdict.digest, passed=passed)
        )
        if isinstance(outcome, tuple) and isinstance(outcome[0], Posted):
            self.posted[k, s] = verdict, outcome[0].until

    @rule(data=st.data(), honest=st.booleans())
    def contest(self, data: st.DataObject, honest: bool) -> None:
        if self.posted:
            where = data.draw(st.sampled_from(sorted(self.posted)))
            verdict, until = self.posted[where]
            proof = self.audits[where].proof if honest else wrong(self.audits[where].proof)
            self.both(False, lambda it: it.contest(verdict, until, proof))

    @rule(seed=st.binary(min_size=1, max_size=1), seconds=st.integers(-1, 12))
    def open_many(self, seed: bytes, seconds: int) -> None:
        pairs = [kept.in_batch(32 * seed) for kept in (*self.kept, self.kept[0])]
        words = tuple(entry.encode() for entry, _ in pairs)
        batch = Batch(self.chain.owner.sender, 32 * seed, self.chain.now() + seconds, words)
        self.both(True, lambda it: it.open_many(batch))
        self.batches.append((batch, [audit for _, audit in pairs]))

    @rule(data=st.data(), kind=st.sampled_from(KINDS))
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


TestTwoLedgers = TwoLedgers.TestCase
TestTwoLedgers.settings = settings(
    max_examples=8, stateful_step_count=20, deadline=None, derandomize=True
)
