"""Promotion as an operator does it: judged by simulation and by shadow, forced, or taken back."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update
from tests.support.command_line import Workplace
from tests.support.promotion import SETTINGS, broken, champion, desk, home, policy, running
from tests.support.simulated_fleet import START
from tests.support.simulated_operation import SIGNER, Operation

from holdfast.control.policies.promotion import FLEET, ceiling_of, miss_rate, run_trials
from holdfast.control.policies.stress import stress_scenarios
from holdfast.control.settings.models import Conditions, read_control
from holdfast.durations import DAY
from holdfast.errors import InputError
from holdfast.evidence import leaf
from holdfast.model.scenario import DRIFT, FIELD, PAPER, Scenario
from holdfast.policy.serving import load_serving
from holdfast.storage.database import transaction
from holdfast.storage.schema import versions

__all__ = ["desk", "home", "running"]  # fixtures

TWIN = "drqn-cmdp-plus:rho=0.05,latency=9.1"  # another version, whose dial is the default one


@pytest.mark.slow(seconds=20)
def test_who_keeps_the_ceiling_and_does_well_in_shadow_is_promoted(
    desk: Workplace, running: Operation
) -> None:
    old = champion(running)
    new = policy(desk, "add", TWIN, "--challenger")["version"]
    early = policy(desk, "promote", "--dry-run", code=1)
    assert broken(early) == ["shadow"], "it was never beside the champion"
    running.until(START + 10 * DAY)
    early = policy(desk, "promote", code=1)
    assert (broken(early), early["promoted"]) == (["shadow"], False)
    running.until(START + 30 * DAY)
    beside = policy(desk, "shadow")
    assert beside["champion"] == old
    assert beside["comparison"]["agreement"]["value"] == 1
    dry = policy(desk, "promote", "--dry-run")
    assert (dry["passed"], dry["promoted"], champion(running)) == (True, False, old)
    verdict = policy(desk, "promote", "--reason", "it is ready")
    assert (verdict["passed"], verdict["promoted"], verdict["forced"]) == (True, True, False)
    assert champion(running) == new
    assert policy(desk, "rollback")["champion"] == old
    assert champion(running) == old
    told = [each["change"] for each in policy(desk, "history")["changes"]]
    assert told == ["rolled-back", "promoted", "named", "promoted"]


@pytest.mark.slow
def test_who_would_break_the_ceiling_is_promoted_by_force_alone(
    desk: Workplace, running: Operation
) -> None:
    old = champion(running)
    new = policy(desk, "add", "fixed-low", "--challenger")["version"]
    running.until(START + 30 * DAY)
    verdict = policy(desk, "promote", new[:8], code=1)
    assert FLEET in broken(verdict)
    assert champion(running) == old
    assert policy(desk, "promote", "--dry-run", code=1)["passed"] is False
    finished = desk.run("policy", "promote")
    assert (finished.code, finished.stderr) == (1, "")
    assert "NOT promoted" in finished.stdout
    assert re.search(r"^FAILED +miss rate", finished.stdout, re.MULTILINE)
    assert "needs --reason" in desk.run("policy", "promote", "--force").sentence()
    forced = policy(desk, "promote", "--force", "--reason", "for a drill")
    assert (forced["promoted"], forced["forced"]) == (True, True)
    assert champion(running) == new

    running.sequencer.sequence()
    changes = [
        each
        for entry in running.log().entries()
        if isinstance(each := leaf.decode(entry.leaf), leaf.PolicyChange)
    ]
    last = changes[-1]
    assert (last.forced, last.reason, last.policy.hash.hex()) == (True, "for a drill", new)
    assert last.previous is not None
    assert last.previous.hash.hex() == old
    assert [check.name for check in last.checks if not check.passed] == broken(forced)
    shown = desk.run("evidence", "show").stdout
    assert "promoted by force" in shown
    assert "for a drill" in shown
    assert "miss rate: BROKEN" in shown
    verified = desk.run("evidence", "verify", "--key", str(SIGNER.verifier), "--json")
    assert verified.data["fine"]


@pytest.mark.slow
def test_dearer_by_more_than_the_margin_is_refused_unless_the_champion_breaks_the_ceiling(
    desk: Workplace, running: Operation, home: Path
) -> None:
    policy(desk, "add", "drqn-cmdp-plus:rho=0.03", "--challenger")
    running.until(START + 60 * DAY)
    assert broken(policy(desk, "promote", "--dry-run", code=1)) == ["gas a month"]
    (home / "holdfast.toml").write_text(SETTINGS + "ceiling = 0.035\n")
    lax = policy(desk, "promote", "--dry-run")
    (gas,) = [check for check in lax["checks"] if check["name"] == "gas a month"]
    assert "the champion breaks the ceiling" in gas["detail"]


@pytest.mark.slow
def test_what_was_tampered_with_is_neither_promoted_nor_rolled_back_to(
    desk: Workplace, running: Operation
) -> None:
    old = champion(running)
    new = policy(desk, "add", TWIN)["version"]
    for version, command in (
        (new, ("promote", new, "--force", "--reason", "hurry")),
        (new, ("challenge", new)),
        (new, ("show", new)),
    ):
        with transaction(running.engine) as connection:
            changed = update(versions).where(versions.c.id == version)
            connection.execute(changed.values(options="rho=0.9"))
        assert "is refused" in desk.run("policy", *command).sentence()
    assert champion(running) == old
    low = policy(desk, "add", "fixed-low")["version"]
    policy(desk, "promote", low, "--force", "--reason", "a drill")
    with transaction(running.engine) as connection:
        changed = update(versions).where(versions.c.id == old)
        connection.execute(changed.values(weights=b"other"))
    assert "is refused" in desk.run("policy", "rollback").sentence()
    assert champion(running) == low


def test_a_champion_that_is_broken_can_be_replaced_by_force(
    desk: Workplace, running: Operation
) -> None:
    new = policy(desk, "add", "fixed-high")["version"]
    changed = update(versions).where(versions.c.id == champion(running))
    with transaction(running.engine) as connection:
        connection.execute(changed.values(weights=b"other"))
    assert "is refused" in desk.run("policy", "promote", new).sentence()
    forced = policy(desk, "promote", new, "--force", "--reason", "the other is broken")
    assert (broken(forced), champion(running)) == (["judgement"], new)


def test_commands_tell_what_is_wrong_in_one_sentence(desk: Workplace, running: Operation) -> None:
    for command, said in (
        (("promote", "champion"), "is the champion already"),
        (("promote",), "there is no challenger"),
        (("shadow",), "there is no challenger"),
        (("show", "ffff"), "there is no version"),
        (("rollback",), "there is no previous"),
        (("withdraw",), "no challenger"),
        (("add", "nobody"), "there is no policy"),
        (("add", "oracle"), "needs hidden state"),
        (("challenge", "champion"), "is the champion already"),
    ):
        assert said in desk.run("policy", *command).sentence()
    assert len(policy(desk, "list")["versions"]) == 1
    assert policy(desk, "show", "champion")["version"] == champion(running)


@pytest.mark.slow
def test_texts_for_people_name_the_versions(desk: Workplace, running: Operation) -> None:
    new = policy(desk, "add", "heuristic", "--challenger", "--reason", "try it")["version"]
    assert "has not decided" in desk.run("policy", "shadow").stdout
    running.until(START + 20 * DAY)
    for command, said in (
        (("policy", "list"), f"{new[:12]}   heuristic        challenger"),
        (("policy", "show", "champion"), "made for a miss rate of at most 0.05"),
        (("policy", "show", "champion"), "trained for paper"),
        (("policy", "shadow"), "gas per month"),
        (("policy", "history"), f"heuristic ({new[:12]}) named by"),
        (("policy", "history"), ": try it"),
        (("status",), f"challenger: heuristic ({new[:12]})"),
    ):
        assert said in desk.run(*command).stdout
    assert desk.run("policy", "withdraw").stdout == "there is no challenger any more\n"
    assert "runs in shadow" in desk.run("policy", "challenge", new[:6]).stdout


def test_the_conditions_are_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.toml"
    path.write_text('[control.promotion]\nceiling = 0.1\nshadow = "3 days"\ngas_margin = 0\n')
    found = read_control(tmp_path).promotion
    assert found == replace(Conditions(), ceiling=0.1, shadow=3 * DAY, gas_margin=0.0)
    for text, said in (
        ("ceiling = 2", "below 1"),
        ("stress = 0.5", "at least 1"),
        ("episodes = 0", "at least 1"),
        ("shadow = 14", "such as"),
        ("patience = 3", "unknown key"),
    ):
        path.write_text(f"[control.promotion]\n{text}\n")
        with pytest.raises(InputError, match=said):
            read_control(tmp_path)


def test_the_ceiling_is_that_of_the_settings_or_of_the_champion(running: Operation) -> None:
    own = load_serving("drqn-cmdp-plus", PAPER)
    assert ceiling_of(running.engine, Conditions(), own) == 0.05
    assert ceiling_of(running.engine, Conditions(ceiling=0.2), own) == 0.2
    with pytest.raises(InputError, match="made for no ceiling"):
        ceiling_of(running.engine, Conditions(), load_serving("fixed-high", PAPER))


@pytest.mark.parametrize("scenario", [PAPER, DRIFT, FIELD, replace(PAPER, malicious_rate=0.9)])
def test_stressed_worlds_are_worlds_and_differ_from_the_one_they_came_from(
    scenario: Scenario,
) -> None:
    variants = stress_scenarios(scenario)
    assert len(set(map(repr, variants.values()))) == len(variants)
    assert scenario not in variants.values()


def test_without_a_miss_the_interval_still_has_a_width() -> None:
    quiet = replace(PAPER, malicious_share=1.0, horizon=28)
    found = miss_rate(load_serving("constant:14,0.20", PAPER), quiet, 5, seed=0)
    assert found.value == 0
    assert 0.1 < found.high < 0.5


@pytest.mark.slow
def test_what_was_never_met_is_not_kept() -> None:
    calm = replace(PAPER, malicious_share=0.0, honest_rate=0.0, malicious_rate=0.0)
    found = run_trials(load_serving("fixed-high", PAPER), calm, 0.5, Conditions(episodes=2), seed=0)
    assert not any(trial.kept for trial in found)
    json.dumps([trial.check().detail for trial in found], allow_nan=False)
