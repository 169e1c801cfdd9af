"""An owner who wants an honest node to look bad, and what keeps it from that."""

from dataclasses import replace

from tests.adversaries.stage import Stage, Turncoat
from tests.ledger.scenes import refused
from tests.ledger.world import wrong

from holdfast.ledger import check, signing
from holdfast.ledger.interface import (
    Answer,
    Contested,
    Failed,
    Ledger,
    Passed,
    Posted,
    PostedMany,
    Reason,
    Verdict,
)
from holdfast.ledger.keccak import Tree, address_of
from holdfast.node.client import upload_request
from holdfast.node.place import Part
from holdfast.owner import Holding, Outcome
from holdfast.owner.audit import Question, id_on
from holdfast.pdp import Proof, PublicKey, curve
from holdfast.pdp.field import Q
from holdfast.pdp.readers import Memory


def audited(stage: Stage) -> tuple[Turncoat, Holding]:
    """Return an honest node with a holding that passes."""
    node, url = stage.node()
    holding = stage.holding(node, url, stage.content(40))
    assert stage.audit(holding, 20).outcome is Outcome.PASSED
    return node, holding


def verdict_on(
    ledger: Ledger, holding: Holding, question: Question, proof: Proof, *, passed: bool
) -> Verdict:
    where = id_on(ledger, holding)
    return Verdict(where, question.name, question.target, check.digest(proof), passed)


def test_a_wrong_proof_in_the_nodes_name_fails_nobody(any_stage: Stage) -> None:
    _, holding = audited(any_stage)
    world = any_stage.world
    question = any_stage.question(holding, 20, b"1" * 32)
    answer = any_stage.asked(holding, question)
    where = id_on(world.owner, holding)
    forged = wrong(answer.proof)
    for framed in (Answer(forged), Answer(forged, answer.signature), Answer(forged, bytes(65))):
        with refused(Reason.WRONG):
            world.owner.submit(where, question.name, framed)
    receipt = world.stranger.submit(where, question.name, answer)
    assert receipt.events == (Passed(where, question.name),)


def test_an_old_challenge_opened_again_uses_nothing_that_the_node_once_signed(
    any_stage: Stage,
) -> None:
    node, holding = audited(any_stage)
    world = any_stage.world
    where = id_on(world.owner, holding)
    kept = node.kept(holding)
    file = kept.record.files[0]
    (sound,) = kept.blocks(file.file_id, [0])

    old = any_stage.question(holding, 40, b"2" * 32)
    kept.replace_block(file.file_id, 0, bytes(len(sound)))
    admitted = any_stage.asked(holding, old)
    (event,) = world.owner.submit(where, old.name, admitted).events
    assert isinstance(event, Failed)
    kept.replace_block(file.file_id, 0, sound)  # the node mends itself

    world.advance(1)
    again = any_stage.question(holding, 40, b"2" * 32)
    assert again.challenge == old.challenge
    fresh = any_stage.asked(holding, again)
    with refused(Reason.WRONG):
        world.owner.submit(where, again.name, admitted)
    assert world.stranger.submit(where, again.name, fresh).events == (Passed(where, again.name),)


def implied_target(public: PublicKey, proof: Proof) -> bytes:
    """Return the target that data and tags have, by anyone who proves with them."""
    terms = [curve.times(point, m) for point, m in zip(public.points, proof.mu, strict=True)]
    minus_t = curve.total([*terms, curve.times_base(Q - proof.sigma)])
    assert minus_t is not None
    return address_of(minus_t)


def test_a_wrong_target_is_shown_by_the_data_and_tags_that_the_owner_announced(
    any_stage: Stage,
) -> None:
    node, holding = audited(any_stage)
    world = any_stage.world
    where, public = id_on(world.owner, holding), holding.key.public
    true = any_stage.question(holding, 20, b"3" * 32)
    trap = replace(true, target=any_stage.question(holding, 20, b"4" * 32).target)
    answer = any_stage.asked(holding, trap)
    (event,) = world.owner.submit(where, trap.name, answer).events
    assert event == Failed(where, trap.name, check.digest(answer.proof))

    # The event names the target: it is in the challenge's name. The upload is named by the digests
    # that the owner announced, and whoever proves with these data and tags finds another target.
    kept = node.kept(holding)
    (file,) = kept.record.files
    data, tags = _parts(node, holding)
    announced = upload_request(Memory(data), Memory(tags))
    assert announced.id(holding.owner, holding.key_id) == file.upload
    shown = implied_target(public, kept.prove(trap.challenge))
    assert shown == true.target
    assert shown != trap.target

    # A node that was really damaged shows nothing of the kind.
    kept.replace_block(file.file_id, 0, bytes(31 * public.sectors))
    whole = any_stage.question(holding, 40, b"5" * 32)
    assert implied_target(public, kept.prove(whole.challenge)) != whole.target
    damaged, _ = _parts(node, holding)
    forged = upload_request(Memory(damaged), Memory(tags))
    assert forged.id(holding.owner, holding.key_id) != file.upload


def _parts(node: Turncoat, holding: Holding) -> list[bytes]:
    kept = node.kept(holding)
    (file,) = kept.record.files
    readers = [kept.reader(file, part) for part in (Part.DATA, Part.TAGS)]
    return [reader.read_many([(0, reader.size())])[0] for reader in readers]


def test_a_false_verdict_falls_to_the_proof_of_the_node(any_stage: Stage) -> None:
    _, holding = audited(any_stage)
    world = any_stage.world
    question = any_stage.question(holding, 20, b"6" * 32)
    answer = any_stage.asked(holding, question)
    lie = verdict_on(world.owner, holding, question, wrong(answer.proof), passed=False)
    (posted,) = world.owner.post(holding.number, question.name, lie.digest, passed=False).events
    assert isinstance(posted, Posted)
    receipt = world.stranger.contest(lie, posted.until, answer.proof)
    assert receipt.events == (Contested(lie.holding, lie.challenge, passed=True),)


def test_a_false_verdict_under_a_root_falls_to_the_proof_of_the_node(any_stage: Stage) -> None:
    _, holding = audited(any_stage)
    world = any_stage.world
    questions = [any_stage.question(holding, 20, bytes([seed]) * 32) for seed in range(3)]
    answers = [any_stage.asked(holding, question) for question in questions]
    verdicts = [
        verdict_on(world.owner, holding, question, answer.proof, passed=truth)
        for question, answer, truth in zip(questions, answers, (True, False, True), strict=True)
    ]
    tree = Tree([verdict.leaf for verdict in verdicts])
    (posted,) = world.owner.post_many(tree.root).events
    assert isinstance(posted, PostedMany)
    for index in (0, 2):
        with refused(Reason.UPHELD):
            world.stranger.contest_many(
                verdicts[index], index, tree.path(index), answers[index].proof
            )
    receipt = world.stranger.contest_many(verdicts[1], 1, tree.path(1), answers[1].proof)
    assert receipt.events == (Contested(verdicts[1].holding, verdicts[1].challenge, passed=True),)


def test_a_node_signs_for_the_challenge_that_it_was_sent_and_no_other(stage: Stage) -> None:
    node, holding = audited(stage)
    ledger = stage.world.owner
    one, other = (stage.question(holding, 20, seed) for seed in (b"7" * 32, b"8" * 32))
    answer = stage.asked(holding, one)
    where = id_on(ledger, holding)
    for question, signed in ((one, True), (other, False)):
        whose = (ledger.domain, where, question.name, answer.proof)
        assert (signing.signer(answer.signature, *whose) == node.key.address) == signed
