"""What is wrong with a log is found: edits by strangers, and lies of an operator who signs them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from coincurve import PrivateKey
from tests.support.sample_log import (
    LEDGER,
    MINUTE,
    SIGNER,
    START,
    Record,
    holdings,
    sample,
    transaction,
)

from holdfast.errors import MalformedError
from holdfast.evidence.checkpoint import Anchor, Checkpoint
from holdfast.evidence.checkpoint_check import root_in
from holdfast.evidence.finding import Fault
from holdfast.evidence.leaf import Audit, Holding, Outcome, Registration, decode
from holdfast.evidence.leaf import encode as text_of
from holdfast.evidence.log import Entry
from holdfast.evidence.note import Signer
from holdfast.evidence.verification import Report, verify
from holdfast.ledger import check, signing
from holdfast.ledger.interface import Domain
from holdfast.pdp import Proof, curve
from holdfast.pdp.field import Q

SIZE = len(sample().entries_)
FIRST, SECOND = holdings()
PASSED, BATCHED, FAILED, TIMED_OUT = 3, 4, 5, 8  # leaves of the sample


def checked(record: Record, **more: Any) -> Report:
    return verify(record, SIGNER.verifier, **more)


def faults(report: Report) -> set[Fault]:
    return {finding.fault for finding in report.findings}


def has_finding(report: Report, where: str, what: str) -> bool:
    return any(f.where == where and what in f.what for f in report.findings)


def test_an_honest_log_is_fine() -> None:
    report = checked(sample())
    assert report.fine, report.findings
    assert (report.leaves, report.audits, report.checkpoints, report.anchors) == (SIZE, 6, 4, 1)
    assert (report.proofs, report.proofs_gone) == (5, 0)


def test_progress_is_told_leaf_by_leaf() -> None:
    seen: list[int] = []
    checked(sample(), on_progress=seen.append)
    assert seen == list(range(1, SIZE + 1))


@pytest.mark.parametrize("index", range(SIZE))
def test_a_removed_leaf_is_found(index: int) -> None:
    record = sample()
    del record.entries_[index]
    assert Fault.MISSING in faults(checked(record))
    assert not checked(replace(record, claimed=SIZE)).fine


@pytest.mark.parametrize("index", range(SIZE - 1))
def test_swapped_leaves_are_found(index: int) -> None:
    record = sample()
    a, b = index, index + 1
    record.entries_[a], record.entries_[b] = record.entries_[b], record.entries_[a]
    report = checked(record)
    assert Fault.ROOT in faults(report)


@pytest.mark.parametrize("index", range(SIZE))
def test_a_doubled_leaf_is_found(index: int) -> None:
    record = sample()
    record.entries_.insert(index, record.entries_[index])
    assert Fault.MISSING in faults(checked(record))


@pytest.mark.parametrize("size", range(SIZE))
def test_a_truncated_log_is_found(size: int) -> None:
    record = sample()
    del record.entries_[size:]
    assert Fault.MISSING in faults(checked(record))


def test_leaves_after_the_last_checkpoint_are_found() -> None:
    record = sample()
    del record.notes[-1]
    assert has_finding(checked(record), "the log", "covers 8 of its 11 leaves")
    del record.notes[:]
    assert has_finding(checked(record), "the log", "no signed checkpoint")


@pytest.mark.parametrize("size", [0, SIZE - 1, SIZE + 1])
def test_a_log_that_is_not_as_long_as_it_says_is_found(size: int) -> None:
    report = checked(replace(sample(), claimed=size))
    assert [finding.what for finding in report.findings] == [
        f"it says it has {size} leaves, but has {SIZE}"
    ]


def test_an_empty_log_needs_a_checkpoint_too() -> None:
    record = Record()
    assert not checked(record).fine
    record.sign()
    assert checked(record).fine


def test_a_checkpoint_of_another_key_is_found() -> None:
    record = sample()
    stranger = Signer(SIGNER.name, b"\x02" * 32)
    record.notes[1] = Checkpoint(SIGNER.name, 8, bytes(32)).sign(stranger)
    assert has_finding(checked(record), "checkpoint 2", "not signed by")


def test_a_log_under_another_key_than_the_pinned_is_found() -> None:
    report = verify(sample(), Signer(SIGNER.name, b"\x02" * 32).verifier)
    assert {Fault.KEY, Fault.MALFORMED, Fault.MISSING} == faults(report)


@pytest.mark.parametrize("number", range(3))
def test_a_head_left_out_is_found(number: int) -> None:
    record = sample()
    del record.notes[number]
    assert has_finding(checked(record), f"checkpoint {number + 1}", "left out")


def test_two_histories_that_begin_anew_are_found() -> None:
    record = sample()
    record.notes.append(record.head().sign(SIGNER))
    assert has_finding(checked(record), "the log", "more than one head")


def test_two_signed_heads_of_one_size_are_a_finding_of_their_own() -> None:
    record = sample()
    record.notes.insert(1, Checkpoint(SIGNER.name, 4, bytes(32)).sign(SIGNER))
    report = checked(record)
    assert faults(report) == {Fault.FORK, Fault.ROOT}
    assert has_finding(report, "checkpoint 2", "two signed heads of 4 leaves")


def test_checkpoints_out_of_order_are_found() -> None:
    record = sample()
    record.notes.reverse()
    assert Fault.ORDER in faults(checked(record))


def test_a_checkpoint_of_more_leaves_than_there_are_is_found() -> None:
    record = sample()
    record.notes.append(Checkpoint(SIGNER.name, SIZE + 5, bytes(32)).sign(SIGNER))
    assert has_finding(checked(record), "checkpoint 5", "there are only")


def test_an_altered_anchor_is_found() -> None:
    record = sample()
    record.notes[2] = record.notes[2].replace(b"44" * 32, b"45" * 32)
    assert has_finding(checked(record), "checkpoint 3", "not signed")


def test_an_anchor_of_another_root_is_found() -> None:
    record = sample()
    line = Anchor(LEDGER, b"\x44" * 32, 17).encode()
    wrong = Checkpoint(SIGNER.name, 8, bytes(32), (line,)).following(record.notes[1])
    record.notes[2:] = [wrong.sign(SIGNER)]
    record.sign()
    assert faults(checked(record)) == {Fault.FORK, Fault.ROOT}


def test_a_deleted_proof_is_counted_and_no_finding() -> None:
    record = sample()
    record.entries_[PASSED] = replace(record.entries_[PASSED], proof=None)
    report = checked(record)
    assert report.fine
    assert (report.proofs, report.proofs_gone) == (4, 1)


def test_swapped_proofs_are_found() -> None:
    record = sample()
    a, b = record.entries_[PASSED], record.entries_[BATCHED]
    record.entries_[PASSED] = replace(a, proof=b.proof)
    record.entries_[BATCHED] = replace(b, proof=a.proof)
    report = checked(record)
    assert faults(report) == {Fault.PROOF}
    assert has_finding(report, f"leaf {PASSED}", "not the one it names")
    assert has_finding(report, f"leaf {BATCHED}", "not the one it names")


def test_a_proof_beside_a_leaf_that_has_none_is_found() -> None:
    record = sample()
    proof = record.entries_[PASSED].proof
    for index in (0, 2, 6, 8):
        changed = record.copy()
        changed.entries_[index] = replace(changed.entries_[index], proof=proof)
        assert faults(checked(changed)) == {Fault.PROOF}, index


# What follows is signed by the operator itself: only the content betrays it.


def lied(index: int, change: Callable[[Any], Any], proof: Proof | None = None) -> Report:
    """Return what is found in a log that its operator wrote with another leaf in one place."""
    honest = sample()
    record = Record(keys=honest.keys)
    for place, entry in enumerate(honest.entries_):
        if place == index:
            beside = check.encode(proof) if proof else entry.proof
            record.entries_.append(Entry(text_of(change(decode(entry.leaf))), beside))
        else:
            record.entries_.append(entry)
    record.sign()
    return checked(record)


def audit_with(**fields: Any) -> Callable[[Audit], Audit]:
    return lambda audit: replace(audit, **fields)


def test_the_operator_may_write_the_truth() -> None:
    assert lied(PASSED, lambda audit: audit).fine


def proofs_of(index: int) -> tuple[Audit, Proof]:
    entry = sample().entries_[index]
    audit = decode(entry.leaf)
    assert isinstance(audit, Audit)
    assert entry.proof
    values = [int.from_bytes(entry.proof[at : at + 32], "big") for at in (0, 32, 64)]
    return audit, Proof(audit.challenge.id, values[0], tuple(values[1:]))


@pytest.mark.parametrize("index", [PASSED, BATCHED])
def test_a_pass_with_a_wrong_proof_is_found_among_right_ones(index: int) -> None:
    _, proof = proofs_of(index)
    wrong = replace(proof, sigma=proof.sigma ^ 1)
    report = lied(index, audit_with(proof=check.digest(wrong)), wrong)
    assert [str(finding) for finding in report.findings] == [
        f"leaf {index}: it passed, but its proof does not"
    ]


def test_a_pass_with_a_second_text_of_the_same_values_is_found() -> None:
    audit, _ = proofs_of(PASSED)
    sigma, mu = 5, (7, 9)
    terms = zip(FIRST.store.key.public.points, mu, strict=True)
    made = curve.total([curve.times_base(sigma), *(curve.times(A, Q - m) for A, m in terms)])
    target = curve.encode(made)  # as an owner can, for a proof of its choice
    for more in ((0, 0, 0), (Q, 0, 0), (0, Q, 0), (0, 0, Q)):
        values = [value + extra for value, extra in zip((sigma, *mu), more, strict=True)]
        proof = Proof(audit.challenge.id, values[0], tuple(values[1:]))
        lie = replace(audit, proof=check.digest(proof), target=target)
        opening = replace(lie.opening, name=lie.name_on_ledger)
        changes = audit_with(proof=lie.proof, target=target, opening=opening)
        report = lied(PASSED, changes, proof)
        assert report.fine == (not any(more)), more


def test_a_pass_with_a_proof_of_other_sectors_is_found() -> None:
    _, proof = proofs_of(PASSED)
    for mu in (proof.mu[:1], (*proof.mu, 0)):
        other = replace(proof, mu=mu)
        report = lied(PASSED, audit_with(proof=check.digest(other)), other)
        assert has_finding(report, f"leaf {PASSED}", "can't pass")


def test_each_wrong_audit_of_a_key_is_told_once() -> None:
    audit, proof = proofs_of(PASSED)
    record = sample()
    wrong = replace(proof, sigma=proof.sigma ^ 1)
    lie = replace(audit, proof=check.digest(wrong))
    record.entries_[PASSED] = Entry(text_of(lie), check.encode(wrong))
    record.entries_[-1] = replace(record.entries_[-1], proof=bytes(96))
    record.notes.clear()
    record.sign()
    assert [finding.where for finding in checked(record).findings] == [
        f"leaf {SIZE - 1}",
        f"leaf {PASSED}",
    ]


def test_errors_of_two_audits_do_not_cancel_out() -> None:
    honest, passing = sample(), (FIRST.name, Outcome.PASSED)
    record = Record(keys=honest.keys)
    for number, entry in enumerate(honest.entries_):
        audit = decode(entry.leaf)
        if not isinstance(audit, Audit) or (audit.holding, audit.outcome) != passing:
            record.entries_.append(entry)
            continue
        _, proof = proofs_of(number)
        forged = replace(proof, sigma=proof.sigma + (1 if audit.number == 1 else -1))
        record.add(replace(audit, proof=check.digest(forged)), forged)
    record.sign()
    assert checked(record).finding_count == 2


def test_a_failure_whose_proof_passes_is_found() -> None:
    audit, proof = proofs_of(PASSED)
    signature = signing.sign(
        PrivateKey(b"\x07" * 32), LEDGER, audit.holding.id, audit.opening.name, proof
    )
    report = lied(PASSED, audit_with(outcome=Outcome.FAILED, signature=signature))
    assert has_finding(report, f"leaf {PASSED}", "its proof passes")


def test_a_failure_that_nobody_signed_or_explained_is_found() -> None:
    report = lied(FAILED, audit_with(signature=None))
    assert has_finding(report, f"leaf {FAILED}", "neither")
    assert lied(FAILED, audit_with(signature=None, reason="it came too late")).fine


def test_a_failure_that_another_signed_is_found() -> None:
    audit, proof = proofs_of(FAILED)
    where = (audit.holding.id, audit.opening.name, proof)
    stranger = signing.sign(PrivateKey(b"\x08" * 32), LEDGER, *where)
    abroad = signing.sign(PrivateKey(b"\x07" * 32), Domain(6, LEDGER.contract), *where)
    for signature in (stranger, abroad, bytes(65), b"\xff" * 65):
        report = lied(FAILED, audit_with(signature=signature))
        assert has_finding(report, f"leaf {FAILED}", "did not sign")


def test_a_pass_without_a_proof_is_found() -> None:
    report = lied(PASSED, audit_with(proof=None))
    assert has_finding(report, f"leaf {PASSED}", "without a proof")


def test_a_loss_that_the_node_admits_needs_no_proof_and_must_have_none() -> None:
    admitted = audit_with(outcome=Outcome.ADMITTED)
    assert lied(TIMED_OUT, admitted).fine
    assert has_finding(lied(FAILED, admitted), f"leaf {FAILED}", "yet there is a proof")
    never_sent = audit_with(outcome=Outcome.ADMITTED, sent_at=None)
    report = lied(TIMED_OUT, never_sent)
    assert has_finding(report, f"leaf {TIMED_OUT}", "without having been asked")


def test_a_signature_of_no_proof_is_found() -> None:
    assert has_finding(lied(FAILED, audit_with(proof=None)), f"leaf {FAILED}", "of no proof")


def test_another_challenge_than_the_proof_answers_is_found() -> None:
    audit, _ = proofs_of(PASSED)
    other = replace(audit.challenge, samples=2)
    report = lied(PASSED, audit_with(challenge=other))
    assert has_finding(report, f"leaf {PASSED}", "another name on the ledger")


@pytest.mark.parametrize(
    "change",
    [
        lambda audit: replace(audit, opening=replace(audit.opening, batch_seed=b"c" * 32)),
        lambda audit: replace(audit, opening=replace(audit.opening, deadline=START)),
        lambda audit: replace(audit, challenge=replace(audit.challenge, samples=2)),
        lambda audit: replace(audit, challenge=replace(audit.challenge, inventory_hash=bytes(32))),
        lambda audit: replace(audit, challenge=replace(audit.challenge, seed=bytes(32))),
        lambda audit: replace(audit, opening=replace(audit.opening, batch_seed=None)),
    ],
)
def test_another_challenge_than_the_batch_has_is_found(change: Callable[[Audit], Audit]) -> None:
    assert Fault.PROOF in faults(lied(BATCHED, change))


def test_a_batch_of_impossible_challenges_is_found_and_not_raised() -> None:
    huge = 2**40
    challenge = replace(
        proofs_of(BATCHED)[0].challenge, blocks=huge, samples=huge, start=0, stop=huge
    )
    assert Fault.PROOF in faults(lied(BATCHED, audit_with(challenge=challenge)))


@pytest.mark.parametrize("target", [bytes(33), b"\x05" * 33, b"\x02" + b"\xff" * 32])
def test_a_target_that_is_none_is_found(target: bytes) -> None:
    for index in (PASSED, BATCHED):
        assert Fault.PROOF in faults(lied(index, audit_with(target=target)))


def test_another_target_does_not_make_the_proof_pass() -> None:
    other, _ = proofs_of(BATCHED)
    assert Fault.PROOF in faults(lied(PASSED, audit_with(target=other.target)))


@pytest.mark.parametrize("number", [0, 2, 7])
def test_a_gap_or_a_double_in_the_numbers_is_found(number: int) -> None:
    report = lied(PASSED, audit_with(number=number))
    assert Fault.ORDER in faults(report)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"at": START}, "not in this order"),
        ({"sent_at": START - 60 * MINUTE}, "not in this order"),
        ({"answered_at": START}, "not in this order"),
        ({"sent_at": None}, "never sent"),
        ({"due_at": 0}, "due before"),
        ({"at": START + 10**9}, None),
    ],
)
def test_times_that_run_backwards_are_found(fields: dict[str, Any], said: str | None) -> None:
    report = lied(PASSED, audit_with(**fields))
    if said:
        assert has_finding(report, f"leaf {PASSED}", said)
    else:  # what comes later is now earlier
        assert has_finding(report, f"leaf {FAILED}", "recorded before")


def test_an_observation_from_the_future_is_found() -> None:
    audit, _ = proofs_of(PASSED)
    later = replace(audit.decision.telemetry, at=START + 10**9)
    decision = replace(audit.decision, telemetry=later)
    report = lied(PASSED, audit_with(decision=decision))
    assert has_finding(report, f"leaf {PASSED}", "younger")


def named(holding: Holding) -> Callable[[Audit], Audit]:
    return lambda audit: replace(audit, holding=holding)


def test_another_node_or_key_in_mid_course_is_found() -> None:
    node = replace(FIRST.name, node=bytes(20))
    assert has_finding(lied(PASSED, named(node)), f"leaf {PASSED}", "another key or node")
    key = replace(FIRST.name, key=SECOND.name.key)
    assert has_finding(lied(PASSED, named(key)), f"leaf {PASSED}", "another key or node")


def test_a_key_that_is_not_there_is_found() -> None:
    unknown = replace(FIRST.name, key=bytes(32))
    assert has_finding(lied(PASSED, named(unknown)), f"leaf {PASSED}", "no public key")
    register = lied(0, lambda leaf: replace(leaf, holding=unknown))
    assert has_finding(register, "leaf 0", "no public key")


def test_a_key_of_other_sectors_or_that_nobody_names_is_found() -> None:
    report = lied(0, lambda leaf: replace(leaf, sectors=3))
    assert has_finding(report, "leaf 0", "another number of sectors")
    record = Record(keys=sample().keys)
    record.sign()
    assert faults(checked(record)) == {Fault.KEY}


def test_a_second_registration_is_found() -> None:
    again = Registration(START, FIRST.name, 2, transaction(9))
    assert has_finding(lied(2, lambda _: again), "leaf 2", "before it was registered")


def test_a_response_to_an_audit_that_never_was_is_found() -> None:
    for number in (0, 3):
        report = lied(6, lambda leaf: replace(leaf, audit=number))  # noqa: B023 - called at once
        assert has_finding(report, "leaf 6", "responds to audit")


def test_a_leaf_that_can_not_be_read_is_found_and_the_rest_is_checked() -> None:
    record = sample()
    record.entries_[2] = Entry(b"noise", None)
    report = checked(record)
    assert has_finding(report, "leaf 2", "not a line of Holdfast")
    assert report.leaves == SIZE
    assert report.proofs == 5


def test_findings_are_counted_even_where_they_are_too_many_to_tell() -> None:
    record = Record(entries_=[Entry(b"noise", None)] * 1500)
    record.sign()
    report = checked(record)
    assert (report.finding_count, len(report.findings)) == (1500, 1000)


# What the verifier knows from elsewhere.


def test_a_log_that_grew_agrees_with_what_was_kept() -> None:
    for note in sample().notes:
        assert checked(sample(), known=[root_in(note, SIGNER.verifier, "kept")]).fine


def test_a_rewritten_history_disagrees_with_what_was_kept() -> None:
    earlier = root_in(sample().notes[0], SIGNER.verifier, "kept")
    record = sample()
    rewritten = Record(entries_=record.entries_[3:], keys=record.keys)
    rewritten.sign()
    report = verify(rewritten, SIGNER.verifier, known=[earlier])
    assert has_finding(report, "kept", "another root")
    assert Fault.FORK in faults(report)


def test_a_log_cut_back_to_an_older_head_disagrees_with_what_was_kept() -> None:
    head = root_in(sample().notes[-1], SIGNER.verifier, "kept")
    record = sample()
    older = replace(record, entries_=record.entries_[:8], notes=record.notes[:3])
    assert checked(older).fine
    report = checked(older, known=[head])
    assert has_finding(report, "kept", "only 8")


def test_a_checkpoint_of_another_log_is_no_knowledge_of_this_one() -> None:
    stranger = Signer(SIGNER.name, b"\x02" * 32)
    with pytest.raises(MalformedError, match="not signed"):
        root_in(Checkpoint(SIGNER.name, 4, bytes(32)).sign(stranger), SIGNER.verifier, "kept")
