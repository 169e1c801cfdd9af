"""Strangers who write to the same ledger, and what they can make of another owner's audits."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from coincurve import PrivateKey
from tests.adversaries.stage import PATIENCE, Stage, Turncoat
from tests.ledger.mutants import sources
from tests.support.ledger_env import Kept, World, evm_world, names, wrong
from tests.support.single_audit import SingleAudit
from web3 import Web3

from holdfast.control.audits.types import AuditResult
from holdfast.control.audits.verdicts import OUTCOMES, verdict_in
from holdfast.durations import SECOND
from holdfast.evidence.leaf import Outcome
from holdfast.ledger import signing
from holdfast.ledger.build import compile_contract
from holdfast.ledger.evm import EvmLedger
from holdfast.ledger.interface import (
    Answer,
    Batch,
    Entry,
    Event,
    Failed,
    LedgerRefusedError,
    Opened,
    Passed,
    Receipt,
    Registered,
    TimedOut,
)
from holdfast.ledger.keccak import address_of, keccak
from holdfast.node.holding import Holding as Stored
from holdfast.node.node import Node
from holdfast.node.proof_messages import ProofQuestion
from holdfast.pdp import Challenge, Proof, PublicKey, curve
from holdfast.pdp.field import Q

LOW_32 = 2**32 - 1
THIEF = PrivateKey(b"\x09" * 32)
SIGMA = 9
EVEN = 2  # the first byte of a point with an even y

# Each of the two ways in which the contract keeps batches apart, undone.
LEAVES = (("LEAF: constant(uint256) = 4 ", "LEAF: constant(uint256) = 1 "),)
HEADS = (
    ("    self.roots[head] = root\n", "    self.roots[root] = root\n"),
    ("assert self.roots[head] == root", "assert self.roots[root] == root"),
)
Edits = tuple[tuple[str, str], ...]


def free_target() -> bytes:
    """Return a target that sigma = 9 and mu = 0 meet under any key, without any data."""
    point = curve.times_base(Q - SIGMA)
    assert point is not None
    return address_of(point)


def leaf_of_64_bytes(batch: Batch) -> bytes:
    """Return the root of a batch of one word as it was: it could be an inner node."""
    return keccak(batch.head + batch.words[0])


def leaf_of_160_bytes(batch: Batch) -> bytes:
    return batch.root


class Nesting:
    """Opens a batch whose only word is the leaf of another owner's batch that was never opened."""

    def __init__(self, world: World, attacker: EvmLedger, leaf: Callable[[Batch], bytes]) -> None:
        self.world, self.attacker, self.leaf = world, attacker, leaf
        self.victim = Kept(world)
        self._seeds = count(1)

    def forge(self, outcome: type[Event]) -> list[Event]:
        """Return what the ledger was made to say about the victim's holding."""
        now, owner = self.world.now(), self.world.owner.sender
        word = Entry(free_target(), self.victim.number, 3, bytes(4)).encode()
        inner = Batch(owner, self._seed(), now + (-50 if outcome is TimedOut else 50), (word,))
        outer = Batch(self.attacker.sender, self._seed(), now + 50, (self.leaf(inner),))
        self.attacker._send("open_many", outer.seed, outer.deadline, list(outer.words))
        claimed = (Web3.to_checksum_address(owner), inner.seed, inner.deadline)
        events: list[Event] = []
        for start, path in ((1, [outer.head]), (4, [outer.head]), (0, [outer.head]), (0, [])):
            part = (start, [word], path)
            try:
                if outcome is TimedOut:
                    receipt = self.attacker._send("expire_many", claimed, part, [0])
                else:
                    proofs = [(0, (SIGMA, [0]))]
                    receipt = self.attacker._send("settle", claimed, part, proofs, [])
            except LedgerRefusedError:
                continue
            events.extend(receipt.events)
        return events

    def _seed(self) -> bytes:
        return next(self._seeds).to_bytes(32, "big")


def forged(world: World, leaf: Callable[[Batch], bytes]) -> list[str]:
    """Return the verdicts that a stranger forges, and then the owner by batches of its own."""
    verdicts = []
    for attacker in (world.stranger, world.owner):
        assert isinstance(attacker, EvmLedger)
        nesting = Nesting(world, attacker, leaf)
        events = nesting.forge(TimedOut) + nesting.forge(Passed)
        verdicts += [type(event).__name__ for event in events]
    return verdicts


@pytest.mark.slow
def test_nobody_forges_verdicts_by_a_batch_within_a_batch(tmp_path: Path) -> None:
    """Before, a leaf hashed 64 bytes as an inner node does, and a root was of no owner.

    Of challenges that were never opened, a stranger forged TimedOut and Passed, and so did the
    owner: four verdicts of four attempts.
    """
    for leaf in (leaf_of_64_bytes, leaf_of_160_bytes):
        assert forged(evm_world(tmp_path), leaf) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("undone", "verdicts"),
    [
        ((*LEAVES, *HEADS), ["TimedOut", "Passed", "TimedOut", "Passed"]),
        (LEAVES, []),
        (HEADS, []),
    ],
    ids=["neither", "by heads alone", "by leaves alone"],
)
def test_either_way_of_keeping_batches_apart_is_enough(
    undone: Edits, verdicts: list[str], tmp_path: Path
) -> None:
    changed = sources(1)
    for old, new in undone:
        assert changed["audit.vy"].count(old) == 1
        changed["audit.vy"] = changed["audit.vy"].replace(old, new)
    assert (
        forged(evm_world(tmp_path, 1, compile_contract(1, changed)), leaf_of_64_bytes) == verdicts
    )


class Copycat:
    """Opens another owner's challenge under a holding of its own, where it can have any verdict."""

    def __init__(self, stage: Stage, opened: Opened, public: PublicKey) -> None:
        self.ledger = stage.world.stranger
        (registered,) = self.ledger.register(public, address_of(THIEF.public_key)).events
        assert isinstance(registered, Registered)
        self.holding = registered.holding
        values = (opened.seed, opened.inventory, opened.blocks, opened.samples, 0, opened.blocks)
        terms = (opened.target, opened.deadline)
        (copy,) = self.ledger.open(self.holding & LOW_32, Challenge(*values), *terms).events
        assert isinstance(copy, Opened)
        self.name = copy.challenge

    def fail(self, proof: Proof) -> None:
        signature = signing.sign(THIEF, self.ledger.domain, self.holding, self.name, proof)
        receipt = self.ledger.submit(self.holding, self.name, Answer(proof, signature))
        assert names(receipt) == ["Failed"]

    def succeed(self, proof: Proof) -> None:
        receipt = self.ledger.submit(self.holding, self.name, Answer(proof))
        assert names(receipt) == ["Passed"]


def key_for(target: bytes, challenge_id: bytes, sectors: int) -> tuple[PublicKey, Proof]:
    """Return a key under which one knows a proof for another owner's target: A = sigma G - T."""
    for sigma in count(1):
        minus_t = curve.times(curve.decode(target), Q - 1)
        sigma_g = curve.times_base(sigma)
        assert minus_t is not None
        assert sigma_g is not None
        point = curve.total([minus_t, sigma_g])
        assert point is not None
        if (encoded := curve.encode(point))[0] == EVEN:
            others = (curve.encode(curve.times_base(1))[1:],) * (sectors - 1)
            proof = Proof(challenge_id, sigma, (1, *(0,) * (sectors - 1)))
            return PublicKey((encoded[1:], *others)), proof
    raise AssertionError


def begun(stage: Stage) -> tuple[Turncoat, SingleAudit, Opened]:
    """Return an audit whose challenge has just been opened, as another worker resumes it."""
    node, url = stage.node()
    holding = stage.holding(node, url, stage.content(40))
    ledger = stage.world.owner
    audit = stage.draw(holding, 20, b"s" * 32)
    audit.open()
    (opened,) = ledger.receipts(ledger.height())[-1].events
    assert isinstance(opened, Opened)
    return node, audit.resume(), opened


@pytest.mark.slow
def test_a_copy_of_an_honest_nodes_challenge_does_not_fail_it(any_stage: Stage) -> None:
    """Before, a name did not bind the holding, and the control plane compared names alone.

    The stranger's copy failed first, and the control plane concluded `failed` for a right proof.
    """
    _, audit, opened = begun(any_stage)
    copycat = Copycat(any_stage, opened, audit.holding.key.public)
    answer = audit.answer()
    copycat.fail(wrong(answer.proof))
    # A stranger submits the answer before the owner does.
    any_stage.world.stranger.submit(opened.holding, opened.challenge, answer)
    audit.settle()
    result = audit.conclude()
    assert isinstance(result, AuditResult)
    assert result.outcome is Outcome.PASSED
    assert copycat.name != opened.challenge


@pytest.mark.slow
def test_a_copy_of_a_silent_nodes_challenge_does_not_excuse_it(any_stage: Stage) -> None:
    """Before, the stranger's copy passed, under a key made for its target.

    The control plane concluded `unknown` for a node that had kept silent.
    """
    _, audit, opened = begun(any_stage)
    world, pending = any_stage.world, audit.pending
    asked = replace(
        pending,
        opened_at=audit.clock(),
        tries=1,
        delivered=True,
        next_try=pending.deadline * SECOND,
    )
    public, proof = key_for(pending.target, pending.challenge.id, world.owner.sectors)
    Copycat(any_stage, opened, public).succeed(proof)
    world.advance(PATIENCE + 1)
    world.stranger.expire(opened.holding, opened.challenge)  # before the owner does
    result = audit.resume(asked).try_once()
    assert isinstance(result, AuditResult)
    assert result.outcome is Outcome.TIMED_OUT


@pytest.mark.slow
def test_a_proof_that_comes_after_its_verdict_is_kept_only_if_it_fits(any_stage: Stage) -> None:
    """Before, a node that was mended since its failure put a right proof under it.

    The evidence then did not verify: "it failed, but its proof passes".
    """
    node, audit, _ = begun(any_stage)

    def lie(liar: Turncoat, kept: Stored, question: ProofQuestion) -> Answer:
        return liar.signed(question, wrong(Node.prove(liar, kept, question).proof))

    node.turn(lie)
    audit.answer()
    audit.settle()
    node.ways.clear()  # the worker dies before it records that, and the node is mended
    result = audit.resume().try_once()
    assert isinstance(result, AuditResult)
    assert (result.outcome, result.proof_detail.proof) == (Outcome.FAILED, None)


def test_an_event_counts_for_the_holding_and_the_name_that_it_bears(stage: Stage) -> None:
    _, audit, opened = begun(stage)
    holding, name = opened.holding, audit.name
    for event, outcome in OUTCOMES.items():
        digest = (bytes(32),) if event is Failed else ()
        for where in ((holding ^ 1, name), (holding, bytes(32))):
            other = Receipt(bytes(32), 1, 0, (event(*where, *digest),))
            assert verdict_in(other, holding, name) is None
        own = Receipt(bytes(32), 1, 0, (event(holding, name, *digest),))
        verdict = verdict_in(own, holding, name)
        assert verdict is not None
        assert verdict.outcome is outcome
