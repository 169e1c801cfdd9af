"""Policies are found by the names that users write."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.checkpoints import CHEAP, MANIFEST, PLAIN, STRICT, SWIFT, random_weights

from holdfast.errors import InputError
from holdfast.model.action import GRID
from holdfast.model.scenario import DRIFT, FIELD, PAPER, Scenario
from holdfast.model.truth import Truth
from holdfast.policy import shipped
from holdfast.policy.belief import BeliefPolicy
from holdfast.policy.checkpoint import Manifest, save
from holdfast.policy.interface import AnyPolicy
from holdfast.policy.learned import Learned
from holdfast.policy.registry import LEARNED, NAMES, dial_names, held_to, policy_named

UNTRAINED = [name for name in NAMES if name != "constant" and name not in LEARNED]


def first_action(policy: AnyPolicy) -> int:
    state = policy.initial_state(1)
    seen = np.full((1, 5), 0.5)
    if policy.privileged:
        actions, _ = policy.act(state, seen, Truth(np.array([False]), np.array([0])))
    else:
        actions, _ = policy.act(state, seen)
    return int(actions[0])


@pytest.mark.parametrize("name", UNTRAINED)
def test_every_name_gives_a_policy_that_acts(name: str) -> None:
    assert 0 <= first_action(policy_named(name, PAPER)) < GRID.size


def test_only_the_references_are_privileged() -> None:
    privileged = {name for name in UNTRAINED if policy_named(name, PAPER).privileged}
    assert privileged == {"oracle", "clairvoyant"}


def test_a_constant_is_named_by_its_action() -> None:
    policy = policy_named("constant:14,0.20", PAPER)
    assert GRID.action(first_action(policy)) == (14, 0.20)


def test_options_set_the_ceilings() -> None:
    default = policy_named("belief", PAPER)
    assert policy_named("belief:rho=0.05", PAPER) is default
    swift = policy_named("belief:rho=0.045,latency=7.5", PAPER)
    assert isinstance(default, BeliefPolicy)
    assert isinstance(swift, BeliefPolicy)
    assert swift.plan.mixture.totals[0] > default.plan.mixture.totals[0]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("beliefs", "the known ones are fixed-high, fixed-low,.*constant, belief, clairvoyant"),
        ("heuristic:0.5", "takes no options"),
        ("constant", "write the interval and the ratio"),
        ("constant:2,0.20", "not on the grid"),
        ("belief:nu=3", "the options are rho and latency, not 'nu=3'"),
        ("belief:rho=0.1,rho=0.2", "the options are"),
        ("belief:rho=low", "rho must be a number, not 'low'"),
        ("clairvoyant:rho=1.5", "rho must lie between 0 and 1"),
        ("belief:rho=nan", "rho must lie between 0 and 1"),
    ],
)
def test_a_name_that_means_nothing_is_refused_with_a_reason(name: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        policy_named(name, PAPER)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder whose checkpoints take the place of those in the package."""
    root = tmp_path / "checkpoints"
    monkeypatch.setattr(shipped, "ROOT", root)
    return root


def ship(root: Path, manifest: Manifest, scenario: Scenario, method: str, seed: int = 0) -> None:
    trained = replace(manifest, method=method, scenario=scenario)
    save(root / scenario.name / method, trained, random_weights(manifest.architecture, seed))


def learned(name: str, scenario: Scenario = PAPER) -> Learned:
    policy = policy_named(name, scenario)
    assert isinstance(policy, Learned)
    return policy


def test_every_checkpoint_in_the_package_decides() -> None:
    for checkpoint in shipped.shipped():
        assert checkpoint.method in LEARNED
        name = f"{checkpoint.method}@{checkpoint.scenario}"
        assert 0 <= first_action(policy_named(name, PAPER)) < GRID.size


@pytest.mark.parametrize("method", LEARNED)
def test_every_learned_method_is_known_by_name(method: str, shelf: Path) -> None:
    with pytest.raises(InputError, match=f"no checkpoint of {method} is shipped: train one"):
        policy_named(method, PAPER)
    ship(shelf, PLAIN, PAPER, method)
    assert 0 <= first_action(policy_named(method, PAPER)) < GRID.size


def test_a_learned_method_is_taken_as_shipped_for_the_scenario_or_the_one_named(
    shelf: Path,
) -> None:
    ship(shelf, PLAIN, PAPER, "dqn", seed=1)
    ship(shelf, PLAIN, DRIFT, "dqn", seed=2)
    pairs = [checkpoint[:2] for checkpoint in shipped.shipped()]
    assert pairs == [("drift", "dqn"), ("paper", "dqn")]

    def bias(name: str, scenario: Scenario) -> list[float]:
        return [float(x) for x in learned(name, scenario).parameters["action.bias"]]

    assert bias("dqn", PAPER) == bias("dqn@paper", DRIFT) == bias("dqn@paper", FIELD)
    assert bias("dqn", DRIFT) == bias("dqn@drift", PAPER) != bias("dqn", PAPER)
    for name in ("dqn", "dqn@field"):
        with pytest.raises(InputError, match="scenario 'field': there is dqn@drift, dqn@paper"):
            policy_named(name, FIELD)


def test_options_turn_the_dial_of_a_learned_policy(shelf: Path) -> None:
    ship(shelf, MANIFEST, PAPER, "drqn-cmdp-plus")
    assert learned("drqn-cmdp-plus").dial == STRICT.dial
    assert learned("drqn-cmdp-plus:rho=0.2").dial == CHEAP.dial
    assert learned("drqn-cmdp-plus@paper:rho=0.2,latency=8", DRIFT).dial == SWIFT.dial


def test_a_dial_is_set_by_its_number_too(shelf: Path) -> None:
    ship(shelf, MANIFEST, PAPER, "drqn-cmdp-plus")
    dials = [learned(f"drqn-cmdp-plus:dial={number}").dial for number in (1, 2, 3)]
    assert dials == [checkpoint.dial for checkpoint in (CHEAP, SWIFT, STRICT)]
    held = held_to("drqn-cmdp-plus:dial=2", 0.25)
    assert held == "drqn-cmdp-plus:dial=2,rho=0.25"
    assert learned(held).dial == SWIFT.dial, "the ceiling beside a number chooses nothing"
    assert held_to("belief:rho=0.1", 0.25) == "belief:rho=0.1"


def test_the_names_of_all_settings_mean_the_same_everywhere(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(shelf, MANIFEST, PAPER, "drqn-cmdp-plus")
    ship(shelf, PLAIN, PAPER, "dqn")
    names = dial_names("drqn-cmdp-plus", PAPER)
    assert names == [f"drqn-cmdp-plus@paper:dial={number}" for number in (1, 2, 3)]
    assert learned(names[1], DRIFT).dial == SWIFT.dial
    assert dial_names("drqn-cmdp-plus@paper:dial=2,rho=0.2", DRIFT) == names
    assert dial_names("dqn", PAPER) == ["dqn@paper"]
    assert dial_names("belief:rho=0.1", PAPER) == ["belief:rho=0.1"]

    monkeypatch.chdir(tmp_path)
    save(Path("run"), MANIFEST, random_weights(MANIFEST.architecture))
    names = dial_names("run", PAPER)
    monkeypatch.chdir("/")
    assert [learned(name).dial for name in names] == [CHEAP.dial, SWIFT.dial, STRICT.dial]


def test_a_folder_stands_in_place_of_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save(Path("run"), MANIFEST, random_weights(MANIFEST.architecture))
    save(Path("runs/at 10:30"), MANIFEST, random_weights(MANIFEST.architecture))
    for folder in ("run", "./run", str(tmp_path / "run"), "runs/at 10:30"):
        assert learned(folder).dial == STRICT.dial
        assert learned(f"{folder}:rho=0.2").dial == CHEAP.dial
        assert learned(f"{folder}:rho=0.2,latency=8").dial == SWIFT.dial


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("dqn:rho=0.1", "policy dqn:rho=0.1: it has no dial to set: it takes no options"),
        ("drqn-cmdp-plus:rho=0.001", "policy drqn.*the lowest miss rate is 0.03"),
        ("drqn-cmdp-plus:nu=3", "the options are rho, latency and dial, not 'nu=3'"),
        ("drqn-cmdp-plus:dial=4", "there is no dial 4: they are numbered 1 to 3"),
        ("drqn-cmdp-plus:dial=0", "there is no dial 0"),
        ("drqn-cmdp-plus:dial=one", "dial must be a number, not 'one'"),
        ("drqn-cmdp-plus:dial=1.5", "dial must be a whole number, not 1.5"),
        ("drqn-cmdp-plus:dial=1,rho=1.5", "rho must lie between 0 and 1"),
        ("belief:dial=1", "the options are rho and latency, not 'dial=1'"),
        ("dqn:dial=1", "it has no dial to set: it takes no options"),
        ("drqn-cmdp-plus@moon", "there is drqn-cmdp-plus@paper"),
        ("belief@paper", "there is no policy 'belief@paper'"),
        ("", "there is no policy ''"),
        ("x" * 300, "there is no policy 'xxx"),
        ("runs/none", "can't read runs/none/manifest.json"),
        ("runs/none:rho=0.1", "can't read runs/none/manifest.json"),
    ],
)
def test_a_learned_policy_that_cannot_be_had_is_refused_with_a_reason(
    name: str, reason: str, shelf: Path
) -> None:
    ship(shelf, PLAIN, PAPER, "dqn")
    ship(shelf, MANIFEST, PAPER, "drqn-cmdp-plus")
    with pytest.raises(InputError, match=reason):
        policy_named(name, PAPER)
