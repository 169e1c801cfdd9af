"""What a checkpoint's manifest claims counts for nothing until promotion has measured it."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.command_line import Workplace
from tests.support.promotion import broken, champion, desk, home, policy, running
from tests.support.simulated_fleet import START
from tests.support.simulated_operation import Operation

from holdfast.control.policies.active import PolicyLoader
from holdfast.control.policies.claims import compare_claims
from holdfast.control.policies.promotion import ceiling_of, fresh_seed
from holdfast.control.policies.versions import Registry
from holdfast.control.settings.models import Conditions
from holdfast.durations import DAY
from holdfast.evidence import leaf
from holdfast.model.observation import OBSERVATION
from holdfast.model.scenario import PAPER, SCENARIOS
from holdfast.policy import checkpoint
from holdfast.policy.serving import load_serving
from holdfast.policy.shipped import shipped, shipped_folder
from holdfast.sim.evaluation import evaluate
from holdfast.sim.measures import measure

__all__ = ["desk", "home", "running"]  # fixtures

SLOW = np.array([[0.5, 0.5, 0.999, 0.0, 1.0]])  # an answer that took 200 seconds

Manifest = dict[str, Any]


def forge(folder: Path, change: Callable[[Manifest], None]) -> str:
    """Write the shipped checkpoint with another manifest, and return its folder."""
    manifest, weights = checkpoint.read(shipped_folder("drqn-cmdp-plus", "paper"))
    claims = json.loads(manifest)
    change(claims)
    checkpoint.write(folder, json.dumps(claims).encode(), weights)
    return str(folder)


def claim_boundless(manifest: Manifest) -> None:
    manifest["envelope"] = dict.fromkeys(OBSERVATION, (-1e300, 1e300))


def claim_everything(manifest: Manifest) -> None:
    """Claim as much as loading lets pass."""
    manifest["envelope"] = dict.fromkeys(OBSERVATION, (0.0, 1.0))


def claim_no_misses(manifest: Manifest) -> None:
    own = asdict(load_serving("drqn-cmdp-plus", PAPER).policy.dial)  # type: ignore[attr-defined]
    (validated,) = [each for each in manifest["dials"] if each["dial"] == own]
    validated["miss_rate"] = 1e-9
    manifest["evaluation"]["miss_rate"] = {"value": 1e-9, "low": 0.0, "high": 1e-9}


def check(verdict: Any, name: str) -> Any:
    (found,) = [each for each in verdict["checks"] if each["name"] == name]
    return found


def test_an_envelope_beyond_what_a_signal_can_be_is_refused(
    desk: Workplace, running: Operation, tmp_path: Path
) -> None:
    """Before, it was promoted: its bounds were infinite, and no observation lay outside."""
    said = desk.run("policy", "add", forge(tmp_path / "forged", claim_boundless)).sentence()
    assert "a signal lies between 0 and 1" in said
    assert len(policy(desk, "list")["versions"]) == 1
    assert not PolicyLoader(running.engine).now().champion.in_envelope(SLOW).any()


@pytest.mark.slow
def test_the_fail_safe_fires_outside_of_what_promotion_met_whatever_is_claimed(
    desk: Workplace, running: Operation, tmp_path: Path
) -> None:
    """Before, a claim of 0 to 1 was taken as it stood, and the fail-safe never fired."""
    new = policy(desk, "add", forge(tmp_path / "forged", claim_everything), "--challenger")
    running.until(START + 30 * DAY)
    roster = PolicyLoader(running.engine)
    (challenger,) = roster.now().shadows
    assert challenger.in_envelope(SLOW).all(), "in shadow it decides nothing"
    verdict = policy(desk, "promote")
    told = check(verdict, "envelope")["detail"]
    assert "latency 0 to 1 claimed" in told
    assert roster.now().champion.version == new["version"]
    assert not roster.now().champion.in_envelope(SLOW).any()
    assert not PolicyLoader(running.engine).now().champion.in_envelope(SLOW).any(), (
        "of another host, too"
    )
    met = verdict["figures"]["envelope"]["met"]
    assert 0.9 < met["latency"][1] < 0.999


@pytest.mark.slow
def test_nodes_in_good_standing_stay_inside_of_what_promotion_met(
    desk: Workplace, running: Operation
) -> None:
    """The policy alone meets a reputation of 0.6; a node that passes daily for a year has more."""
    policy(desk, "add", "drqn-cmdp-plus:rho=0.05,latency=9.1", "--challenger")
    running.until(START + 30 * DAY)
    met = policy(desk, "promote")["figures"]["envelope"]["met"]
    assert met["reputation"] == pytest.approx((1 / 7, 6 / 7), abs=0.01)
    assert met["previous_interval"] == met["pass_rate"] == [0.0, 1.0]
    assert met["consecutive_failures"][1] > 0.99
    healthy = np.array([[0.84, 1.0, 0.5, 0.0, 1.0]])
    assert PolicyLoader(running.engine).now().champion.in_envelope(healthy).all()


@pytest.mark.slow
def test_figures_that_the_measurement_contradicts_are_told_and_stand_in_the_way(
    desk: Workplace, running: Operation, tmp_path: Path
) -> None:
    """Before, a miss rate of 1e-9 was claimed, never measured, and shown as it stood."""
    old = champion(running)
    policy(desk, "add", forge(tmp_path / "forged", claim_no_misses), "--challenger")
    running.until(START + 30 * DAY)
    verdict = policy(desk, "promote", code=1)
    assert broken(verdict) == ["claims"]
    told = check(verdict, "claims")["detail"]
    assert "in the world paper: miss rate 1e-09 claimed, 0.04" in told
    assert champion(running) == old


@pytest.mark.slow
def test_a_manifest_does_not_loosen_the_ceiling_for_the_version_after_it(
    desk: Workplace, running: Operation, tmp_path: Path
) -> None:
    """Before, a champion that claimed to be made for 0.9 let in whatever missed less than that."""

    def lax(manifest: Manifest) -> None:
        manifest["default"] |= {"rho": 0.9, "latency": 9.1}
        own = asdict(load_serving("drqn-cmdp-plus", PAPER).policy.dial)  # type: ignore[attr-defined]
        manifest["dials"] = [each for each in manifest["dials"] if each["dial"] == own]

    policy(desk, "add", forge(tmp_path / "forged", lax), "--challenger")
    running.until(START + 30 * DAY)
    assert policy(desk, "promote")["promoted"]
    served = PolicyLoader(running.engine).now().champion
    assert served.rho == 0.9
    assert ceiling_of(running.engine, Conditions(), served) == 0.05
    assert ceiling_of(running.engine, Conditions(ceiling=0.2), served) == 0.2, "an operator may"


@pytest.mark.slow
def test_episodes_are_drawn_anew_for_every_judgement_and_can_be_repeated(
    desk: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the seed was 0 for ever: two judgements had the same figures."""
    monkeypatch.setattr("holdfast.control.policies.promotion.fresh_seed", fresh_seed)
    policy(desk, "add", "constant:14,0.05", "--challenger")
    first, second = (policy(desk, "promote", "--dry-run", code=1) for _ in range(2))
    seeds = [each["figures"]["seed"] for each in (first, second)]
    assert len(set(seeds)) == 2
    assert first["figures"]["trials"] != second["figures"]["trials"]
    again = policy(desk, "promote", "--dry-run", "--seed", str(seeds[0]), code=1)
    assert again == first
    assert "--seed needs --dry-run" in desk.run("policy", "promote", "--seed", "1").sentence()


@pytest.mark.slow
def test_the_evidence_has_the_seed_and_the_claims(
    desk: Workplace, running: Operation, tmp_path: Path
) -> None:
    policy(desk, "add", forge(tmp_path / "forged", claim_no_misses), "--challenger")
    done = policy(desk, "promote", "--force", "--reason", "a drill")
    running.sequencer.sequence()
    leaves = [leaf.decode(entry.leaf) for entry in running.log().entries()]
    last = [each for each in leaves if isinstance(each, leaf.PolicyChange)][-1]
    told = {each.name: each.detail for each in last.checks}
    assert str(done["figures"]["seed"]) in told["episodes"]
    assert "1e-09 claimed" in told["claims"]
    assert "envelope" in told


@pytest.mark.slow
def test_a_rule_claims_nothing(desk: Workplace, running: Operation) -> None:
    policy(desk, "add", "constant:14,0.05", "--challenger")
    names = [each["name"] for each in policy(desk, "promote", "--dry-run", code=1)["checks"]]
    assert "claims" not in names
    assert "envelope" not in names
    assert Registry(running.engine).serving(champion(running)).manifest is not None


@pytest.mark.slow
@pytest.mark.parametrize("place", shipped(), ids=lambda place: f"{place.method}@{place.scenario}")
def test_what_ships_claims_what_is_measured(place: Any) -> None:
    world = SCENARIOS[place.scenario]
    served = load_serving(f"{place.method}@{place.scenario}", world)
    assert served.manifest is not None
    found = measure(evaluate(served.policy, world, episodes=500, seed=3))
    measured = {name: getattr(found, name) for name in ("miss_rate", "gas", "latency")}
    claims = compare_claims(served.manifest, served.policy, measured)
    assert {claim.figure for claim in claims} == measured.keys()
    assert [str(claim) for claim in claims if not claim.kept] == []
