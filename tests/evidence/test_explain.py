"""What a log tells those who ask why an audit was late, or intense."""

from dataclasses import replace

import pytest
from tests.support.sample_checks import failed, passed_check
from tests.support.sample_log import MINUTE, SIGNER, START, holdings, sample

from holdfast.errors import MalformedError
from holdfast.evidence.escaping import escape_words, hash_words
from holdfast.evidence.explain import Selection, explain, has_checks, select_leaves
from holdfast.evidence.leaf import (
    Audit,
    Change,
    Check,
    CheckResponse,
    DamagedUnit,
    Freshness,
    Instruction,
    Leaf,
    Order,
    Outcome,
    Override,
    PolicyChange,
    Response,
    Span,
    Step,
    Telemetry,
    decode,
)
from holdfast.evidence.log import Entry, WithoutProofs
from holdfast.evidence.verification import verify
from holdfast.model.action import Action

FIRST, SECOND = holdings()
EVERYTHING = Selection()


def indices(selection: Selection, start: int = 0, stop: int | None = None) -> list[int]:
    return [index for index, _ in select_leaves(sample(), selection, start, stop)]


def leaf(index: int) -> Leaf:
    return decode(sample().entries_[index].leaf)


def audit(index: int) -> Audit:
    audit = leaf(index)
    assert isinstance(audit, Audit)
    return audit


def test_an_intense_audit_is_explained_by_the_rail_that_forced_it() -> None:
    decided = (
        "Decided at 2030-03-17 18:16:40 UTC from reputation 0.50, previous interval 0.25, "
        "latency 0.12, consecutive failures 0.00, pass rate 1.00 "
        "(stale, as of 2030-03-17 16:16:40 UTC, 2 h before)."
    )
    sent = "Due at 2030-03-17 18:45:40 UTC, sent at 2030-03-17 18:46:40 UTC, 1 min late"
    assert explain(leaf(4)) == [
        f"audit 1 of holding {'aa' * 20}00000002 on node {SECOND.name.node.hex()}: passed",
        decided,
        "drqn-cmdp-plus (111111111111) chose (7, 0.05).",
        "The rail stale-telemetry made it (1, 0.10), because the telemetry is stale.",
        f"{sent}; answered after 40 ms.",
        "It asked for 3 of 5 blocks.",
        "On the ledger: transaction 000000000000 in block 1, 31,553 gas.",
    ]


def test_a_cap_is_explained_by_what_was_really_sampled() -> None:
    """Before, it read (14, 0.20), though 0.23 % were sampled."""
    capped = Override("sample-cap", "the sample was above the cap", Action(14, 0.0023))
    decision = replace(audit(3).decision, overrides=(capped,))
    said = "The rail sample-cap made it (14, 0.0023), because the sample was above the cap."
    assert said in explain(replace(audit(3), decision=decision))


def test_a_shadow_says_what_it_would_have_done() -> None:
    assert "In shadow, belief (222222222222) would have chosen (14, 0.05)." in explain(leaf(3))


def test_an_audit_that_never_went_out_or_found_nobody_is_told_so() -> None:
    silent = replace(audit(8), sent_at=None, verdict=None)
    assert "Due at 2030-03-17 19:45:40 UTC, never sent." in explain(silent)
    assert "The ledger has no record of it." in explain(silent)
    assert any(line.endswith("never answered.") for line in explain(audit(8)))


@pytest.mark.parametrize(("shift", "said"), [(0, "on time"), (-MINUTE, "1 min early")])
def test_an_audit_that_was_not_late_is_told_so(shift: int, said: str) -> None:
    first = audit(3)
    punctual = replace(first, sent_at=first.due_at + shift)
    assert any(said in line for line in explain(punctual))


def test_a_decision_in_the_dark_is_told_so() -> None:
    dark = Telemetry(Freshness.MISSING, None, None)
    blind = replace(audit(4), decision=replace(audit(4).decision, telemetry=dark, chosen=None))
    sentences = explain(blind)
    assert "Decided at 2030-03-17 18:16:40 UTC without any telemetry." in sentences
    assert "No policy could decide." in sentences


def test_a_failure_gives_its_reason() -> None:
    assert explain(leaf(9))[0].endswith(": failed: the answer was no proof")


def test_a_node_that_admits_a_loss_is_said_to_do_so() -> None:
    admitted = replace(audit(9), outcome=Outcome.ADMITTED, reason="what was stored is damaged")
    said = ": admitted, the node admits the loss: what was stored is damaged"
    assert explain(admitted)[0].endswith(said)


def test_what_is_no_audit_is_told_too() -> None:
    assert "registered, with 2 sectors a block" in explain(leaf(0))[0]
    assert explain(leaf(2))[0].startswith("drqn-cmdp-plus (111111111111) promoted by operator")
    assert explain(leaf(2))[0].endswith("after belief (222222222222): it misses less")
    holding = f"holding {'aa' * 20}00000001 on node {FIRST.name.node.hex()}"
    assert explain(leaf(6)) == [
        f"response to audit 2 of {holding}: localised: 1 block of 5",
        "It concerns the blocks from 2 up to 3.",
    ]
    assert explain(leaf(7)) == [
        "configuration changed by operator, now 333333333333",
        "rails.max_interval was 14, is 7.",
    ]


def test_how_a_policy_came_to_decide_is_told() -> None:
    promoted = leaf(2)
    assert isinstance(promoted, PolicyChange)
    forced = replace(promoted, forced=True, checks=(Check("gas", passed=False, detail="+9 %"),))
    assert "promoted by force by operator" in explain(forced)[0]
    assert explain(forced)[1:] == ["gas: BROKEN, +9 %."]
    named = replace(promoted, change=Change.NAMED, previous=None, reason="")
    assert explain(named) == ["drqn-cmdp-plus (111111111111) named challenger by operator"]


def test_a_long_list_of_blocks_is_cut_short() -> None:
    response = leaf(6)
    assert isinstance(response, Response)
    many = replace(response, blocks=tuple(Span(k, k + 1) for k in range(12)))
    assert explain(many)[1].endswith("9 up to 10 and 2 more spans.")


def test_leaves_are_chosen_by_holding_time_and_index() -> None:
    assert indices(EVERYTHING) == list(range(11))
    assert indices(Selection(holdings=frozenset([FIRST.name.id]))) == [0, 3, 5, 6, 10]
    assert indices(Selection(since=START + 1)) == list(range(3, 11))
    assert indices(Selection(until=START + 1)) == [0, 1, 2]
    assert indices(EVERYTHING, 4, 5) == [4]


def test_a_leaf_that_can_not_be_read_is_named() -> None:
    record = sample()
    record.entries_[2] = Entry(b"noise", None)
    with pytest.raises(MalformedError, match="leaf 2"):
        list(select_leaves(record, EVERYTHING))


def test_a_log_without_its_proofs_is_as_true() -> None:
    report = verify(WithoutProofs(sample()), SIGNER.verifier)
    assert report.fine
    assert (report.proofs, report.proofs_gone) == (0, 5)


def test_an_instruction_is_explained_by_who_gave_it_and_why() -> None:
    given = Instruction(START, Order.RELEASE, "holding 7", "operator ada", "the node moves")
    assert explain(given) == ["release of holding 7, ordered by operator ada: the node moves"]
    assert explain(replace(given, reason="")) == ["release of holding 7, ordered by operator ada"]


def test_a_check_is_explained_by_what_was_sampled_and_what_the_tool_said() -> None:
    check = passed_check(3, START)
    said = r'said: "read 8 packs\nno errors were found\n"'
    assert explain(check) == [
        "check 3 of holding attic: passed",
        "Decided at 2030-03-17 17:41:40 UTC without any telemetry.",
        "belief (111111111111) chose (7, 0.05).",
        "Due at 2030-03-17 17:43:40 UTC, began at 2030-03-17 17:44:40 UTC, 1 min late; took 1 min.",
        "It drew 8 of 164 packs and checked 8.",
        "It read 38.1 MiB in 11 requests.",
        f"At sftp:olga@example.org:/srv/restic, restic 0.14.0 {said}",
        "This rests on the owner's word: nobody can check it again.",
    ]
    assert explain(check, "loft")[0] == "check 3 of holding loft: passed"
    silent = replace(check, words="", read_bytes=0, requests=0)
    assert "At sftp:olga@example.org:/srv/restic, restic 0.14.0 said nothing." in explain(silent)
    assert len(explain(silent)) == len(explain(check)) - 1


def test_a_check_that_found_damage_names_it() -> None:
    check = failed(passed_check(3, START))
    (unit,) = check.damaged
    because = "1 of 8 packs is damaged, at the second look too"
    assert explain(check)[0] == f"check 3 of holding attic: failed: {because}"
    said = f"Damaged: {unit.name} (changed, its bytes have another hash)."
    assert said in explain(check)
    many = explain(replace(check, damaged_units=7))
    assert said in many
    assert "6 damaged packs more, not named here." in many


def test_damage_that_a_second_look_did_not_show_is_not_certain() -> None:
    check = failed(passed_check(3, START))
    (unit,) = check.damaged
    doubtful = replace(
        check, outcome=Outcome.UNKNOWN, reason="damaged at the first look, intact at the second"
    )
    said = f"Damaged, which is not certain: {unit.name} (changed, its bytes have another hash)."
    assert said in explain(doubtful)
    tool_missing = replace(
        check, outcome=Outcome.UNKNOWN, reason="it is gone", tool="", damaged=(), damaged_units=0
    )
    assert any("a tool of unknown version said" in line for line in explain(tool_missing))


def test_whatever_a_tool_says_is_explained_in_printable_lines() -> None:
    words = "\x1b]0;owned\x07\x1b[2Jno errors\r\nfine: 9 leaves\n\u202e"
    unit = DamagedUnit.from_tool("a\nleaf 0: passed\x1b[8m", "missing", "\x1b[31mgone\n")
    check = replace(
        failed(passed_check(3, START)),
        damaged=(unit,),
        words=escape_words(words),
        words_hash=hash_words(words),
    )
    lines = explain(check)
    assert all(line.isprintable() for line in lines)
    assert any(r"Damaged: a\nleaf 0: passed\x1b[8m (missing" in line for line in lines)
    assert any(r"\x1b]0;owned\x07\x1b[2Jno errors\r\nfine" in line for line in lines)


def test_a_response_to_a_check_names_the_units() -> None:
    holding = passed_check(3, START).holding
    response = CheckResponse(START, holding, 3, Step.REPAIRED, ("pack 1", "pack 2"), "by restic")
    assert explain(response) == [
        "response to check 3 of holding attic: repaired: by restic",
        "It concerns pack 1.",
        "It concerns pack 2.",
    ]
    quiet = replace(response, units=(), detail="")
    assert explain(quiet, "loft") == ["response to check 3 of holding loft: repaired"]


def test_checks_are_chosen_by_the_id_of_their_holding_or_its_name_then() -> None:
    record = sample()
    attic = passed_check(1, START).holding
    loft, former = replace(attic, id=8, name="loft"), replace(attic, name="cellar")
    for holding in (attic, loft, former):
        record.add(passed_check(1, START, holding))
    record.add(CheckResponse(START, attic, 1, Step.ALERTED, (), ""))
    record.add(Instruction(START, Order.AUDIT, "attic", "ada", ""))
    none: frozenset[int] = frozenset()

    def chosen(selection: Selection) -> list[int]:
        return [index for index, _ in select_leaves(record, selection)]

    assert chosen(Selection(none, frozenset(["attic"]))) == [11, 14, 15]
    assert chosen(Selection(none, frozenset(["attic"]), scheduled=frozenset([7]))) == [
        *(11, 13, 14, 15)
    ]
    assert chosen(Selection(frozenset([FIRST.name.id]))) == [0, 3, 5, 6, 10]
    assert has_checks(record, "cellar")
    assert not has_checks(record, "garage")
    assert not has_checks(sample(), "attic")
