"""Nodes that answer with other proofs than theirs: old ones, others', late ones, forged ones."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.adversaries.stage import PATIENCE, Stage, Turncoat, Way
from tests.ledger.scenes import refused
from tests.support.single_audit import SingleAudit
from tests.support.tag_definition import sectors_of

from holdfast.evidence.leaf import Outcome
from holdfast.ledger.interface import Answer, Opened, Passed, Reason
from holdfast.node.holding import Holding as Kept
from holdfast.node.proof_messages import AnswerTo, ProofQuestion
from holdfast.owner import Holding
from holdfast.pdp import Challenge, Proof, curve, draw_challenge, verification, verify_with_key
from holdfast.pdp.blocks import pad
from holdfast.pdp.field import Q
from holdfast.pdp.keys import PublicKey
from holdfast.pdp.limbs import Layout


@pytest.mark.slow
def test_an_earlier_proof_replayed_fails_its_node(any_stage: Stage) -> None:
    node, url = any_stage.node()
    holding = any_stage.holding(node, url, any_stage.content(50))
    seen: list[Proof] = []

    def record(node: Turncoat, holding: Kept, question: ProofQuestion) -> Answer:
        answer = super(Turncoat, node).prove(holding, question)
        seen.append(answer.proof)
        return answer

    def replay(node: Turncoat, _holding: Kept, question: ProofQuestion) -> Answer:
        return node.signed(question, seen[0])

    node.turn(record)
    for _ in range(2):
        assert any_stage.audit(holding, 20).outcome is Outcome.PASSED
    node.turn(replay)
    assert any_stage.audit(holding, 20).outcome is Outcome.FAILED


@pytest.mark.slow
def test_a_recorded_answer_sent_as_it_was_counts_for_nothing(stage: Stage) -> None:
    node, url = stage.node()
    holding = stage.holding(node, url, stage.content(50))
    seen: list[Answer] = []

    def record(node: Turncoat, holding: Kept, question: ProofQuestion) -> Answer:
        seen.append(super(Turncoat, node).prove(holding, question))
        return seen[-1]

    node.turn(record)
    assert stage.audit(holding, 20).outcome is Outcome.PASSED
    node.turn(lambda _node, _holding, _request: seen[0])
    result = stage.audit(holding, 20)
    assert result.outcome is Outcome.TIMED_OUT
    assert "another challenge" in result.reason


@pytest.mark.slow
def test_the_proof_of_another_holding_fails_its_node(any_stage: Stage) -> None:
    node, url = any_stage.node()
    asked_for = any_stage.holding(node, url, any_stage.content(50, seed=1))
    other = any_stage.holding(node, url, any_stage.content(50, seed=2))
    for holding in (asked_for, other):
        assert any_stage.audit(holding, 20).outcome is Outcome.PASSED

    def answer_for_the_other(node: Turncoat, _holding: Kept, question: ProofQuestion) -> Answer:
        asked = question.challenge
        theirs = node.kept(other)
        like_it = draw_challenge(theirs.record.inventory, asked.samples, seed=asked.seed)
        return node.signed(question, theirs.prove(like_it))

    node.turn(answer_for_the_other)
    assert any_stage.audit(asked_for, 20).outcome is Outcome.FAILED


@pytest.mark.slow
def test_an_answer_signed_for_another_holding_or_ledger_counts_for_nothing(stage: Stage) -> None:
    node, url = stage.node()
    holding = stage.holding(node, url, stage.content(50))
    assert stage.audit(holding, 20).outcome is Outcome.PASSED

    def elsewhere(change: Callable[[AnswerTo], AnswerTo]) -> Way:
        def way(node: Turncoat, holding: Kept, question: ProofQuestion) -> Answer:
            assert question.to is not None
            return super(Turncoat, node).prove(holding, replace(question, to=change(question.to)))

        return way

    for way in (
        elsewhere(lambda to: replace(to, holding_id=1)),
        elsewhere(lambda to: replace(to, domain=replace(to.domain, contract=b"\x11" * 20))),
        elsewhere(lambda to: replace(to, domain=replace(to.domain, chain=1))),
        elsewhere(lambda to: replace(to, opening=replace(to.opening, deadline=0))),
        elsewhere(lambda to: replace(to, opening=replace(to.opening, target=b"\x22" * 20))),
    ):
        node.turn(way)
        assert stage.audit(holding, 20).outcome is Outcome.TIMED_OUT


@pytest.mark.slow
def test_a_proof_after_the_deadline_is_a_timeout_however_right(any_stage: Stage) -> None:
    node, url = any_stage.node()
    holding = any_stage.holding(node, url, any_stage.content(50))
    assert any_stage.audit(holding, 20).outcome is Outcome.PASSED
    world = any_stage.world
    audit = any_stage.draw(holding, 20, b"s" * 32)
    answer = audit.answer()
    world.advance(PATIENCE + 1)
    with refused(Reason.LATE):
        world.stranger.submit(audit.holding_id, audit.name, answer)

    def delay(node: Turncoat, holding: Kept, question: ProofQuestion) -> Answer:
        world.advance(PATIENCE + 1)
        return super(Turncoat, node).prove(holding, question)

    node.turn(delay)
    result = any_stage.audit(holding, 20)
    assert result.outcome is Outcome.TIMED_OUT
    assert "deadline" in result.reason


class AlphaForger:
    """Believes an alpha, keeps what each tag has beside it, and drops all data.

    With PRF_i = sigma_i - alpha m_i it answers for a file of zeros: sigma = sum v_i PRF_i, mu = 0.
    """

    def __init__(self, node: Turncoat, holding: Holding, alpha: int) -> None:
        kept = node.kept(holding)
        file = kept.record.files[0]
        every = [(block, block + 1) for block in range(holding.inventory.blocks)]
        layout = kept.record.public.layout
        blocks, tags = kept.blocks(file.file_id, every), kept.tags(file.file_id, every)
        rows = [tags[at : at + 32] for at in range(0, len(tags), 32)]
        self.prf = [
            (int.from_bytes(tag, "big") - alpha * sectors_of(_whole(block, layout))[0]) % Q
            for tag, block in zip(rows, blocks, strict=True)
        ]

    def proof(self, challenge: Challenge) -> Proof:
        sample = challenge.sample
        weights = [int.from_bytes(row.tobytes(), "little") for row in sample.coefficients]
        products = (v * self.prf[i] for v, i in zip(weights, sample.indices, strict=True))
        return Proof(challenge.id, sum(products) % Q, (0,))

    def __call__(self, node: Turncoat, _holding: Kept, question: ProofQuestion) -> Answer:
        challenge = question.challenge
        return node.signed(question, self.proof(challenge))


def _whole(block: bytes, layout: Layout) -> bytes:
    return block if len(block) == layout.block_bytes else pad(block, layout)


def observed(stage: Stage, holding: Holding, audits: int) -> list[tuple[SingleAudit, Proof]]:
    """Return what a node sees of honest audits: challenges, targets, and its proofs."""
    seen = []
    for seed in range(1, audits + 1):
        audit = stage.draw(holding, 20, bytes([seed]) * 32)
        answer = audit.answer()
        receipt = stage.world.owner.submit(audit.holding_id, audit.name, answer)
        assert isinstance(receipt.events[0], Passed)
        seen.append((audit, answer.proof))
    return seen


def guesses(
    public: PublicKey, seen: list[tuple[SingleAudit, Proof]], events: list[Opened]
) -> set[int]:
    """Return every alpha that the paper's attack finds if public values are taken for tau."""
    (point,) = public.points
    taus: list[list[int]] = []
    for (audit, proof), event in zip(seen, events, strict=True):
        # T itself is no secret: the node's own proof gives it.
        t = curve.total([curve.times_base(proof.sigma), curve.times(point, Q - proof.mu[0])])
        assert t is not None
        x, y = t.point()
        numbers = (audit.target_address, event.target, event.seed, event.challenge, event.inventory)
        taus.append([0, x, y, *(int.from_bytes(number, "big") for number in numbers)])
    alphas = set()
    for k, (_, proof) in enumerate(seen):
        inverse = pow(proof.mu[0], -1, Q)
        alphas |= {(proof.sigma - tau) * inverse % Q for tau in taus[k]}
        for j, (_, before) in enumerate(seen[:k]):  # as if two audits had a tau in common
            slope = pow((proof.mu[0] - before.mu[0]) % Q, -1, Q)
            for this, other in zip(taus[k], taus[j], strict=True):
                rise = proof.sigma - before.sigma - this + other
                alphas.add(rise * slope % Q)
    return alphas


@pytest.mark.slow
def test_alpha_falls_to_one_audit_where_tau_is_published_and_never_here(stage: Stage) -> None:
    node, url = stage.node()
    holding = stage.holding(node, url, stage.content(40))
    key, inventory = holding.key, holding.inventory
    seen = observed(stage, holding, audits=12)

    # The paper's check: tau is on the chain. One audit gives alpha, and alpha gives everything.
    audit, proof = seen[0]
    tau = verification._tau(key, inventory, audit.challenge)
    alpha = (proof.sigma - tau) * pow(proof.mu[0], -1, Q) % Q
    forger = AlphaForger(node, holding, alpha)
    fresh = draw_challenge(inventory, 20)
    assert verify_with_key(key, inventory, fresh, forger.proof(fresh))

    # Ours: the same attack on all that a ledger and a node's own proofs show.
    history = [event for receipt in stage.world.owner.receipts() for event in receipt.events]
    opened = [event for event in history if isinstance(event, Opened)]
    guessed = guesses(key.public, seen, opened)
    assert len(guessed) > 400
    assert alpha not in guessed
    assert Q - alpha not in guessed
    for guess in sorted(guessed)[:5]:
        node.turn(AlphaForger(node, holding, guess))
        assert stage.audit(holding, 20).outcome is Outcome.FAILED

    # That the forger fails for want of alpha alone, its success with alpha shows.
    node.turn(forger)
    assert stage.audit(holding, 20).outcome is Outcome.PASSED


@pytest.mark.slow
def test_a_forger_without_data_is_refused_by_the_ledger_itself(any_stage: Stage) -> None:
    node, url = any_stage.node()
    holding = any_stage.holding(node, url, any_stage.content(40))
    world, sectors = any_stage.world, holding.key.sectors
    audit = any_stage.draw(holding, 20, b"f" * 32)
    honest = audit.answer()
    name, place = audit.name, audit.holding_id
    hidden = int.from_bytes(audit.target_address, "big")  # the true -T's address
    for sigma, mu in (
        (0, (0,) * sectors),
        (hidden, (1,) * sectors),
        (hidden, honest.proof.mu),
        (honest.proof.sigma, (hidden,) * sectors),
    ):
        forged = Answer(Proof(audit.challenge.id, sigma, mu))
        with refused(Reason.WRONG):
            world.stranger.submit(place, name, forged)
    receipt = world.stranger.submit(place, name, honest)
    assert isinstance(receipt.events[0], Passed)
