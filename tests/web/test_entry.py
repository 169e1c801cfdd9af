"""A leaf as a line of the timeline: its title, its reasons, and facts to look up."""

from typing import Any

import pytest

from holdfast.control.queries.leaves import LeafView
from holdfast.web.pages.entry import entry

MINUTE = 60_000
FIVE = "7 days and 5\N{NO-BREAK SPACE}% of the blocks"
ACTION = {"interval": 7, "ratio": 0.05}
CHOICE = {"policy": {"name": "drqn-cmdp", "hash": "ab12"}, "action": ACTION}
DECISION: dict[str, Any] = {"chosen": CHOICE, "shadow": None, "overrides": []}
AUDIT: dict[str, Any] = {
    "number": 3,
    "outcome": "timed-out",
    "reason": "",
    "decision": DECISION,
    "due_at": 10 * MINUTE,
    "sent_at": 11 * MINUTE,
    "answered_at": None,
    "proof": None,
    "verdict": None,
}

CHECK: dict[str, Any] = {
    "number": 3,
    "outcome": "passed",
    "reason": "",
    "decision": DECISION,
    "due_at": 10 * MINUTE,
    "began_at": 11 * MINUTE,
    "ended_at": 14 * MINUTE,
    "unit": "pack",
    "units": 1640,
    "checked": 80,
    "damaged": [],
    "damaged_units": 0,
    "tool": "restic 0.14.0",
    "seed": "aa",
    "sample": "bb",
    "words_hash": "cc",
}


def leaf(kind: str, content: dict[str, Any]) -> LeafView:
    return LeafView(1, kind, 0, 1, "far", "named challenger", ["why."], content)


def reasons(**changes: Any) -> list[str]:
    return entry(leaf("audit", AUDIT | changes), "day").reasons


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Sent 1 min late; never answered."),
        ({"sent_at": None}, "It was never sent."),
        ({"sent_at": 9 * MINUTE}, "Sent 1 min early; never answered."),
        (
            {"sent_at": 10 * MINUTE, "answered_at": 12 * MINUTE},
            "Sent on time; answered after 2 min.",
        ),
    ],
)
def test_the_timing_of_an_audit_is_one_sentence(changes: dict[str, Any], said: str) -> None:
    assert reasons(**changes)[-1] == said


def test_a_decision_is_told_with_its_overrides_and_the_shadow() -> None:
    override = {"rail": "stale-telemetry", "action": ACTION, "reason": "it is stale"}
    decision = {"chosen": None, "shadow": CHOICE, "overrides": [override]}
    assert reasons(decision=decision)[:-1] == [
        "No policy could decide.",
        f"The rail stale-telemetry made it {FIVE}, because it is stale.",
        f"In shadow, drqn-cmdp would have chosen {FIVE}.",
    ]


def test_titles_name_the_audit_the_step_or_what_happened() -> None:
    response = {"audit": 3, "step": "repair", "detail": "7 blocks"}
    titles = [
        entry(leaf("audit", AUDIT | {"reason": "no answer"}), "day").title,
        entry(leaf("response", response), "day").title,
        entry(leaf("policy-change", {}), "day").title,
    ]
    assert titles == [
        "Audit 3 timed out: no answer",
        "After audit 3: repair: 7 blocks",
        "Named challenger",
    ]


def test_proof_and_transaction_can_be_looked_up() -> None:
    verdict = {"hash": "cd34", "block": 1200, "gas": 31_553}
    facts = entry(leaf("audit", AUDIT | {"proof": "ef56", "verdict": verdict}), "day").facts
    assert facts == {
        "Policy": "drqn-cmdp ab12",
        "Proof (Keccak-256)": "ef56",
        "Transaction": "cd34",
        "Block": "1,200",
        "Gas": "31,553",
    }


def test_a_check_counts_in_its_own_unit_and_says_on_whose_word_it_rests() -> None:
    shown = entry(leaf("check", CHECK), "day")
    assert (shown.title, shown.outcome) == ("Check 3 passed", "passed")
    assert shown.reasons == [
        f"drqn-cmdp chose {FIVE.replace('blocks', 'packs')}.",
        "Began 1 min late; took 3 min.",
        "80 of 1,640 packs checked, by restic 0.14.0. This rests on the owner's word.",
    ]
    assert shown.facts == {
        "Policy": "drqn-cmdp ab12",
        "Tool": "restic 0.14.0",
        "Seed": "aa",
        "Sample (SHA-256 of its names)": "bb",
        "Words (SHA-256)": "cc",
    }
    unversioned = entry(leaf("check", CHECK | {"tool": ""}), "day")
    assert unversioned.reasons[-1] == ("80 of 1,640 packs checked. This rests on the owner's word.")


def test_a_check_names_a_few_damaged_units_in_a_line() -> None:
    units = [{"name": f"pack {number}" + "x" * 400 * number} for number in range(7)]
    failed = CHECK | {"outcome": "failed", "reason": "bad", "damaged_units": 70}
    shown = entry(leaf("check", failed | {"damaged": units}), "day")
    assert shown.title == "Check 3 failed: bad"
    assert shown.reasons[-1].startswith("Damaged: pack 0, pack 1xxx")
    assert shown.reasons[-1].endswith("xxx… and 65 more.")
    assert len(shown.reasons[-1]) < 500
    one = entry(leaf("check", failed | {"damaged": units[:1], "damaged_units": 1}), "day")
    assert one.reasons[-1] == "Damaged: pack 0."


def test_a_step_after_a_check_says_so() -> None:
    response = {"check": 3, "step": "repaired", "detail": "by restic"}
    assert entry(leaf("check-response", response), "day").title == (
        "After check 3: repaired: by restic"
    )
