"""`holdfast status` says in words what is wrong with the fleet, and what to do about it."""

from dataclasses import replace

import pytest

from holdfast.cli.status import _describe
from holdfast.control.incidents.alerts import Alert
from holdfast.control.incidents.types import State, Step
from holdfast.control.queries.confidence import FleetConfidence, KnownDamage
from holdfast.control.queries.fleet import Activity, Health, HoldingStatus, Status
from holdfast.control.queries.incidents import CaseStep, FollowUp
from holdfast.model.estimate import Estimate
from holdfast.owner.losses import FileLoss

HOUR = 3_600_000
NOW = 100 * 24 * HOUR
WELL = Status(
    at=NOW,
    holdings=3,
    fine=True,
    overdue=0,
    quarantined=0,
    damaged=0,
    silent=0,
    cases=0,
    worst=(),
    evidence=1,
    checkpoint=None,
    anchor=None,
    policies={},
    alerts=(),
    past_losses=(),
    repairs=(),
    coverage=(),
    nodes=(),
    confidence=None,
)
EVIDENCE = "holdfast evidence show --holding far shows why"
LOSS = Alert(1, "damage", "far", "7 blocks are damaged", NOW - 5 * HOUR, NOW, None)


def lines(fleet: Status) -> list[str]:
    activity = Activity(due=0, last=(), periods=())
    return [line for line in _describe(fleet, activity) if isinstance(line, str)]


def hints(fleet: Status) -> list[str]:
    return [line for line in lines(fleet) if line.startswith("->")]


def test_a_fleet_that_is_well_needs_nothing() -> None:
    assert lines(WELL)[0] == "3 holdings: all is well"
    assert hints(WELL) == []
    assert "and 3 more holdings" in lines(WELL)


def test_a_loss_of_the_last_days_is_remembered_after_its_alert_ended() -> None:
    past = replace(WELL, past_losses=(replace(LOSS, ended=NOW - HOUR),))
    verdict, loss, *_ = lines(past)
    assert verdict.startswith("3 holdings: all is well, after 1 loss in ")
    assert loss == "past loss: far: 7 blocks are damaged (1 h ago)"


def test_losses_of_one_holding_are_one_line_without_advice_of_then() -> None:
    advice = (
        "1 pack damaged: ab (changed): to repair it: mv x y; /srv/restic; repaired, audit 4 passed"
    )
    last = replace(LOSS, id=2, detail=advice, ended=NOW - HOUR)
    past = replace(WELL, past_losses=(last, replace(LOSS, ended=NOW - 2 * HOUR)))
    said = [line for line in lines(past) if line.startswith("past loss")]
    was = "past loss: far: 1 pack damaged: ab (changed); /srv/restic; repaired, audit 4 passed"
    assert said == [f"{was} (1 h ago, the last of 2)"]


def test_everything_that_is_wrong_is_counted_and_has_its_hint() -> None:
    ill = replace(WELL, overdue=1, quarantined=2, damaged=3, silent=4, alerts=(LOSS,))
    verdict, alert, *_ = lines(ill)
    assert verdict == "3 holdings: 1 overdue, 2 quarantined, 3 damaged, 4 silent, 1 alert"
    assert alert.startswith("ALERT damage: far: 7 blocks are damaged (since 1970-04-")
    assert alert.endswith(", 5 h)")
    said = hints(ill)
    for part in ("serve", "audit release", "holdfast repair", "no proof", "names faults"):
        assert sum(part in hint for hint in said) == 1, part
    assert not any("holdfast repair" in hint for hint in hints(replace(ill, cases=1)))


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("offline", "-> a node can't be reached: is it running? See holdfast doctor"),
        ("timed-out", f"-> a node took its challenge and gave no proof: {EVIDENCE}"),
        ("unknown", f"-> an audit could not be settled, which is not its node's fault: {EVIDENCE}"),
    ],
)
def test_the_hint_about_a_silent_node_says_what_it_did(outcome: str, words: str) -> None:
    """Before, it asked whether a node was running that had just refused a challenge."""
    silent = HoldingStatus("far", Health.SILENT, None, "block", 9, 1, outcome, NOW - HOUR, NOW)
    assert hints(replace(WELL, silent=1, worst=(silent,))) == [words]


def test_one_loss_is_one_line() -> None:
    """Before, it was three: the damage, the quarantine and what is lost."""
    lost = "2 blocks lost: no replica has them: photos, bytes 0 to 991"
    kinds = ("holding-quarantined", "holding-damaged")
    alerts = tuple(replace(LOSS, kind=kind, detail=lost) for kind in kinds)
    loss = FileLoss("photos", 2, ((0, 992),))
    step = CaseStep(
        1, 1, "far", 3, Step.REPAIR, State.DONE, "", NOW - HOUR, NOW - HOUR, None, (loss,)
    )
    fleet = replace(WELL, quarantined=1, alerts=alerts, repairs=(step,))
    told = [line for line in lines(fleet) if "lost" in line.lower()]
    assert len(told) == 1
    assert told[0].startswith(f"ALERT holding-quarantined, holding-damaged: far: {lost} (since ")
    assert "LOST far: photos" in "\n".join(lines(replace(fleet, alerts=())))


def test_damaged_holdings_are_named_with_what_repairs_them() -> None:
    def damaged(name: str, kind: str | None, health: Health, *, direct: bool) -> HoldingStatus:
        row = (name, health, kind, "object", 9, 1, "failed", NOW - HOUR, NOW)
        return HoldingStatus(*row, direct=direct)

    rows = (
        damaged("far", None, Health.DAMAGED, direct=False),
        damaged("photos", None, Health.DAMAGED, direct=True),
        damaged("backup", "restic", Health.QUARANTINED, direct=False),
    )
    said = hints(replace(WELL, damaged=2, quarantined=1, worst=rows))
    assert said == [
        "-> restore damaged blocks from a replica: holdfast repair far",
        "-> put back a copy of yours: holdfast repair photos --source FILE|FOLDER",
        "-> holdfast repair backup shows what is damaged and how to repair it",
        "-> when a quarantined holding is whole again: holdfast audit release backup",
    ]


def test_a_check_that_settled_nothing_is_shown_with_its_reason() -> None:
    """Before, `status` sent its reader to `doctor`, and that one back to `status`."""
    row = HoldingStatus("tapes", Health.SILENT, "command", "tape", 9, 1, "unknown", NOW, NOW)
    row = replace(row, reason="the tape robot is busy")
    assert hints(replace(WELL, silent=1, worst=(row,))) == [
        "-> the last check of tapes could not say whether it is intact: the tape robot is busy"
    ]


def test_a_follow_up_after_a_time_out_is_no_repair() -> None:
    waiting = FollowUp("far", 7, NOW + HOUR)
    fleet = replace(WELL, fine=False, cases=1, follow_ups=(waiting,))
    assert lines(fleet)[0] == "3 holdings: 1 under follow-up: far, next in 1 h"
    assert lines(replace(fleet, cases=2))[0].startswith("3 holdings: 1 under repair, 1 under")


def test_an_empty_fleet_is_told_how_to_begin() -> None:
    assert hints(replace(WELL, holdings=0)) == [
        "-> put a file into a holding: holdfast holding add NAME URL, then holdfast put FILE"
    ]


def test_confidence_is_shown_with_its_age() -> None:
    inferred = FleetConfidence(NOW - 2 * HOUR, Estimate(0.1, 0.0, 0.2), 4, 0.0123)
    assert (
        "confidence: at most 1.23% of all blocks damaged, at 95 %, inferred 2 h ago; "
        "see holdfast confidence"
    ) in lines(replace(WELL, confidence=inferred))


def test_known_damage_is_shown_instead_of_a_bound() -> None:
    """Before, at most 0.00% was damaged of a holding whose last audit had failed."""
    inferred = FleetConfidence(NOW, Estimate(0.1, 0.0, 0.2), 4, 0.0)
    known = (KnownDamage("far", 31, 10), KnownDamage("near", 9, None))
    said = lines(replace(WELL, damaged=2, confidence=inferred, known_damage=known))
    assert "confidence: far is damaged: 10 of 31 blocks known" in said
    assert "confidence: near is damaged, and not yet known which blocks" in said
    assert "at most" not in "\n".join(said)
