"""Nodes that keep less than they should: they drop blocks, flip bits, or hide it by silence."""

import math
import random
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.adversaries.stage import BLOCKS, Stage, Turncoat, drop

from holdfast.evidence.leaf import Outcome
from holdfast.ledger import signing
from holdfast.ledger.interface import Answer
from holdfast.model.detection import detection_probability
from holdfast.node.holding import Holding as Kept
from holdfast.node.identity import NodeKey
from holdfast.node.proof_messages import ProofQuestion
from holdfast.node.wire import Code, NodeRefusedError
from holdfast.owner import Holding, upload

NEVER = 1e-9


def chosen(blocks: int, seed: int) -> list[int]:
    return sorted(np.random.default_rng(seed).choice(BLOCKS, blocks, replace=False).tolist())


def flip(node: Turncoat, holding: Holding, rate: float, seed: int) -> int:
    """Flip bits as a bad disk does; return how many blocks are hit."""
    kept = node.kept(holding)
    file = kept.record.files[0]
    every = [(block, block + 1) for block in range(BLOCKS)]
    before = kept.blocks(file.file_id, every)
    bits = np.unpackbits(np.frombuffer(b"".join(before), np.uint8))
    bits ^= np.random.default_rng(seed).random(bits.size) < rate
    kept.replace_blocks(file.file_id, every, np.packbits(bits).tobytes())
    after = kept.blocks(file.file_id, every)
    return sum(old != new for old, new in zip(before, after, strict=True))


def escape(damaged: int, samples: int) -> float:
    return 1 - float(detection_probability(damaged, samples, BLOCKS))


@pytest.mark.slow
def test_a_node_that_drops_blocks_and_keeps_their_tags_fails(any_stage: Stage) -> None:
    node, url = any_stage.node()
    holding = any_stage.holding(node, url, any_stage.content())
    assert any_stage.audit(holding, 200).outcome is Outcome.PASSED
    drop(node, holding, chosen(40, seed=1))
    assert escape(40, 200) < NEVER
    assert any_stage.audit(holding, 200).outcome is Outcome.FAILED


@pytest.mark.slow
def test_a_node_that_flips_bits_fails(any_stage: Stage) -> None:
    node, url = any_stage.node()
    holding = any_stage.holding(node, url, any_stage.content())
    assert any_stage.audit(holding, 200).outcome is Outcome.PASSED
    hit = flip(node, holding, rate=3e-4, seed=2)
    assert 0 < hit < BLOCKS / 2
    assert escape(hit, 200) < NEVER
    assert any_stage.audit(holding, 200).outcome is Outcome.FAILED


def test_one_flipped_bit_is_found_where_every_block_is_sampled(stage: Stage) -> None:
    node, url = stage.node()
    holding = stage.holding(node, url, stage.content())
    assert stage.audit(holding, BLOCKS).outcome is Outcome.PASSED
    kept = node.kept(holding)
    file = kept.record.files[0]
    (block,) = kept.blocks(file.file_id, [(7, 8)])
    kept.replace_blocks(file.file_id, [(7, 8)], bytes([block[0] ^ 1]) + block[1:])
    assert stage.audit(holding, BLOCKS).outcome is Outcome.FAILED


@pytest.mark.slow
def test_droppers_are_found_as_often_as_the_formula_says(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, url = stage.node()
    # Which blocks a challenge draws depends on the file's id and nonce, which are random.
    monkeypatch.setattr(upload, "secrets", SimpleNamespace(token_bytes=random.Random(1).randbytes))
    monkeypatch.setattr(upload, "draw_nonce", lambda: bytes(32))
    holding = stage.holding(node, url, stage.content())
    audits, samples, dropped = 120, 5, 40
    honest = [stage.audit_by_seed(holding, samples, seed).outcome for seed in range(20)]
    assert set(honest) == {Outcome.PASSED}
    drop(node, holding, chosen(dropped, seed=3))
    outcomes = [
        stage.audit_by_seed(holding, samples, seed).outcome for seed in range(20, 20 + audits)
    ]
    assert set(outcomes) == {Outcome.PASSED, Outcome.FAILED}
    probability = 1 - escape(dropped, samples)
    assert likelihood(outcomes.count(Outcome.FAILED), audits, probability) > 0.01


def likelihood(hits: int, trials: int, probability: float) -> float:
    """Return how likely it is to be as far off as that, or farther: the exact binomial test."""
    chances = [
        math.comb(trials, k) * probability**k * (1 - probability) ** (trials - k)
        for k in range(trials + 1)
    ]
    return sum(chance for chance in chances if chance <= chances[hits] * (1 + 1e-9))


@pytest.mark.slow
def test_a_dropper_gains_nothing_by_silence_or_by_another_signature(any_stage: Stage) -> None:
    node, url = any_stage.node()
    holding = any_stage.holding(node, url, any_stage.content())
    assert any_stage.audit(holding, 200).outcome is Outcome.PASSED
    drop(node, holding, chosen(40, seed=4))

    def refuse(_node: Turncoat, _holding: Kept, _question: ProofQuestion) -> Answer:
        raise NodeRefusedError(Code.STORAGE, "the disk is busy")

    def disown(node: Turncoat, holding: Kept, question: ProofQuestion) -> Answer:
        """Answer under another name, so that the failing proof does not count."""
        stranger = Turncoat(NodeKey(b"s" * 32), node.store, node.gate)
        return stranger.prove(holding, question)

    def garble(node: Turncoat, holding: Kept, question: ProofQuestion) -> Answer:
        honest = Turncoat(node.key, node.store, node.gate).prove(holding, question)
        return replace(honest, signature=bytes(signing.SIGNATURE_BYTES))

    for way in (refuse, disown, garble):
        node.turn(way)
        result = any_stage.audit(holding, 200)
        assert result.outcome is Outcome.TIMED_OUT
        assert result.reason
