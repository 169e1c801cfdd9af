"""An owner who wants an honest node to look bad, and what keeps it from that."""

from dataclasses import replace

import pytest
from tests.adversaries.stage import Stage, Turncoat
from tests.ledger.scenes import refused
from tests.support.ledger_env import names, wrong

from holdfast.evidence.leaf import Outcome
from holdfast.ledger import check, signing
from holdfast.ledger.interface import Answer, Failed, Passed, Reason
from holdfast.ledger.keccak import address_of
from holdfast.node.client import upload_request
from holdfast.node.layout import Part
from holdfast.owner import Holding
from holdfast.pdp import Proof, PublicKey, curve
from holdfast.pdp.field import Q
from holdfast.pdp.readers import Memory


def audited(stage: Stage) -> tuple[Turncoat, Holding]:
    """Return an honest node with a holding that passes."""
    node, url = stage.node()
    holding = stage.holding(node, url, stage.content(40))
    assert stage.audit(holding, 20).outcome is Outcome.PASSED
    return node, holding


@pytest.mark.slow
def test_a_wrong_proof_in_the_nodes_name_fails_nobody(any_stage: Stage) -> None:
    _, holding = audited(any_stage)
    world = any_stage.world
    audit = any_stage.draw(holding, 20, b"1" * 32)
    answer, where = audit.answer(), audit.holding_id
    forged = wrong(answer.proof)
    for framed in (Answer(forged), Answer(forged, answer.signature), Answer(forged, bytes(65))):
        with refused(Reason.WRONG):
            world.owner.submit(where, audit.name, framed)
    receipt = world.stranger.submit(where, audit.name, answer)
    assert receipt.events == (Passed(where, audit.name),)


@pytest.mark.slow
def test_an_old_challenge_is_not_opened_again_to_use_what_the_node_once_signed(
    any_stage: Stage,
) -> None:
    """Before, a name could be opened again before its deadline.

    One wrong proof that the node had signed once failed it ten times of ten.
    """
    node, holding = audited(any_stage)
    world = any_stage.world
    kept = node.kept(holding)
    file = kept.record.files[0]
    (sound,) = kept.blocks(file.file_id, [(0, 1)])

    old = any_stage.draw(holding, 40, b"2" * 32)
    where = old.holding_id
    kept.replace_blocks(file.file_id, [(0, 1)], bytes(len(sound)))
    admitted = old.answer()
    (event,) = world.owner.submit(where, old.name, admitted).events
    assert isinstance(event, Failed)
    kept.replace_blocks(file.file_id, [(0, 1)], sound)  # the node mends itself

    for later in (0, 1):  # under the same name, and for longer under another
        again = (old.challenge, old.target_address, old.pending.deadline + later)
        for _ in range(10):
            with refused(Reason.USED):
                world.owner.open(holding.number, *again)
            with refused(Reason.UNKNOWN):
                world.owner.submit(where, old.name, admitted)
    fresh = any_stage.draw(holding, 40, b"3" * 32)
    answer = fresh.answer()
    with refused(Reason.WRONG):
        world.owner.submit(where, fresh.name, admitted)
    assert world.stranger.submit(where, fresh.name, answer).events == (Passed(where, fresh.name),)


@pytest.mark.slow
def test_a_batch_does_not_use_what_the_node_once_signed_twice(any_stage: Stage) -> None:
    """Before, one signed wrong proof failed its node once for every batch and place of its word."""
    node, holding = audited(any_stage)
    world = any_stage.world
    audit, batch = any_stage.draw_batch(holding, 40, b"b" * 32)
    kept = node.kept(holding)
    kept.replace_blocks(kept.record.files[0].file_id, [(0, 1)], bytes(31 * world.owner.sectors))
    (word,) = batch.words
    beside = word[:-1] + bytes([word[-1] ^ 1])
    with refused(Reason.MALFORMED):
        world.owner.open_many(replace(batch, words=(word, word)))
    signed = audit.answer()
    for words, reason in (((word,), Reason.OPEN), (tuple(sorted((word, beside))), Reason.USED)):
        with refused(reason):
            world.owner.open_many(replace(batch, words=words))
    assert names(world.owner.settle(batch, {0: signed})) == ["Failed"]
    with refused(Reason.UNKNOWN):
        world.owner.settle(batch, {0: signed})
    longer = replace(batch, deadline=batch.deadline + 1)
    world.owner.open_many(longer)
    with refused(Reason.WRONG):
        world.owner.settle(longer, {0: signed})


def implied_target(public: PublicKey, proof: Proof) -> bytes:
    """Return the target that data and tags have, by anyone who proves with them."""
    terms = [curve.times(point, m) for point, m in zip(public.points, proof.mu, strict=True)]
    minus_t = curve.total([*terms, curve.times_base(Q - proof.sigma)])
    assert minus_t is not None
    return address_of(minus_t)


@pytest.mark.slow
def test_a_wrong_target_is_shown_by_the_data_and_tags_that_the_owner_announced(
    any_stage: Stage,
) -> None:
    node, holding = audited(any_stage)
    world = any_stage.world
    public = holding.key.public
    true = any_stage.draw(holding, 20, b"3" * 32)
    other = any_stage.draw(holding, 20, b"4" * 32).target_address
    trap = replace(true, pending=replace(true.pending, target_address=other))
    answer, where = trap.answer(), trap.holding_id
    (event,) = world.owner.submit(where, trap.name, answer).events
    assert event == Failed(where, trap.name, check.digest(answer.proof))

    # The event names the target: it is in the challenge's name. The upload is named by the digests
    # that the owner announced, and whoever proves with these data and tags finds another target.
    kept = node.kept(holding)
    (file,) = kept.record.files
    data, tags = _parts(node, holding)
    size = kept.layout.segment_bytes
    announced = upload_request(Memory(data), Memory(tags), size)
    assert announced.id(holding.owner, holding.key_id) == file.upload
    shown = implied_target(public, kept.prove(trap.challenge))
    assert shown == true.target_address
    assert shown != trap.target_address

    # A node that was really damaged shows nothing of the kind.
    kept.replace_blocks(file.file_id, [(0, 1)], bytes(31 * public.sectors))
    whole = any_stage.draw(holding, 40, b"5" * 32)
    assert implied_target(public, kept.prove(whole.challenge)) != whole.target_address
    damaged, _ = _parts(node, holding)
    forged = upload_request(Memory(damaged), Memory(tags), size)
    assert forged.id(holding.owner, holding.key_id) != file.upload


def _parts(node: Turncoat, holding: Holding) -> list[bytes]:
    kept = node.kept(holding)
    (file,) = kept.record.files
    readers = [kept.reader(file, part) for part in (Part.DATA, Part.TAGS)]
    return [reader.read_many([(0, reader.size())])[0] for reader in readers]


def test_a_node_signs_for_the_challenge_that_it_was_sent_and_no_other(stage: Stage) -> None:
    node, holding = audited(stage)
    ledger = stage.world.owner
    one, other = (stage.draw(holding, 20, seed) for seed in (b"7" * 32, b"8" * 32))
    answer, where = one.answer(), one.holding_id
    for audit, signed in ((one, True), (other, False)):
        whose = (ledger.domain, where, audit.name, answer.proof)
        assert (signing.signer(answer.signature, *whose) == node.key.address) == signed
